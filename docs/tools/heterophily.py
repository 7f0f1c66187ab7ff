"""Write outputs/heterophily: what the models are worth on graphs whose neighbours differ.

python -m docs.tools.heterophily OUTPUT_DIR    after the sweeps that the page names
python -m docs.tools.heterophily               the page and the figure again, from the stored results
"""

import sys
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from lopgpn_exp import load_results
from lopgpn_exp.config.compose import compose_config
from lopgpn_exp.config.plan import plan_run
from lopgpn_exp.data.files.survey import homophily
from lopgpn_exp.graph import Graph, Part
from lopgpn_exp.report.document import Table
from lopgpn_exp.report.names import dataset_name
from lopgpn_exp.runs.sweep_folder import label_saved_runs
from lopgpn_exp.runs.table import load_curves

FOLDER = Path(__file__).resolve().parents[2] / "outputs" / "heterophily"
DATASETS = ("chameleon_filtered", "squirrel_filtered", "minesweeper", "tolokers")
MODELS = {
    "gpn_sym num_steps 0": ("GPN, no edges", "#888888"),
    "gpn_sym num_steps 10": ("GPN (sym)", "#228833"),
    "lop_gpn": ("LOP-GPN", "#EE6677"),
    "appnp": ("APPNP", "#CCBB44"),
}
METRICS = {"test/accuracy": "accuracy", "test/auarc/tu": "AUARC TU", "error/auroc/tu": "error AUC-ROC TU"}
SPLITS = 3
TEXT = """\
# Graphs whose neighbours differ

All models here spread evidence or predictions along edges, which helps if neighbours tend to have the same class. The
survey of a graph warns where they do not. Is the warning right? Four graphs of Platonov et al. (2023), the first {n}
of their shipped splits, one initialisation. "GPN, no edges" is GPN without dispersion (`model.num_steps=0`), which sees
each node alone. "Largest class" is the accuracy of always predicting the most frequent class of the training nodes.

{graphs}

Mean ± standard error over splits, in percent:

{results}

![Accuracy of the test nodes that are left when the most uncertain ones are rejected](arc.png)

Accuracy of the remaining test nodes when the most uncertain ones (TU) are rejected; mean over splits.

## What this shows

{findings}

The runs behind this page:

```bash
lopgpn_exp model=gpn_sym,lop_gpn,appnp dataset={datasets} split.index=0,1,2 ood=none -m
lopgpn_exp model=gpn_sym model.num_steps=0 dataset={datasets} split.index=0,1,2 ood=none -m
```
"""


def main(arguments: list[str]) -> None:
    if arguments:
        FOLDER.mkdir(parents=True, exist_ok=True)
        collect(Path(arguments[0]))
    runs, curves, graphs = (pd.read_csv(FOLDER / f"{name}.csv") for name in ("runs", "curves", "graphs"))
    (FOLDER / "heterophily.md").write_text(render_page(runs, graphs))
    draw_curves(curves).savefig(FOLDER / "arc.png", dpi=110, metadata={"Software": None})


def collect(output_dir: Path) -> None:
    """Store what the page needs from the runs and the graphs."""
    runs, _ = label_saved_runs(load_results(output_dir, dataset=list(DATASETS), scenario="none"), output_dir)
    models = runs.set_index("run_id")["model"]
    runs[["dataset", "model", "split", *METRICS]].to_csv(FOLDER / "runs.csv", index=False)
    curves = load_curves(output_dir).query("measure == 'tu' and run_id in @models.index")
    curves = curves.assign(model=curves["run_id"].map(models))
    means = curves.groupby(["dataset", "model", "percent"], as_index=False)["accuracy"].mean()
    means.to_csv(FOLDER / "curves.csv", index=False)
    pd.DataFrame([describe(name) for name in DATASETS]).to_csv(FOLDER / "graphs.csv", index=False)


def describe(name: str) -> dict[str, object]:
    """Return homophily and the accuracy of the largest class of a graph."""
    accuracies = []
    for split in range(SPLITS):
        plan = plan_run(compose_config([f"dataset={name}", f"split.index={split}"]))
        graph = plan.split_dataset(plan.read_dataset())
        accuracies.append(_largest_class_accuracy(graph))
    share, by_chance = homophily(graph)
    return {"dataset": name, "homophily": share, "by_chance": by_chance, "largest": sum(accuracies) / SPLITS}


def _largest_class_accuracy(graph: Graph) -> float:
    largest = graph.labels[graph.nodes(Part.TRAIN)].mode().values
    return float((graph.labels[graph.nodes(Part.TEST)] == largest).double().mean())


def render_page(runs: pd.DataFrame, graphs: pd.DataFrame) -> str:
    graphs = graphs.set_index("dataset")
    means = 100 * runs.groupby(["dataset", "model"])[list(METRICS)].mean()
    errors = 100 * runs.groupby(["dataset", "model"])[list(METRICS)].sem()
    columns = ["graph", "edges within a class", "by chance", "largest class"]
    cells = [[dataset_name(name), *(f"{100 * value:.1f}" for value in graphs.loc[name])] for name in DATASETS]
    rows = []
    for dataset in DATASETS:
        for model, (label, _) in MODELS.items():
            pairs = zip(means.loc[dataset, model], errors.loc[dataset, model], strict=True)
            rows.append([dataset_name(dataset), label, *(f"{mean:.1f} ± {error:.1f}" for mean, error in pairs)])
    return TEXT.format(
        n={3: "three"}[SPLITS],
        datasets=",".join(DATASETS),
        graphs=Table(columns, cells, 1).markdown(),
        results=Table(["graph", "model", *METRICS.values()], rows, 2).markdown(),
        findings="\n".join(f"- {line}" for line in list_findings(means, graphs)),
    )


def list_findings(means: pd.DataFrame, graphs: pd.DataFrame) -> list[str]:
    """Return sentences whose numbers come from the results."""
    no_edges = "gpn_sym num_steps 0"
    accuracy = means["test/accuracy"].unstack()
    gains = accuracy.drop(columns=no_edges).max(axis=1) - 100 * graphs["largest"]
    useless = [dataset_name(name) for name in DATASETS if gains[name] < 1]
    useful = [f"{dataset_name(name)} ({gains[name]:+.1f})" for name in DATASETS if gains[name] >= 1]
    lines = [
        f"**Accuracy**: on {', '.join(useless)}, no model is more than 1 point better than always predicting the "
        f"largest class. The exception: {', '.join(useful)}."
    ]
    for metric, name in METRICS.items():
        table = means[metric].unstack()
        gain = table["gpn_sym num_steps 10"] - table[no_edges]
        values = ", ".join(f"{dataset_name(dataset)} {gain[dataset]:+.1f}" for dataset in DATASETS)
        lines.append(f"**What edges add to GPN**, in points of {name}: {values}.")
    lines.append(
        "So the warning is right about accuracy where edges within a class are as frequent as by chance, with one "
        "exception; but edges can still show which predictions are wrong. A run with `model.num_steps=0` tells "
        "whether they help."
    )
    return lines


def draw_curves(curves: pd.DataFrame) -> Figure:
    figure = Figure(figsize=(11, 2.9), layout="constrained")
    for axes, dataset in zip(figure.subplots(1, len(DATASETS)), DATASETS, strict=True):
        for model, (label, color) in MODELS.items():
            curve = curves[(curves["dataset"] == dataset) & (curves["model"] == model)]
            axes.plot(curve["percent"], 100 * curve["accuracy"], color=color, label=label)
        axes.set(title=dataset_name(dataset), xlabel="rejected (%)", ylabel="accuracy (%)")
        axes.grid(alpha=0.3)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=len(MODELS), frameon=False)
    return figure


if __name__ == "__main__":
    main(sys.argv[1:])
