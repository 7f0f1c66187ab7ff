"""The paper's table from our results: means, what is best or tied with it, and the CSV in the published columns."""

from __future__ import annotations

from typing import Any

import pandas as pd

from lopgpn_exp.report.aggregate import aggregate, compare
from lopgpn_exp.report.names import DATASET_NAMES, MODEL_NAMES
from lopgpn_exp.report.published.columns import COLUMNS, INSTEAD, Column

CELL = ["dataset", "model", "scenario", "metric"]
LEVEL = 0.05  # of the paired test above which a model counts as tied with the best


def percent_means(results: pd.DataFrame) -> pd.DataFrame:
    """`mean`, `se` (both in percent) and `splits` of each dataset, model, scenario and metric."""
    table = aggregate(results).set_index(CELL)[["mean", "se", "splits"]]
    return table.assign(mean=100 * table["mean"], se=100 * table["se"])


def marks(results: pd.DataFrame, metrics: list[str]) -> dict[tuple[str, str, str, str], str]:
    """`best` for the largest mean of a dataset, `tied` for what a paired test over splits cannot tell from it.

    The paper sets the largest mean in bold, whatever its noise. With one split there is no test, and no ties.
    """
    found: dict[tuple[str, str, str, str], str] = {}
    for metric in metrics:
        present = results.dropna(subset=metric)
        by_split = present.groupby(["dataset", "scenario", "model", "split"])[metric].mean()
        pairs = compare(results, metric)
        for (dataset, scenario), group in by_split.groupby(["dataset", "scenario"]):
            means = group.groupby("model").mean()
            best = set(means.index[means == means.max()])
            here = pairs[(pairs["dataset"] == dataset) & (pairs["scenario"] == scenario) & (pairs["p"] >= LEVEL)]
            tied = {b for a, b in zip(here["first"], here["second"], strict=True) if a in best}
            tied |= {a for a, b in zip(here["first"], here["second"], strict=True) if b in best}
            found |= {(dataset, model, scenario, metric): "tied" for model in tied}
            found |= {(dataset, model, scenario, metric): "best" for model in best}
    return found


def table1_csv(results: pd.DataFrame) -> pd.DataFrame:
    """As texts in the published table's 99 columns, its row numbers included; no standard error where one split is."""
    means = percent_means(results)
    best = marks(results, [metric for metric in dict.fromkeys(c.metric for c in COLUMNS) if metric in results])
    rows = []
    for number, (dataset, model) in enumerate((d, m) for d in DATASET_NAMES for m in MODEL_NAMES):
        if ((results["dataset"] == dataset) & (results["model"] == model)).any():
            row: dict[str, Any] = {
                "id": number,
                "dataset": DATASET_NAMES[dataset],
                "model": MODEL_NAMES[model],
            }
            for column in COLUMNS:
                row |= _texts(means, best, dataset, model, column)
            rows.append(row)
    return pd.DataFrame(rows)


def lookup(means: pd.DataFrame, dataset: str, model: str, column: Column) -> pd.Series | None:
    """Our value of a published column, or None where the model has none."""
    for metric in (column.metric, INSTEAD.get(column.metric)):
        if metric is not None and (dataset, model, column.scenario, metric) in means.index:
            return means.loc[(dataset, model, column.scenario, metric)]
    return None


def _texts(
    means: pd.DataFrame, best: dict[tuple[str, str, str, str], str], dataset: str, model: str, column: Column
) -> dict[str, Any]:
    value = lookup(means, dataset, model, column)
    if column.kind == "change":
        return {column.name: "" if value is None else _signed(value["mean"])}
    is_best = best.get((dataset, model, column.scenario, column.metric)) == "best"
    error = "" if value is None or pd.isna(value["se"]) else f"{value['se']:.2f}"
    return {
        column.name: "" if value is None else f"{value['mean']:.2f}",
        f"{column.name}SE": error,
        f"{column.name}Best": int(is_best),
    }


def _signed(percent: float) -> str:
    """As the published table writes changes: a sign, and three decimals cut to six characters."""
    text = f"{percent:.3f}"[:6].rstrip(".")
    return text if text.startswith("-") else f"+{text}"
