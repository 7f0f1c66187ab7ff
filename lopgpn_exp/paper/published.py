"""Read the published numbers, and map the 99 columns of the published table to our metrics.

The paper's LaTeX names the columns that it prints: `TotalEntropy` is printed as TU, `AleatoricEntropy` as AU,
`EpistemicEntropyDiff` as EU, `Epistemic` as EU_PC, `EpistemicEntropy` as EU_SO. `Total` and `Aleatoric` are not
printed; both are the least confidence, with which GPN's authors measure either, and are equal in every row.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

import pandas as pd

from lopgpn_exp.report.names import DATASET_NAMES, MODEL_NAMES

# In the order of the file, which is not the order of the printed table.
PREFIXES = {"leave_out_classes": "oodLoc", "gaussian": "oodNormal", "bernoulli": "oodBer"}
# Columns with a value, its standard error (`SE`) and whether it is the largest of its dataset (`Best`).
SCORES = {
    "IdAcc": "id/accuracy",
    "OodAcc": "ood/accuracy",
    "OodTotal": "ood/auroc/lconf",
    "OodTotalEntropy": "ood/auroc/tu",
    "OodAleatoric": "ood/auroc/lconf",
    "OodAleatoricEntropy": "ood/auroc/au",
    "OodEpistemic": "ood/auroc/eu_pc",
    "OodEpistemicEntropy": "ood/auroc/eu_so",
    "OodEpistemicEntropyDiff": "ood/auroc/eu",
}
# Columns with a value only: how far the mean uncertainty of OOD nodes is above that of ID nodes.
CHANGES = {
    "TotalEntropyChange": "change/tu",
    "AleatoricEntropyChange": "change/au",
    "EpistemicEntropyChange": "change/eu_so",
    "EpistemicEntropyDiffChange": "change/eu",
}
# For a model without AU (APPNP), the file has the change of TU as that of AU, but leaves the AUC-ROC of AU blank.
FALLBACK_METRICS = {"change/au": "change/tu"}
MEASURES = ("tu", "au", "eu", "eu_pc", "eu_so")
CELL = ["dataset", "model", "scenario", "metric"]


@dataclass(frozen=True)
class Column:
    """A value of the published table, and the scenario and metric of ours that it is. The file is in percent."""

    name: str
    scenario: str
    metric: str

    @property
    def is_change(self) -> bool:
        """Whether it has a value only, without standard error and mark of the best."""
        return self.metric.startswith("change/")

    @property
    def is_printed(self) -> bool:
        """Whether the paper's table shows it. Clean accuracy, which the paper's text mentions, counts as printed."""
        return self.metric in {"test/accuracy", "id/accuracy", *(f"ood/auroc/{measure}" for measure in MEASURES)}


COLUMNS = (
    Column("acc", "none", "test/accuracy"),
    *(
        Column(prefix + name, scenario, metric)
        for scenario, prefix in PREFIXES.items()
        for name, metric in (SCORES | CHANGES).items()
    ),
)


def load_published_text() -> pd.DataFrame:
    """Return the table as its authors wrote it: 36 rows of 99 texts, empty where there is no value."""
    with files(__package__).joinpath("published_table1.csv").open() as file:
        return pd.read_csv(file, dtype=str, keep_default_na=False)


def load_published() -> pd.DataFrame:
    """Return one row per value: `dataset, model, scenario, metric, column, printed, published`, in percent."""
    datasets = {name: key for key, name in DATASET_NAMES.items()}
    models = {name: key for key, name in MODEL_NAMES.items()}
    rows = [
        {
            "dataset": datasets[row["dataset"]],
            "model": models[row["model"]],
            "scenario": column.scenario,
            "metric": column.metric,
            "column": column.name,
            "printed": column.is_printed,
            "published": float(row[column.name]),
        }
        for row in load_published_text().to_dict("records")
        for column in COLUMNS
        if row[column.name]
    ]
    return pd.DataFrame(rows)


def load_public_code_runs(version: str = "") -> pd.DataFrame:
    """Return what the public code gave: one row per run and metric, `public_code` in percent.

    Args:
        version: the newest one by default; `_2024_03` for the one before the commit of 14 March 2024.
    """
    with files(__package__).joinpath(f"public_code{version}.csv").open() as file:
        table = pd.read_csv(file)
    metrics = {"accuracy": "test/accuracy", "id_accuracy": "id/accuracy", "ood_accuracy": "ood/accuracy"}
    metrics |= {name: name.replace("auroc_", "ood/auroc/") for name in map(str, table) if name.startswith("auroc_")}
    long = table.rename(columns=metrics).melt(
        id_vars=["dataset", "model", "scenario", "split", "init"],
        value_vars=list(metrics.values()),
        var_name="metric",
        value_name="public_code",
    )
    long = long.dropna(subset="public_code")
    return long.assign(public_code=100 * long["public_code"], split=long["split"] - 1)  # it counts from 1


def load_public_code() -> pd.DataFrame:
    """Return the means of both versions of the public code and their number of runs, one row per cell."""
    means = []
    for version in ("", "_2024_03"):
        groups = load_public_code_runs(version).groupby(CELL)["public_code"]
        names = {"mean": f"public_code{version}", "count": f"public_code{version}_runs"}
        means.append(groups.agg(["mean", "count"]).rename(columns=names))
    return means[0].join(means[1], how="outer").reset_index()
