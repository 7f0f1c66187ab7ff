"""Shifts of a given size: what changed in the graph, and whether uncertainty grows with the error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from lopgpn_exp.evaluation.node_table import NODE_COLUMNS
from lopgpn_exp.evaluation.statistics import GROUP, aggregate

if TYPE_CHECKING:  # tables of stored results are shown without torch
    from lopgpn_exp.graph import Graph

BUDGET = "shift/budget"
MEAN_UNCERTAINTY = "shift/mean"  # followed by a measure
CURVES = ("test/accuracy", "test/ece")  # drawn against the budget, beside the mean uncertainties


def evaluate_shift(clean: Graph, changed: Graph, nodes: pd.DataFrame, budget: float) -> dict[str, float]:
    """Return the budget, the numbers of edges removed and added, and the mean uncertainty of the test nodes.

    Args:
        nodes: one row per node, as in `predictions.parquet`.
    """
    before, after = (np.unique(graph.edge_index.numpy().T @ [graph.num_nodes, 1]) for graph in (clean, changed))
    kept = len(np.intersect1d(before, after, assume_unique=True)) // 2
    test = nodes[nodes["part"] == "test"]
    means = {measure: float(test[measure].mean()) for measure in nodes if measure not in NODE_COLUMNS}
    return {
        BUDGET: float(budget),
        "shift/edges_removed": float(clean.num_edges - kept),
        "shift/edges_added": float(changed.num_edges - kept),
    } | {f"{MEAN_UNCERTAINTY}/{measure}": mean for measure, mean in means.items()}


def budget_curves(results: pd.DataFrame) -> pd.DataFrame:
    """Return the means over splits against the budget: `dataset, model, shift, metric, budget, mean, se`.

    Args:
        results: one row per run; the scenario of a run with a budget is its name followed by the budget.
    """
    columns = ["dataset", "model", "shift", "metric", "budget", "mean", "se"]
    if BUDGET not in results:
        return pd.DataFrame(columns=columns)
    runs = results.dropna(subset=BUDGET)
    means = aggregate(runs).merge(runs[[*GROUP, BUDGET]].drop_duplicates(), on=GROUP)
    is_curve = means["metric"].isin(CURVES) | means["metric"].str.startswith(f"{MEAN_UNCERTAINTY}/")
    shift = means["scenario"].str.rpartition("-")[0]
    table = means.assign(shift=shift, budget=means[BUDGET])[is_curve]
    return table.sort_values(["dataset", "model", "shift", "metric", "budget"])[columns].reset_index(drop=True)


def rank_correlations(curves: pd.DataFrame) -> pd.DataFrame:
    """Return Spearman's correlation of error and mean uncertainty over budgets, in the column `value`.

    There is one row per dataset, model, shift and measure. 1 means that uncertainty grows whenever accuracy falls. It
    needs three budgets, and it is missing if nothing changes.
    """
    rows = []
    for (dataset, model, shift), group in curves.groupby(["dataset", "model", "shift"]):
        by_budget = group.pivot(index="budget", columns="metric", values="mean")
        error = -by_budget["test/accuracy"]
        for metric in by_budget.columns:
            if metric.startswith(f"{MEAN_UNCERTAINTY}/") and len(by_budget) >= 3:
                value = error.rank().corr(by_budget[metric].rank())
                measure = metric.rpartition("/")[2]
                rows.append({"dataset": dataset, "model": model, "shift": shift, "measure": measure, "value": value})
    return pd.DataFrame(rows, columns=["dataset", "model", "shift", "measure", "value"])


def summarise_shifts(results: pd.DataFrame) -> dict[tuple[str, str], list[tuple[str, float, int]]]:
    """Return the curves of each dataset and model as (name, value, step); the step is the budget in percent."""
    summary: dict[tuple[str, str], list[tuple[str, float, int]]] = {}
    for row in budget_curves(results).to_dict("records"):
        name = f"by_budget/{row['shift']}/{row['metric'].rpartition('/')[2]}"
        point = (name, float(row["mean"]), round(100 * row["budget"]))
        summary.setdefault((row["dataset"], row["model"]), []).append(point)
    return summary
