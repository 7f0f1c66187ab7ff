"""Shifts with a budget: what is measured, and the rank correlation of error and uncertainty."""

import pandas as pd
import pytest
import torch

from lopgpn_exp.data.scenarios import random_edges
from lopgpn_exp.evaluation.shift import budget_curves, evaluate_shift, rank_correlations, summarise_shifts
from tests.conftest import make_graph


def make_runs(accuracies: list[float], uncertainties: list[float], *, split: int = 0) -> pd.DataFrame:
    budgets = [0, 0.05, 0.1, 0.5][: len(accuracies)]
    return pd.DataFrame(
        {
            "dataset": "d",
            "model": "m",
            "scenario": [f"dice-{budget}" for budget in budgets],
            "split": split,
            "init": 0,
            "run_id": [f"r{split}-{budget}" for budget in budgets],
            "test/accuracy": accuracies,
            "shift/budget": [float(budget) for budget in budgets],
            "shift/mean/tu": uncertainties,
        }
    )


@pytest.mark.parametrize(
    ("accuracies", "uncertainties", "expected"),
    [
        ([0.9, 0.8, 0.7, 0.6], [0.1, 0.2, 0.3, 9.0], 1.0),
        ([0.9, 0.8, 0.7, 0.6], [0.4, 0.3, 0.2, 0.1], -1.0),
        ([0.9, 0.8, 0.7, 0.6], [0.1, 0.3, 0.2, 0.4], 0.8),  # 1 - 6 * 2 / (4 * 15)
        ([0.9, 0.9, 0.7, 0.6], [0.1, 0.2, 0.3, 0.4], 4.5 / 22.5**0.5),  # ranks 1.5, 1.5, 3, 4
    ],
)
def test_rank_correlation_by_hand(accuracies, uncertainties, expected):
    table = rank_correlations(budget_curves(make_runs(accuracies, uncertainties)))
    assert table[["dataset", "model", "shift", "measure"]].to_numpy().tolist() == [["d", "m", "dice", "tu"]]
    assert table["value"].item() == pytest.approx(expected)


def test_two_budgets_or_a_constant_have_no_correlation():
    assert rank_correlations(budget_curves(make_runs([0.9, 0.8], [0.1, 0.2]))).empty
    constant = rank_correlations(budget_curves(make_runs([0.9] * 4, [0.1, 0.2, 0.3, 0.4])))
    assert constant["value"].isna().all()


def test_curves_are_means_over_splits():
    runs = pd.concat([make_runs([0.9, 0.7, 0.5], [1, 2, 3]), make_runs([0.7, 0.5, 0.3], [3, 4, 5], split=1)])
    curves = budget_curves(runs)
    accuracy = curves[curves["metric"] == "test/accuracy"]
    assert accuracy["budget"].tolist() == [0, 0.05, 0.1]
    assert accuracy["mean"].tolist() == pytest.approx([0.8, 0.6, 0.4])
    assert accuracy["se"].tolist() == pytest.approx([0.1, 0.1, 0.1])
    points = summarise_shifts(runs)["d", "m"]
    assert ("by_budget/dice/tu", 3.0, 5) in points


def test_runs_without_a_budget_have_no_curves():
    runs = make_runs([0.9], [0.1]).drop(columns=["shift/budget"])
    assert budget_curves(runs).empty
    assert rank_correlations(budget_curves(runs)).empty


def test_changed_edges_are_counted_and_uncertainty_is_averaged_over_test_nodes():
    graph = make_graph([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)], [[1.0]] * 6, [0, 1] * 3)
    changed = random_edges(graph, budget=0.4, seed=0)
    nodes = pd.DataFrame({"node": range(6), "part": ["train", "test", "test"] * 2, "is_ood": False, "tu": range(6)})
    metrics = evaluate_shift(graph, changed, nodes, 0.4)
    assert metrics == {
        "shift/budget": 0.4,
        "shift/edges_removed": 2.0,
        "shift/edges_added": 2.0,
        "shift/mean/tu": (1 + 2 + 4 + 5) / 4,
    }
    fewer = graph.replace(edge_index=torch.tensor([[0], [1]]))
    assert evaluate_shift(graph, fewer, nodes, 0.1)["shift/edges_removed"] == 4
    assert evaluate_shift(graph, fewer, nodes, 0.1)["shift/edges_added"] == 0
