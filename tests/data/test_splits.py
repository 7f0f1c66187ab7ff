"""Splits: sizes, stratification, reproducibility and errors."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lopgpn_exp.config.plan import plan_run
from lopgpn_exp.data.datasets.pyg import citation_full
from lopgpn_exp.data.splits import (
    MissingSplitError,
    official_split,
    own_split,
    per_class_split,
    published_split,
    random_split,
    validation_halves_split,
)
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Part
from tests.support import SHARED, compose
from tests.support.graph_files import read_csv, write_csv
from tests.support.random_graphs import random_graphs


def test_random_splits_are_stratified_disjoint_and_seeded_by_the_index(real_data):
    graph = citation_full(root=real_data, collection_name="Cora_ML")
    splits = [random_split(graph, index=i).part for i in range(10)]
    assert len({tuple(part.tolist()) for part in splits}) == 10
    assert torch.equal(splits[4], random_split(graph, index=4).part)
    for label in range(7):
        members = graph.labels == label
        for value, share in {Part.TRAIN: 0.05, Part.VAL: 0.15, Part.TEST: 0.8}.items():
            assert int((splits[0][members] == value).sum()) == pytest.approx(share * int(members.sum()), abs=1.01)


def test_a_random_split_does_not_depend_on_features(small_graph):
    changed = small_graph.replace(features=small_graph.features * 2)
    assert torch.equal(random_split(changed, index=2).part, random_split(small_graph, index=2).part)


def test_unused_nodes_are_in_no_part(small_graph):
    part = random_split(small_graph, index=0, train=0.05, val=0.1425, test=0.646, unused=0.1615).part
    assert int((part == Part.NONE).sum()) == pytest.approx(0.1615 * 300, abs=3)


@pytest.mark.parametrize(
    ("options", "message", "parameter", "suggestion"),
    [
        ({"index": 10}, "from 0 to 9", "index", 9),
        ({"index": -1}, "index is -1", "index", 0),
        ({"count": 0}, "count is 0", "count", 10),
        ({"train": 0.5}, "= 1.45", "test", 0.35),
        ({"train": -0.05, "test": 0.9}, "no negative", "", None),
        ({"test": float("nan")}, "= nan", "", None),
        ({"test": float("inf")}, "= inf", "", None),
        ({"test": 0.0, "val": 0.95}, "no nodes for testing", "", None),
        ({"test": 0.0}, "no nodes for testing", "", None),
        ({"train": 0.0, "val": 0.0, "test": 1.0}, "no nodes for training and validation", "", None),
    ],
)
def test_invalid_split_options_are_errors(small_graph, options, message, parameter, suggestion):
    with pytest.raises(InputError, match=message) as caught:
        random_split(small_graph, **({"index": 0} | options))
    assert (caught.value.parameter, caught.value.suggestion) == (parameter, suggestion)


def test_a_class_with_too_few_nodes_is_named(build_graph):
    graph = build_graph([(0, 1)], [[1.0]] * 8, [0, 0, 0, 1, 1, 2, 2, 2])
    with pytest.raises(InputError, match=r"class 1 has 2 node\(s\)") as caught:
        random_split(graph, index=0)
    assert "unlabelled (-1)" in caught.value.hint


@pytest.mark.parametrize("fractions", [(0.989, 0.01, 0.001), (0.998, 0.001, 0.001), (0.001, 0.001, 0.998)])
def test_extreme_fractions_leave_a_node_for_each_part(small_graph, fractions):
    train, val, test = fractions
    part = random_split(small_graph, index=0, train=train, val=val, test=test).part
    for label in range(3):
        assert set(part[small_graph.labels == label].tolist()) == {Part.TRAIN, Part.VAL, Part.TEST}


def test_three_nodes_per_class_are_enough(build_graph):
    graph = build_graph([(0, 1)], [[1.0]] * 6, [0, 0, 0, 1, 1, 1])
    part = random_split(graph, index=0).part
    assert sorted(part[:3].tolist()) == sorted(part[3:].tolist()) == [Part.TRAIN, Part.VAL, Part.TEST]


def test_the_advice_on_rare_classes_fits_the_format(folder):
    write_csv(folder, "id,label,x\na,u,1\nb,u,2\nc,v,3\n", "source,target\na,b\n")
    with pytest.raises(InputError, match="class 'u' has 2") as caught:
        random_split(read_csv(folder), index=0)
    assert "unlabelled (a blank cell)" in caught.value.hint


@pytest.mark.parametrize("dataset", ["cora_ml", "citeseer", "pubmed", "amazon_photos", "amazon_computers"])
def test_published_splits_are_those_of_the_public_code(real_data, monkeypatch, dataset):
    """Index by index, for all ten splits."""
    monkeypatch.setenv("LOPGPN_DATA", str(real_data))
    graph = plan_run(compose("model=gkde", f"dataset={dataset}")).read_dataset()
    with np.load(SHARED / "paper" / "public_splits" / f"{dataset}.npz") as expected:
        for index in range(10):
            found = published_split(graph, index=index)
            for name in ("train", "val", "test"):
                np.testing.assert_array_equal(found.nodes(Part[name.upper()]).numpy(), expected[f"{name}_{index}"])


def test_published_fractions_are_of_the_nodes_that_are_left(small_graph):
    part = published_split(small_graph, index=3).part
    for label in range(3):
        members = part[small_graph.labels == label]
        train = int(0.05 * len(members))
        val = int(0.15 * (len(members) - train))
        test = int(0.8 * (len(members) - train - val))
        counts = torch.bincount(members.long(), minlength=4).tolist()
        assert counts == [len(members) - train - val - test, train, val, test]
    changed = small_graph.replace(features=small_graph.features * 2)
    assert torch.equal(published_split(changed, index=3).part, part)


def test_a_published_split_needs_twenty_nodes_per_class(build_graph):
    graph = build_graph([(0, 1)], [[1.0]] * 40, [0] * 21 + [1] * 19)
    with pytest.raises(InputError, match="class 1 has too few nodes for training") as caught:
        published_split(graph, index=0)
    assert (caught.value.parameter, caught.value.suggestion) == ("split", "random")
    with pytest.raises(InputError, match="from 0 to 9"):
        published_split(graph, index=10)


def test_splits_per_class_have_equal_training_nodes_and_a_share_for_testing(small_graph):
    parts = [per_class_split(small_graph, index=index, train=10).part for index in range(10)]
    assert len({tuple(part.tolist()) for part in parts}) == 10
    assert torch.equal(parts[3], per_class_split(small_graph, index=3, train=10).part)
    for part in parts:
        assert torch.bincount(small_graph.labels[part == Part.TRAIN]).tolist() == [10, 10, 10]
        assert int((part == Part.TEST).sum()) == 60  # a fifth of all nodes
        assert int((part == Part.VAL).sum()) == 300 - 30 - 60
    # Test nodes are drawn from all classes together, so their numbers vary.
    counts = {tuple(torch.bincount(small_graph.labels[part == Part.TEST]).tolist()) for part in parts}
    assert len(counts) > 1
    changed = small_graph.replace(features=small_graph.features * 2)
    assert torch.equal(per_class_split(changed, index=3, train=10).part, parts[3])


@given(graph=random_graphs(), index=st.integers(0, 9), test=st.floats(0.1, 0.9))
@settings(max_examples=50, deadline=None)
def test_splits_per_class_of_random_graphs(graph, index, test):
    num_labelled = int((graph.labels >= 0).sum())
    num_test = round(test * num_labelled)
    assume(0 < num_test < num_labelled - graph.num_classes)
    part = per_class_split(graph, index=index, train=1, test=test).part
    assert torch.bincount(graph.labels[part == Part.TRAIN]).tolist() == [1] * graph.num_classes
    assert int((part == Part.TEST).sum()) == num_test
    assert torch.equal(part == Part.NONE, graph.labels < 0)
    assert torch.equal(per_class_split(graph, index=index, train=1, test=test).part, part)


def test_nodes_are_equally_likely_to_be_drawn_whatever_their_order(build_graph):
    """One training node of each class, of four and of six; two of the eight others for testing."""
    labels = [0, 1, 1, 0, 1, 0, 1, 1, 0, 1]
    graph = build_graph([(0, 1)], [[1.0]] * 10, labels)
    parts = torch.stack([per_class_split(graph, index=i, count=400, train=1, test=0.2).part for i in range(400)])
    for node, label in enumerate(labels):
        train = 1 / labels.count(label)
        for part, share in ((Part.TRAIN, train), (Part.TEST, (1 - train) / 4)):
            found = float((parts[:, node] == part).double().mean())
            assert found == pytest.approx(share, abs=5 * np.sqrt(share * (1 - share) / 400))


def test_unlabelled_nodes_are_in_no_part_of_a_split_per_class(small_graph):
    graph = small_graph.replace(labels=small_graph.labels.masked_fill(torch.arange(300) % 4 == 0, -1))
    part = per_class_split(graph, index=0).part
    assert (part[graph.labels < 0] == Part.NONE).all()
    assert int((part == Part.TEST).sum()) == 45  # of 225 labelled nodes


def test_a_class_with_too_few_nodes_for_its_training_nodes_is_named(build_graph):
    graph = build_graph([(0, 1)], [[1.0]] * 49, [0] * 30 + [1] * 19)
    with pytest.raises(InputError, match="class 1 has 19 nodes") as caught:
        per_class_split(graph, index=0)
    assert (caught.value.parameter, caught.value.suggestion) == ("train", 9)
    assert int((per_class_split(graph, index=0, train=9).part == Part.TRAIN).sum()) == 18


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"train": 0}, "train is 0"),
        ({"test": 0.0}, "test is 0"),
        ({"test": 1.0}, "test is 1"),
        ({"index": 10}, "from 0 to 9"),
        ({"train": 10, "test": 0.95}, "at least one test and one validation node"),
    ],
)
def test_invalid_options_of_a_split_per_class_are_errors(small_graph, options, message):
    with pytest.raises(InputError, match=message):
        per_class_split(small_graph, **({"index": 0} | options))


def test_each_shipped_split_has_an_index(small_graph):
    parts = torch.stack([random_split(small_graph, index=index).part for index in range(3)])
    graph = small_graph.replace(official_part=parts)
    for index in range(3):
        assert torch.equal(official_split(graph, index=index, count=3).part, parts[index])
    with pytest.raises(MissingSplitError, match="ships 3 splits"):
        official_split(graph, index=3, count=10)


def test_a_missing_official_split_is_an_error(small_graph):
    with pytest.raises(InputError, match="no official split") as caught:
        official_split(small_graph, index=0)
    assert (caught.value.parameter, caught.value.suggestion) == ("split", "random")


def test_the_split_of_a_file_is_used_and_is_the_only_one(folder):
    graph = read_csv(folder)
    assert own_split(graph, index=0).part.tolist() == graph.official_part.tolist()
    with pytest.raises(MissingSplitError, match="a single split"):
        own_split(graph, index=1)


def test_a_file_without_a_split_gets_a_random_one_of_its_labelled_nodes(folder):
    rows = "".join(f"n{k},{['a', 'b', ''][k % 3]},{k}\n" for k in range(60))
    write_csv(folder, "id,label,x\n" + rows, "source,target\nn1,n2\n")
    graph = own_split(read_csv(folder), index=3)
    assert (graph.part[graph.labels < 0] == Part.NONE).all()
    assert [len(graph.nodes(part)) for part in (Part.TRAIN, Part.VAL, Part.TEST)] == [24, 8, 8]


def test_validation_halves_share_the_validation_nodes_and_hide_the_test_labels(small_graph):
    own = own_split(small_graph, index=0)
    halves = [validation_halves_split(small_graph, index=index) for index in (0, 1)]
    first, second = (set(half.nodes(Part.TEST).tolist()) for half in halves)
    assert first | second == set(own.nodes(Part.VAL).tolist())
    assert not first & second
    for half, stopping in zip(halves, (second, first), strict=True):
        assert set(half.nodes(Part.VAL).tolist()) == stopping
        assert torch.equal(half.nodes(Part.TRAIN), own.nodes(Part.TRAIN))
        is_test = own.part == Part.TEST
        assert (half.labels[is_test] == -1).all()
        assert (half.part[is_test] == Part.NONE).all()
        assert torch.equal(half.labels[~is_test], small_graph.labels[~is_test])
    counts = [torch.bincount(half.labels[half.nodes(Part.TEST)], minlength=3) for half in halves]
    assert ((counts[0] - counts[1]).abs() <= 1).all()  # stratified


def test_validation_halves_do_not_depend_on_the_labels_of_test_nodes(small_graph):
    own = own_split(small_graph, index=0)
    given = small_graph.replace(official_part=own.part)
    changed = torch.where(own.part == Part.TEST, (given.labels + 1) % 3, given.labels)
    first, second = (validation_halves_split(graph, index=0) for graph in (given, given.replace(labels=changed)))
    assert first.fingerprint == second.fingerprint


def test_halves_of_too_few_validation_nodes_are_refused(small_graph):
    with pytest.raises(InputError, match="the split has 12 validation nodes") as caught:
        validation_halves_split(small_graph, index=0, train=0.76, val=0.04, test=0.2)
    assert "at least 20" in caught.value.expected


def test_halves_of_a_split_without_labelled_test_nodes_are_refused(small_graph):
    """The chosen method could not be evaluated."""
    part = own_split(small_graph, index=0).part
    graph = small_graph.replace(official_part=part, labels=small_graph.labels.masked_fill(part == Part.TEST, -1))
    with pytest.raises(InputError, match="the split has no labelled test nodes"):
        validation_halves_split(graph, index=0)
