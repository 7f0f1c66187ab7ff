"""Scenarios that move edges: what changes, what stays, and how many edges change."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lopgpn_exp.data.scenarios import dice, random_edges
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Graph
from tests.conftest import make_graph
from tests.support.random_graphs import edge_set, random_graphs

EDGE_SCENARIOS = [random_edges, dice]


def within(graph: Graph, edges: set[tuple[int, int]]) -> int:
    return sum(int(graph.labels[a] == graph.labels[b]) for a, b in edges)


@pytest.mark.parametrize("scenario", EDGE_SCENARIOS)
@given(graph=random_graphs(), budget=st.floats(0, 1), seed=st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_only_edges_change_and_their_number_stays(scenario, graph, budget, seed):
    changed = scenario(graph, budget=budget, seed=seed)
    before, after = edge_set(graph), edge_set(changed)
    assert len(before) == len(after) == changed.num_edges
    assert (changed.edge_index[0] != changed.edge_index[1]).all()
    assert torch.equal(changed.edge_index.flip(0).sort(dim=1).values, changed.edge_index.sort(dim=1).values)
    for field in ("features", "labels", "part"):
        assert torch.equal(getattr(changed, field), getattr(graph, field))
    touched = {node for edge in before ^ after for node in edge}
    assert set(torch.nonzero(changed.is_ood).flatten().tolist()) == touched
    limit = round(budget * len(before)) if scenario is random_edges else within(graph, before)
    assert len(before - after) <= limit
    if scenario is dice:
        assert within(graph, after - before) == 0
        assert within(graph, before - after) == len(before - after)
    again = scenario(graph, budget=budget, seed=seed)
    assert torch.equal(again.edge_index, changed.edge_index)


@pytest.mark.parametrize("scenario", EDGE_SCENARIOS)
def test_a_budget_of_zero_is_the_clean_graph(small_graph, scenario):
    changed = scenario(small_graph, budget=0.0, seed=0)
    assert changed.fingerprint == small_graph.fingerprint


@pytest.mark.parametrize("budget", [0.05, 0.5, 1.0])
def test_the_budget_is_the_share_of_edges_that_change(small_graph, budget):
    before = edge_set(small_graph)
    moved = before - edge_set(random_edges(small_graph, budget=budget, seed=3))
    assert len(moved) == round(budget * len(before))
    attacked = before - edge_set(dice(small_graph, budget=budget, seed=3))
    for label in range(3):
        inside = {edge for edge in before if all(int(small_graph.labels[node]) == label for node in edge)}
        assert len(inside & attacked) == round(budget * len(inside))
    assert all(small_graph.labels[a] == small_graph.labels[b] for a, b in attacked)


def test_dice_on_two_pairs_by_hand():
    """Classes {0, 1} and {2, 3}, one edge within each: both are replaced by two of the four edges across."""
    graph = make_graph([(0, 1), (2, 3)], [[1.0]] * 4, [0, 0, 1, 1])
    results = {frozenset(edge_set(dice(graph, budget=1.0, seed=seed))) for seed in range(60)}
    across = {(0, 2), (0, 3), (1, 2), (1, 3)}
    assert all(len(result) == 2 and result <= across for result in results)
    assert set().union(*results) == across


def test_a_random_end_on_a_path_by_hand():
    """The only edge of four nodes keeps one of its ends; the other becomes one of the two other nodes."""
    graph = make_graph([(0, 1)], [[1.0]] * 4, [0, 1, 0, 1])
    results = [edge_set(random_edges(graph, budget=1.0, seed=seed)) for seed in range(200)]
    counts = {edge: sum(edge in result for result in results) for edge in ((0, 2), (0, 3), (1, 2), (1, 3))}
    assert sum(counts.values()) == 200
    assert min(counts.values()) > 25


def test_a_complete_graph_stays_as_it_is():
    nodes = range(6)
    graph = make_graph([(a, b) for a in nodes for b in nodes if a < b], [[1.0]] * 6, [0, 0, 0, 1, 1, 1])
    for scenario in EDGE_SCENARIOS:
        assert scenario(graph, budget=1.0, seed=0).fingerprint == graph.fingerprint


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4, 5, 6], [4, 0, 6, 2, 5, 1, 3]])
@pytest.mark.parametrize("scenario", EDGE_SCENARIOS)
def test_edges_are_equally_likely_to_change_whatever_the_order_of_nodes(scenario, order):
    """Of eight edges, three are moved at random; of three edges in each of two classes, dice moves one."""
    edges = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 5), (5, 3), (5, 6)]
    labels = [0, 0, 0, 1, 1, 1, 2]
    edges = [(order[a], order[b]) for a, b in edges]
    graph = make_graph(edges, [[1.0]] * 7, [labels[node] for node in np.argsort(order)])
    counts = dict.fromkeys(edge_set(graph), 0)
    for seed in range(400):
        for edge in edge_set(graph) - edge_set(scenario(graph, budget=0.4, seed=seed)):
            counts[edge] += 1
    for (a, b), count in counts.items():
        share = 3 / 8 if scenario is random_edges else (1 / 3 if graph.labels[a] == graph.labels[b] else 0)
        assert count / 400 == pytest.approx(share, abs=5 * np.sqrt(share * (1 - share) / 400))


@pytest.mark.parametrize("scenario", EDGE_SCENARIOS)
@pytest.mark.parametrize("budget", [-0.1, 1.01, float("nan")])
def test_a_budget_outside_its_range_is_an_error(small_graph, scenario, budget):
    with pytest.raises(InputError, match="budget is") as caught:
        scenario(small_graph, budget=budget, seed=0)
    assert (caught.value.parameter, caught.value.suggestion) == ("budget", 0.1)


@pytest.mark.parametrize("scenario", EDGE_SCENARIOS)
def test_a_graph_without_edges_is_an_error(scenario):
    graph = make_graph([], [[1.0]] * 4, [0, 0, 1, 1])
    with pytest.raises(InputError, match="no edges") as caught:
        scenario(graph, budget=0.1, seed=0)
    assert (caught.value.parameter, caught.value.suggestion) == ("ood", "none")
