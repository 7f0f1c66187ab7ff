"""The paper's table from our results: means over splits, and the CSV file in the published columns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import pandas as pd

from lopgpn_exp.evaluation.statistics import aggregate, mark_best
from lopgpn_exp.paper.published import COLUMNS, FALLBACK_METRICS, Column
from lopgpn_exp.report.names import DATASET_NAMES, MODEL_NAMES

CELL = ["dataset", "model", "scenario", "metric"]
CellKey = tuple[str, str, str, str]
T = TypeVar("T")


class CellMean(NamedTuple):
    """Mean and standard error in percent; the error is NaN for a single split."""

    mean: float
    se: float
    splits: int


def compute_percent_means(results: pd.DataFrame) -> pd.DataFrame:
    """Return `mean`, `se` (both in percent) and `splits` of each dataset, model, scenario and metric."""
    table = aggregate(results).set_index(CELL)[["mean", "se", "splits"]]
    return table.assign(mean=100 * table["mean"], se=100 * table["se"])


def compute_cells(results: pd.DataFrame) -> dict[CellKey, CellMean]:
    """Return the means of `compute_percent_means` by dataset, model, scenario and metric."""
    means = compute_percent_means(results)
    return {key: CellMean(*row) for key, row in zip(means.index, means.itertuples(index=False), strict=True)}


def mark_cells(results: pd.DataFrame) -> dict[CellKey, str]:
    """Mark the cells of the published columns that are `best` or `tied` with it."""
    return mark_best(results, [metric for metric in dict.fromkeys(c.metric for c in COLUMNS) if metric in results])


def build_table1(results: pd.DataFrame, marks: Mapping[CellKey, str]) -> pd.DataFrame:
    """Return texts in the 99 columns of the published table, with its row numbers; no standard error for one split."""
    cells = compute_cells(results)
    present = set(zip(results["dataset"], results["model"], strict=True))
    rows = []
    for number, (dataset, model) in enumerate((d, m) for d in DATASET_NAMES for m in MODEL_NAMES):
        if (dataset, model) in present:
            row: dict[str, Any] = {"id": number, "dataset": DATASET_NAMES[dataset], "model": MODEL_NAMES[model]}
            for column in COLUMNS:
                mark = marks.get((dataset, model, column.scenario, column.metric))
                row |= _format_column(column, find_cell(cells, dataset, model, column), is_best=mark == "best")
            rows.append(row)
    return pd.DataFrame(rows)


def find_cell(cells: Mapping[Any, T], dataset: str, model: str, column: Column) -> T | None:
    """Return our value of a published column, or None if the model has none."""
    metrics = (column.metric, FALLBACK_METRICS.get(column.metric, column.metric))
    keys = [(dataset, model, column.scenario, metric) for metric in metrics]
    return next((cells[key] for key in keys if key in cells), None)


def _format_column(column: Column, cell: CellMean | None, *, is_best: bool) -> dict[str, Any]:
    if column.is_change:
        return {column.name: "" if cell is None else _format_change(cell.mean)}
    return {
        column.name: "" if cell is None else f"{cell.mean:.2f}",
        f"{column.name}SE": "" if cell is None or math.isnan(cell.se) else f"{cell.se:.2f}",
        f"{column.name}Best": int(is_best),
    }


def _format_change(percent: float) -> str:
    """Return a change as the published table writes it: a sign, and three decimals cut to six characters."""
    text = f"{percent:.3f}"[:6].rstrip(".")
    return text if text.startswith("-") else f"+{text}"
