"""Leaving out classes: the last ones or any set, with their nodes in the training graph or not."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lopgpn_exp.config.plan import RunGraphs
from lopgpn_exp.config.schema import Stage
from lopgpn_exp.data.scenarios import leave_out_classes
from lopgpn_exp.data.splits import random_split
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Part
from tests.conftest import make_graph
from tests.support import compose
from tests.support.graph_files import read_csv
from tests.support.random_graphs import edge_set


def test_left_out_classes_stay_in_the_graph_but_not_in_training(small_graph):
    graph = leave_out_classes(small_graph, left_out_classes=1)
    is_left_out = small_graph.labels == 2
    assert graph.num_classes == 2
    assert torch.equal(graph.features, small_graph.features)
    assert torch.equal(graph.edge_index, small_graph.edge_index)
    assert torch.equal(graph.labels, small_graph.labels)
    assert torch.equal(graph.is_ood, is_left_out)
    assert set(graph.part[is_left_out].tolist()) == {Part.NONE, Part.TEST}
    assert torch.equal(graph.part[~is_left_out], small_graph.part[~is_left_out])
    assert torch.equal(graph.part == Part.TEST, small_graph.part == Part.TEST)


@pytest.mark.parametrize("count", [None, 0, 2, 3])
def test_leaving_out_too_many_classes_or_none_is_an_error(small_graph, count):
    with pytest.raises(InputError, match="left out") as caught:
        leave_out_classes(small_graph, left_out_classes=count)
    assert (caught.value.parameter, caught.value.suggestion) == ("left_out_classes", 1)


def test_any_classes_can_be_left_out_by_hand():
    graph = make_graph([(0, 1)], [[1.0]] * 6, [0, 1, 2, 3, 2, -1])
    changed = leave_out_classes(graph, classes=[0, 2])
    assert changed.num_classes == 2
    assert changed.labels.tolist() == [2, 0, 3, 1, 3, -1]  # 1 and 3 are kept as 0 and 1, then come 0 and 2
    assert changed.is_ood.tolist() == [True, False, True, False, True, False]


@given(st.sets(st.integers(0, 4), min_size=1, max_size=3), st.permutations(range(40)))
@settings(max_examples=30, deadline=None)
def test_a_set_of_classes_renumbers_nothing_else(classes, order):
    graph = make_graph([(0, 1), (2, 3)], [[float(i)] for i in range(40)], [i % 5 for i in range(40)])
    graph = random_split(graph, index=0)
    changed = leave_out_classes(graph, classes=sorted(classes))
    kept = [label for label in range(5) if label not in classes]
    for node in range(40):
        label = int(graph.labels[node])
        assert bool(changed.is_ood[node]) == (label in classes)
        if label not in classes:
            assert kept[int(changed.labels[node])] == label
            assert changed.part[node] == graph.part[node]
    order = torch.tensor(order)
    number = order.argsort()
    permuted = graph.replace(
        features=graph.features[order],
        labels=graph.labels[order],
        part=graph.part[order],
        edge_index=number[graph.edge_index],
    )
    again = leave_out_classes(permuted, classes=sorted(classes))
    for field in ("labels", "part", "is_ood"):
        assert torch.equal(getattr(again, field), getattr(changed, field)[order])


def test_the_last_classes_as_a_set_are_the_default(small_graph):
    by_set = leave_out_classes(small_graph, classes=[2], left_out_classes=1)
    assert by_set.fingerprint == leave_out_classes(small_graph, left_out_classes=1).fingerprint


def test_names_of_classes_follow_their_numbers(folder):
    graph = read_csv(folder)
    labels = torch.arange(graph.num_nodes) % 3
    graph = graph.replace(labels=labels, num_classes=3, legend=replace(graph.legend, classes=("a", "b", "c")))
    changed = leave_out_classes(graph, classes=[0])
    names = [changed.legend.classes[label] for label in changed.labels.tolist()]
    assert names == [graph.legend.classes[label] for label in labels.tolist()]


@pytest.mark.parametrize("classes", [[], [3], [-1], [0, 1], [0, 1, 2]])
def test_classes_that_do_not_exist_or_leave_too_few_are_errors(small_graph, classes):
    with pytest.raises(InputError, match="the graph has 3 classes") as caught:
        leave_out_classes(small_graph, classes=classes)
    assert caught.value.parameter == "classes"


@pytest.mark.parametrize("options", [{"classes": [0]}, {"left_out_classes": 1}])
def test_a_graph_with_two_classes_has_no_such_scenario(options):
    graph = make_graph([(0, 1)], [[1.0]] * 4, [0, 0, 1, 1])
    with pytest.raises(InputError, match="2 classes, and none of them can be left out") as caught:
        leave_out_classes(graph, **options)
    assert (caught.value.parameter, caught.value.suggestion) == ("ood", "none")


def test_a_scenario_that_leaves_nothing_to_train_on_is_an_error():
    graph = make_graph([(0, 1)], [[1.0]] * 6, [0, 0, 1, 1, 2, 2])
    graph = graph.replace(part=torch.tensor([1, 2, 3, 3, 3, 3]))
    with pytest.raises(InputError, match="no training node is left"):
        leave_out_classes(graph, classes=[0])


def test_inductive_training_has_no_left_out_nodes(small_graph):
    graphs = RunGraphs(small_graph, Stage.inductive, lambda graph: leave_out_classes(graph, classes=[0]))
    is_left_out = small_graph.labels == 0
    kept = torch.nonzero(~is_left_out).flatten()
    training, evaluation = graphs.training, graphs.evaluation
    assert training.num_nodes == len(kept)
    assert not training.is_ood.any()
    assert torch.equal(training.features, small_graph.features[kept])
    assert torch.equal(training.part, evaluation.part[kept])
    expected = {(a, b) for a, b in edge_set(small_graph) if not (is_left_out[a] or is_left_out[b])}
    assert {(int(kept[a]), int(kept[b])) for a, b in edge_set(training)} == expected
    assert edge_set(evaluation) == edge_set(small_graph)
    assert torch.equal(evaluation.is_ood, is_left_out)


# OS-1 to OS-5 of Yu et al. (2025); none where the protocol defines none.
SETS = {
    "cora_ml": [[4, 5, 6], [0, 1, 2], [0, 2, 4], [1, 3, 5], [3, 4, 5]],
    "citeseer": [[4, 5], [0, 1], [1, 2], [3, 4], [0, 5]],
    "pubmed": [[2], [0], [1], [], []],
    "amazon_photos": [[5, 6, 7], [0, 1, 2], [3, 4, 5], [1, 4, 6], [2, 3, 7]],
    "amazon_computers": [[5, 6, 7, 8, 9], [0, 1, 2, 3, 4], [2, 3, 4, 5, 7], [1, 2, 3, 6, 7], [2, 4, 5, 8, 9]],
    "coauthor_cs": [[11, 12, 13, 14], [0, 1, 2, 3], [1, 2, 9, 12], [3, 6, 10, 13], [2, 3, 6, 10]],
    "coauthor_physics": [[3, 4], [0, 1], [2, 3], [0, 4], [1, 2]],
    "digits": [[], [], [], [], []],
}


@pytest.mark.parametrize("dataset", SETS)
def test_the_sets_of_left_out_classes_are_those_of_the_protocol(dataset):
    found = [compose(f"dataset={dataset}", f"ood=os_{number}")["ood"]["classes"] for number in range(1, 6)]
    assert found == SETS[dataset]
