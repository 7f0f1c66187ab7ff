"""Display names and colours of models, datasets, scenarios, measures and metrics."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from lopgpn_exp.measures import find_measure, sort_measures

# In the order of the paper's table.
MODEL_NAMES = {
    "appnp": "APPNP",
    "matern_ggp": "Matern-GGP",
    "gkde": "GKDE",
    "gpn_sym": "GPN (sym)",
    "gpn_rw": "GPN (rw)",
    "lop_gpn": "LOP-GPN",
}
MODEL_NAMES_BEYOND = {  # those that the paper does not have
    "gpn_10": "GPN (10)",
    "gcn": "GCN",
    "gat": "GAT",
    "mlp": "MLP",
    "gnnsafe": "GNNSafe",
    "gebm": "GEBM",
    "gcn_dropout": "GCN, dropout",
    "gcn_ensemble": "GCN, ensemble",
    "sgcn": "GKDE-GCN",
    "egnn": "EGNN",
    "egnn_vacuity": "EGNN, vacuity",
    "egnn_evidence": "EGNN, evidence",
    "egnn_both": "EGNN, both",
    "cuq_appnp": "CUQ-APPNP",
    "cuq_gcn": "CUQ-GCN",
    "cuq_gat": "CUQ-GAT",
    "epn": "EPN",
    "epn_reg": "EPN-reg",
}
DATASET_NAMES = {
    "cora_ml": "CoraML",
    "citeseer": "CiteSeer",
    "amazon_photos": "Amazon Photos",
    "amazon_computers": "Amazon Computers",
    "pubmed": "PubMed",
    "ogbn_arxiv": "OGBN Arxiv",
}
DATASET_NAMES_BEYOND = {  # those that the paper does not have
    "coauthor_cs": "Coauthor CS",
    "coauthor_physics": "Coauthor Physics",
    "tolokers": "Tolokers",
    "minesweeper": "Minesweeper",
    "chameleon_filtered": "Chameleon (filtered)",
    "squirrel_filtered": "Squirrel (filtered)",
}
SCENARIO_NAMES = {
    "none": "clean",
    "leave_out_classes": "Leave-out classes",
    "bernoulli": "Ber(0.5)",
    "gaussian": "N(0, 1)",
}
SCENARIO_NAMES_BEYOND = {
    **{f"os_{number}": f"OS-{number}" for number in range(1, 6)},
    "near_features": "Near features",
    "popularity": "Popularity",
    "locality": "Locality",
    "density": "Density",
}

# By path. A path such as `ood/auroc` stands for one metric per measure: `ood/auroc/tu`, `ood/auroc/eu`, ...
METRIC_NAMES = {
    "test/accuracy": "accuracy",
    "id/accuracy": "ID accuracy",
    "ood/accuracy": "OOD accuracy",
    "test/ece": "ECE",
    "test/brier": "Brier",
    "test/nll": "NLL",
    "val/accuracy": "validation accuracy",
    "val/nll": "validation NLL",
    "test/auarc": "AUARC",
    "error/auroc": "error AUC-ROC",
    "error/aupr": "error AUC-PR",
    "ood/auroc": "AUC-ROC",
    "ood/aupr": "AUC-PR",
    "ood/fpr95": "FPR95",
    "change": "change",
    "shift/mean": "mean",
    "sets/coverage": "set coverage",
    "sets/size": "set size",
    "sets/size_ood": "set size of OOD nodes",
    "sets/singletons": "sets of one class",
    "sets/empty": "empty sets",
}
ACCURACY = ("test/accuracy", "id/accuracy", "ood/accuracy")
CALIBRATION = ("test/ece", "test/brier", "test/nll")

NO_VALUE = "-"  # as in the paper's table

# Paul Tol's bright scheme, which colour-blind readers can distinguish.
MODEL_COLORS = {
    "appnp": "#CCBB44",
    "matern_ggp": "#66CCEE",
    "gkde": "#AA3377",
    "gpn_sym": "#228833",
    "gpn_rw": "#4477AA",
    "lop_gpn": "#EE6677",
}
# For models and measures that users add: colours of Tol's other schemes that differ clearly from those above.
OTHER_COLORS = ("#EE7733", "#009988", "#BBBBBB", "#997700", "#EE3377", "#44BB99")


def model_name(model: str) -> str:
    return (MODEL_NAMES | MODEL_NAMES_BEYOND).get(model, model)


def dataset_name(dataset: str) -> str:
    return (DATASET_NAMES | DATASET_NAMES_BEYOND).get(dataset, dataset)


def scenario_name(scenario: str) -> str:
    return (SCENARIO_NAMES | SCENARIO_NAMES_BEYOND).get(scenario, scenario)


def measure_name(measure: str) -> str:
    registered = find_measure(measure)
    return measure if registered is None else registered.symbol


def metric_name(metric: str) -> str:
    """Return the display name of a metric, for example `AUC-ROC EU_SO` for `ood/auroc/eu_so`."""
    path, _, measure = metric.rpartition("/")
    if metric in METRIC_NAMES:
        return METRIC_NAMES[metric]
    return f"{METRIC_NAMES[path]} {measure_name(measure)}" if path in METRIC_NAMES else metric


def measure_column(path: str) -> str:
    """Return the heading of a metric such as `ood/auroc` in a table with one row per measure: `OOD AUC-ROC`."""
    return METRIC_NAMES[path] if path.startswith("test/") else f"OOD {METRIC_NAMES[path]}"


def sort_names(names: Iterable[str], order: Iterable[str]) -> list[str]:
    """Return each name once: first those in `order`, in that order, then the others in order of appearance."""
    distinct = dict.fromkeys(names)
    listed = [name for name in order if name in distinct]
    return listed + [name for name in distinct if name not in listed]


def find_measures(keys: Iterable[str], path: str) -> list[str]:
    """Return the measures for which there is a key `path/<measure>`, in the order of tables."""
    prefix = f"{path}/"
    return sort_measures(key.removeprefix(prefix) for key in keys if key.startswith(prefix))


def measure_color(measure: str) -> str:
    registered = find_measure(measure)
    return _other_color(measure) if registered is None else registered.color


def model_color(model: str) -> str:
    return MODEL_COLORS.get(model) or _other_color(model)


def model_colors(models: Iterable[str]) -> dict[str, str]:
    """Return `model_color` of models that are shown together, with another colour in place of a repeated one.

    Colours repeat only if there are more models than colours.
    """
    colors: dict[str, str] = {}
    for model in sorted(set(models), key=lambda name: (name not in MODEL_COLORS, name)):
        preferred = model_color(model)
        unused = [color for color in (preferred, *OTHER_COLORS) if color not in colors.values()]
        colors[model] = next(iter(unused), preferred)
    return colors


def _other_color(name: str) -> str:
    """Return a colour that depends on the name alone, so that it is the same on every page."""
    return OTHER_COLORS[blake2b(name.encode(), digest_size=1).digest()[0] % len(OTHER_COLORS)]
