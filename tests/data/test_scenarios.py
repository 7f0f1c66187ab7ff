"""Out-of-distribution scenarios change exactly what they say."""

import pytest
import torch

from lopgpn_exp.data import scenarios
from lopgpn_exp.data.datasets.synthetic import block_model
from lopgpn_exp.data.splits import random_split
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Part

FEATURE_SCENARIOS = [
    scenarios.bernoulli,
    scenarios.gaussian,
    scenarios.feature_dropout,
    scenarios.feature_noise,
]


def test_left_out_classes_stay_in_the_graph_but_not_in_training(small_graph):
    graph = scenarios.leave_out_classes(small_graph, left_out_classes=1)
    is_left_out = small_graph.labels == 2
    assert graph.num_classes == 2
    assert torch.equal(graph.features, small_graph.features)
    assert torch.equal(graph.edge_index, small_graph.edge_index)
    assert torch.equal(graph.is_ood, is_left_out)
    assert set(graph.part[is_left_out].tolist()) == {Part.NONE, Part.TEST}
    assert torch.equal(graph.part[~is_left_out], small_graph.part[~is_left_out])
    assert torch.equal(graph.part == Part.TEST, small_graph.part == Part.TEST)


@pytest.mark.parametrize("count", [0, 2, 3])
def test_leaving_out_too_many_classes_or_none_is_an_error(small_graph, count):
    with pytest.raises(InputError, match="left out") as caught:
        scenarios.leave_out_classes(small_graph, left_out_classes=count)
    assert (caught.value.parameter, caught.value.suggestion) == ("left_out_classes", 1)


@pytest.mark.parametrize("scenario", FEATURE_SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_feature_scenarios_change_a_tenth_of_each_part_and_nothing_else(small_graph, scenario):
    before = small_graph.features.clone()
    graph = scenario(small_graph, seed=1)
    for part in (Part.TRAIN, Part.VAL, Part.TEST):
        nodes = graph.nodes(part)
        assert int(graph.is_ood[nodes].sum()) == round(0.1 * len(nodes))
    is_changed = (graph.features != before).any(dim=1)
    assert torch.equal(is_changed, graph.is_ood)
    assert torch.equal(small_graph.features, before)  # the input is not modified
    assert torch.equal(scenario(small_graph, seed=1).features, graph.features)
    assert not torch.equal(scenario(small_graph, seed=2).is_ood, graph.is_ood)


@pytest.mark.parametrize("scenario", FEATURE_SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_sparse_features_change_as_dense_ones(small_graph, scenario):
    dense = small_graph.replace(features=small_graph.features.masked_fill(small_graph.features < 1, 0))
    sparse = dense.replace(features=dense.features.to_sparse_csr())
    changed = scenario(sparse, seed=1)
    assert changed.features.layout is torch.sparse_csr
    assert torch.equal(changed.features.to_dense(), scenario(dense, seed=1).features)
    assert torch.equal(changed.is_ood, scenario(dense, seed=1).is_ood)
    assert torch.equal(sparse.features.to_dense(), dense.features)  # the input is not modified


@pytest.mark.parametrize("scenario", FEATURE_SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_an_invalid_fraction_is_an_error(small_graph, scenario):
    with pytest.raises(InputError, match="fraction is 1") as caught:
        scenario(small_graph, fraction=1.0, seed=1)
    assert (caught.value.parameter, caught.value.suggestion) == ("fraction", 0.1)


def test_perturbed_features_have_the_documented_distribution():
    graph = random_split(block_model(num_nodes=3000, num_edges=10, num_classes=2, num_features=200), index=0)
    dropped = scenarios.feature_dropout(graph, seed=0)
    binary = scenarios.bernoulli(graph, seed=0)
    replaced = scenarios.gaussian(graph, seed=0)
    noisy = scenarios.feature_noise(graph, seed=0, scale=0.5)
    torch.testing.assert_close(binary.features[binary.is_ood].sum(1), torch.ones(int(binary.is_ood.sum())))
    assert (binary.features[binary.is_ood] > 0).float().mean() == pytest.approx(0.5, abs=0.01)
    assert replaced.features[replaced.is_ood].std() == pytest.approx(1, abs=0.02)
    assert (dropped.features[dropped.is_ood] == 0).float().mean() == pytest.approx(0.5, abs=0.01)
    assert (noisy.features - graph.features)[noisy.is_ood].std() == pytest.approx(0.5, abs=0.01)
