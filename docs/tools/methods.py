"""Write outputs/methods: all methods on two graphs under two protocols, beside published values, and what they cost.

python -m docs.tools.methods OUTPUT_DIR PUBLISHED.csv    after the sweeps that the page names
python -m docs.tools.methods                             the page again, from the stored results
"""

import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

from lopgpn_exp import load_results
from lopgpn_exp.config.compose import compose_config
from lopgpn_exp.config.plan import plan_run
from lopgpn_exp.report.document import Table
from lopgpn_exp.report.names import dataset_name, model_name, scenario_name
from lopgpn_exp.runs.execute import fit_model

FOLDER = Path(__file__).resolve().parents[2] / "outputs" / "methods"
DATASETS = {"cora_ml": "CoraML", "citeseer": "CiteSeer"}  # and their names in the published table
OOD = {"paper": "leave_out_classes", "per_class_20": "os_1"}
SPLITS = 3
# Names in Tables 8 and 10 to 18 of Yu et al. (2025) with a GCN.
PUBLISHED = {
    "gcn": "energy",
    "gnnsafe": "gnnsafe",
    "gcn_dropout": "dropout",
    "gcn_ensemble": "ensemble",
    "gpn_sym": "GPN",
    "sgcn": "GKDE",
    "egnn": "EGNN",
    "egnn_vacuity": "EGNN-vacuity-prop",
    "egnn_evidence": "EGNN-evidence-prop",
    "egnn_both": "EGNN-vacuity-evidence-prop",
    "epn": "EPN",
    "epn_reg": "EPN-reg",
}
# What Yu et al. (2025) score OOD nodes by, where it is not what the method declares here.
SCORES = {("per_class_20", "gcn_dropout"): "lconf", ("per_class_20", "gcn_ensemble"): "lconf"}
METHODS = (
    *("gcn", "gat", "gnnsafe", "gebm", "gcn_dropout", "gcn_ensemble", "sgcn"),
    *("egnn", "egnn_vacuity", "egnn_evidence", "egnn_both", "epn", "epn_reg"),
    *("cuq_appnp", "cuq_gcn", "cuq_gat", "gpn_10", "gpn_sym", "lop_gpn", "appnp"),
)
TEXT = """\
# Methods side by side

All methods on two graphs, {splits} splits, one initialisation, mean ± standard error over splits in percent. The
AUC-ROC is that of the measure which each method declares as its epistemic one: it was not chosen by its result. This is
a first look at methods that were added to the six of the paper, not a benchmark. Three choices were made after test
results had been seen: the learning rate of GPN with 20 training nodes per class, the grid of weights of EPN-reg, and
that EGNN propagates evidence in training.

## The paper's protocol

5/15/80 % of each class for training, validation and test; the last classes are left out.

{paper}

## 20 training nodes per class

The protocol of Yu et al. (2025), with their hyper-parameters where they state them, and the values that they publish
(mean over 25 runs, with a GCN) in parentheses; OS-1 is the first of their sets of left-out classes. As in their table,
the AUC-ROC of dropout and of the ensemble is that of LConf here.

{per_class_20}

{agreement}

## Cost

CPU seconds of one process on CoraML, split 0, paper's protocol: everything that the method trains, and one prediction
of all nodes. Methods that use the training of another one cost only the difference if that exists.

{cost}

The runs behind this page:

```bash
lopgpn_exp model={models} dataset=cora_ml,citeseer split.index=0,1,2 ood=none,leave_out_classes -m
lopgpn_exp protocol=per_class_20 model={models} dataset=cora_ml,citeseer split.index=0,1,2 ood=none,os_1 -m
```
"""


def main(arguments: list[str]) -> None:
    if arguments:
        FOLDER.mkdir(parents=True, exist_ok=True)
        collect(Path(arguments[0]), Path(arguments[1]))
    runs, costs, published = (pd.read_csv(FOLDER / f"{name}.csv") for name in ("runs", "costs", "published"))
    (FOLDER / "methods.md").write_text(render_page(runs, costs, published))


def collect(output_dir: Path, published: Path) -> None:
    """Store what the page needs: results of both protocols, published values and costs."""
    rows = []
    for protocol, scenario in OOD.items():
        results = load_results(output_dir / protocol, dataset=list(DATASETS), model=list(METHODS))
        for row in results.to_dict("records"):
            if row["scenario"] in ("none", scenario) and row["split"] < SPLITS:
                declared = compose_config([f"model={row['model']}"])["model"]["measures"]["epistemic"]
                measure = SCORES.get((protocol, row["model"]), declared)
                values = {"accuracy": row["test/accuracy"], "auroc": row.get(f"ood/auroc/{measure}", np.nan)}
                keys = {key: row[key] for key in ("dataset", "model", "scenario", "split")}
                rows.append({"protocol": protocol, **keys, **values})
    table = pd.DataFrame(rows).sort_values(["protocol", "dataset", "model", "scenario", "split"])
    table.to_csv(FOLDER / "runs.csv", index=False)
    select_published(pd.read_csv(published)).to_csv(FOLDER / "published.csv", index=False)
    measure_cost(METHODS[0])  # the first training compiles the kernels
    pd.DataFrame([measure_cost(model) for model in METHODS]).to_csv(FOLDER / "costs.csv", index=False)


def select_published(table: pd.DataFrame) -> pd.DataFrame:
    """Return the published accuracies and AUC-ROCs of OS-1 with a GCN, under our names."""
    rows = []
    chosen = table[(table["backbone"] == "GCN") & table["metric"].isin(["acc", "OS1_auroc"])]
    for row in chosen.to_dict("records"):
        short = row["model"].replace("EGCN", "EGNN").removeprefix("VGNN-").removeprefix("VGCN-")
        short = "GKDE" if short.endswith("GKDE") else short
        for model, name in PUBLISHED.items():
            for dataset, title in DATASETS.items():
                if (short, row["dataset"]) == (name, title):
                    metric = {"acc": "accuracy", "OS1_auroc": "auroc"}[row["metric"]]
                    values = {"mean": row["mean"], "std": row["std"]}
                    rows.append({"dataset": dataset, "model": model, "metric": metric, **values})
    return pd.DataFrame(rows).sort_values(["dataset", "model", "metric"])


def measure_cost(model: str) -> dict[str, object]:
    """Return the CPU seconds of fitting a method and of one prediction."""
    plan = plan_run(compose_config([f"model={model}", "dataset=cora_ml", "trainer.progress=false"]))
    graph = plan.load_graphs().training
    start = time.process_time()
    fitted = fit_model(plan, graph).module.model.eval()
    trained = time.process_time()
    fitted.predict(graph)  # the first prediction also prepares the graph
    first = time.process_time()
    fitted.predict(graph)
    return {"model": model, "train": trained - start, "predict": time.process_time() - first}


def render_page(runs: pd.DataFrame, costs: pd.DataFrame, published: pd.DataFrame) -> str:
    reference = published.set_index(["dataset", "model", "metric"])["mean"].to_dict()
    tables = {
        protocol: _tabulate(runs[runs["protocol"] == protocol], scenario, reference if protocol != "paper" else {})
        for protocol, scenario in OOD.items()
    }
    cells = [[model_name(row.model), f"{row.train:.1f}", f"{row.predict:.3f}"] for row in costs.itertuples()]
    return TEXT.format(
        splits={3: "three"}[SPLITS],
        agreement=describe_agreement(runs, published),
        cost=Table(["method", "training (s)", "prediction (s)"], cells, 1).markdown(),
        models=",".join(METHODS),
        **tables,
    )


def _tabulate(runs: pd.DataFrame, scenario: str, reference: dict[tuple[str, str, str], float]) -> str:
    columns = ["method"]
    for dataset in DATASETS:
        columns += [f"{dataset_name(dataset)}: accuracy", f"AUC-ROC, {scenario_name(scenario)}"]
    rows = []
    for model in METHODS:
        row = [model_name(model)]
        for dataset in DATASETS:
            chosen = runs[(runs["model"] == model) & (runs["dataset"] == dataset)]
            for metric, name in (("accuracy", "none"), ("auroc", scenario)):
                values = 100 * chosen.loc[chosen["scenario"] == name, metric]
                known = reference.get((dataset, model, metric))
                cell = f"{values.mean():.1f} ± {values.sem():.1f}"
                row.append(cell if known is None else f"{cell} ({known:.1f})")
        rows.append(row)
    return Table(columns, rows, 1).markdown()


def compare(runs: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Return our mean and error beside each published value, and whether they agree.

    They agree within 2 points, or within 2 combined standard errors: ours over splits, theirs over 25 runs.
    """
    own = runs[runs["protocol"] == "per_class_20"]
    rows = []
    for row in published.to_dict("records"):
        scenario = "none" if row["metric"] == "accuracy" else OOD["per_class_20"]
        chosen = own[(own["model"] == row["model"]) & (own["dataset"] == row["dataset"])]
        values = 100 * chosen.loc[chosen["scenario"] == scenario, row["metric"]]
        noise = float(np.hypot(values.sem(), row["std"] / 25**0.5))
        difference = float(values.mean() - row["mean"])
        rows.append({**row, "difference": difference, "agrees": abs(difference) <= max(2.0, 2 * noise)})
    return pd.DataFrame(rows)


def describe_agreement(runs: pd.DataFrame, published: pd.DataFrame) -> str:
    table = compare(runs, published)
    counts = table.groupby("metric")["agrees"].agg(["sum", "count"])
    parts = [f"{counts.loc[key, 'sum']} of {counts.loc[key, 'count']} {name}" for key, name in _METRICS.items()]
    far = table.loc[table["difference"].abs().nlargest(3).index]
    texts = [
        f"{model_name(row.model)} on {dataset_name(row.dataset)} ({row.metric} {row.difference:+.1f})"
        for row in far.itertuples()
    ]
    return (
        f"Of the published values, {' and '.join(parts)} are within 2 points or 2 combined standard errors of ours. "
        f"The largest differences: {'; '.join(texts)}. Their code is not public, so the reasons are not known."
    )


_METRICS = {"accuracy": "accuracies", "auroc": "AUC-ROCs"}

if __name__ == "__main__":
    main(sys.argv[1:])
