"""What things are called and coloured wherever people see them."""

from collections.abc import Iterable
from hashlib import blake2b

MEASURE_NAMES = {"tu": "TU", "au": "AU", "eu": "EU", "eu_pc": "EU_PC", "eu_so": "EU_SO", "lconf": "LConf"}

# In the order of the paper's table.
MODEL_NAMES = {
    "appnp": "APPNP",
    "matern_ggp": "Matern-GGP",
    "gkde": "GKDE",
    "gpn_sym": "GPN (sym)",
    "gpn_rw": "GPN (rw)",
    "lop_gpn": "LOP-GPN",
}
DATASET_NAMES = {
    "cora_ml": "CoraML",
    "citeseer": "CiteSeer",
    "amazon_photos": "Amazon Photos",
    "amazon_computers": "Amazon Computers",
    "pubmed": "PubMed",
    "ogbn_arxiv": "OGBN Arxiv",
}
SCENARIO_NAMES = {
    "none": "clean",
    "leave_out_classes": "Leave-out classes",
    "bernoulli": "Ber(0.5)",
    "gaussian": "N(0, 1)",
}

NO_VALUE = "-"  # as the paper prints it

# Paul Tol's bright scheme: told apart by colour-blind readers too.
MEASURE_COLORS = {
    "tu": "#4477AA",
    "au": "#EE6677",
    "eu": "#228833",
    "eu_pc": "#CCBB44",
    "eu_so": "#66CCEE",
    "lconf": "#AA3377",
}
MODEL_COLORS = {
    "appnp": "#CCBB44",
    "matern_ggp": "#66CCEE",
    "gkde": "#AA3377",
    "gpn_sym": "#228833",
    "gpn_rw": "#4477AA",
    "lop_gpn": "#EE6677",
}
# Of Tol's other schemes, what none of the above is taken for: a user's own models and measures.
OTHER_COLORS = ("#EE7733", "#009988", "#BBBBBB", "#997700", "#EE3377", "#44BB99")


METRIC_NAMES = {
    "test/accuracy": "accuracy",
    "id/accuracy": "ID accuracy",
    "ood/accuracy": "OOD accuracy",
    "test/ece": "ECE",
    "test/brier": "Brier",
    "test/nll": "NLL",
    "val/accuracy": "validation accuracy",
    "val/nll": "validation NLL",
}
KIND_NAMES = {  # before a measure's name
    "test/auarc": "AUARC",
    "ood/auroc": "AUC-ROC",
    "ood/aupr": "AUC-PR",
    "ood/fpr95": "FPR95",
    "change": "change",
}


def model_name(model: str) -> str:
    return MODEL_NAMES.get(model, model)


def model_color(model: str) -> str:
    return MODEL_COLORS.get(model) or _other_color(model)


def model_colors(models: Iterable[str]) -> dict[str, str]:
    """For models that are shown together: as `model_color`, but no two the same while there are other colours."""
    colors: dict[str, str] = {}
    for model in sorted(set(models), key=lambda name: (name not in MODEL_COLORS, name)):
        wanted = model_color(model)
        free = [color for color in (wanted, *OTHER_COLORS) if color not in colors.values()]
        colors[model] = next(iter(free), wanted)
    return colors


def measure_name(measure: str) -> str:
    return MEASURE_NAMES.get(measure, measure)


def measure_color(measure: str) -> str:
    return MEASURE_COLORS.get(measure) or _other_color(measure)


def _other_color(name: str) -> str:
    """By the name alone, so that it is the same on every page."""
    return OTHER_COLORS[blake2b(name.encode(), digest_size=1).digest()[0] % len(OTHER_COLORS)]


def metric_name(metric: str) -> str:
    """`ood/auroc/eu_so` as people read it: `AUC-ROC EU_SO`."""
    path, _, last = metric.rpartition("/")
    return METRIC_NAMES.get(metric) or (f"{KIND_NAMES[path]} {measure_name(last)}" if path in KIND_NAMES else metric)
