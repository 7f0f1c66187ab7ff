"""Reading the published numbers. They are part of the package: an installed copy has them too."""

from __future__ import annotations

from importlib.resources import files

import pandas as pd

from lopgpn_exp.report.names import DATASET_NAMES, MODEL_NAMES
from lopgpn_exp.report.published.columns import COLUMNS

DATASETS = {name: key for key, name in DATASET_NAMES.items()}
MODELS = {name: key for key, name in MODEL_NAMES.items()}
CELL = ["dataset", "model", "scenario", "metric"]


def published_text() -> pd.DataFrame:
    """The table as its authors wrote it: 36 rows of 99 texts, empty where there is no value."""
    with files(__package__).joinpath("table1.csv").open() as file:
        return pd.read_csv(file, dtype=str, keep_default_na=False)


def published() -> pd.DataFrame:
    """One row a value: `dataset, model, scenario, metric, column, kind, printed, published`, in percent."""
    table = published_text()
    rows = [
        {
            "dataset": DATASETS[row["dataset"]],
            "model": MODELS[row["model"]],
            "scenario": column.scenario,
            "metric": column.metric,
            "column": column.name,
            "kind": column.kind,
            "printed": column.printed,
            "published": float(row[column.name]),
        }
        for _, row in table.iterrows()
        for column in COLUMNS
        if row[column.name]
    ]
    return pd.DataFrame(rows)


def public_code() -> pd.DataFrame:
    """What the public code gave on its own splits, in percent: `public_code` is the mean over `public_code_splits`."""
    names = {"accuracy": "test/accuracy", "id_accuracy": "id/accuracy", "ood_accuracy": "ood/accuracy"}
    with files(__package__).joinpath("public_code.csv").open() as file:
        table = pd.read_csv(file)
    names |= {column: column.replace("auroc_", "ood/auroc/") for column in table if column.startswith("auroc_")}
    long = table.rename(columns=names).melt(
        id_vars=["dataset", "model", "scenario"], value_vars=list(names.values()), var_name="metric"
    )
    groups = long.dropna(subset="value").groupby(CELL)["value"]
    return (
        groups.agg(public_code="mean", public_code_splits="count")
        .reset_index()
        .assign(public_code=lambda t: 100 * t["public_code"])
    )
