"""Scenarios that change features: how many nodes, which features, and nothing else."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lopgpn_exp.data import scenarios
from lopgpn_exp.data.datasets.synthetic import block_model
from lopgpn_exp.data.splits import published_split, random_split
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Part
from tests.support.random_graphs import random_graphs

FEATURE_SCENARIOS = [
    scenarios.bernoulli,
    scenarios.gaussian,
    scenarios.feature_dropout,
    scenarios.feature_noise,
    scenarios.near_features,
]


@pytest.fixture
def word_graph(small_graph):
    """Return a graph without negative features, which `near_features` refuses."""
    return small_graph.replace(features=small_graph.features.abs())


@pytest.mark.parametrize("scenario", FEATURE_SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_feature_scenarios_change_a_tenth_of_each_part_and_nothing_else(word_graph, scenario):
    before = word_graph.features.clone()
    graph = scenario(word_graph, seed=1)
    for part in (Part.TRAIN, Part.VAL, Part.TEST):
        nodes = graph.nodes(part)
        assert int(graph.is_ood[nodes].sum()) == round(0.1 * len(nodes))
    is_changed = (graph.features != before).any(dim=1)
    assert torch.equal(is_changed, graph.is_ood)
    for field in ("labels", "part", "edge_index"):
        assert torch.equal(getattr(graph, field), getattr(word_graph, field))
    assert torch.equal(word_graph.features, before)  # the input is not modified
    assert torch.equal(scenario(word_graph, seed=1).features, graph.features)
    assert not torch.equal(scenario(word_graph, seed=2).is_ood, graph.is_ood)


@pytest.mark.parametrize("scenario", FEATURE_SCENARIOS, ids=lambda scenario: scenario.__name__)
@given(graph=random_graphs(), fraction=st.floats(0.01, 0.99), seed=st.integers(0, 10**6), data=st.data())
@settings(max_examples=25, deadline=None)
def test_feature_scenarios_on_random_graphs(scenario, graph, fraction, seed, data):
    parts = data.draw(st.lists(st.sampled_from(list(Part)), min_size=graph.num_nodes, max_size=graph.num_nodes))
    graph = graph.replace(part=torch.tensor([Part.TRAIN, *parts[1:]], dtype=torch.int8))
    changed = scenario(graph, fraction=fraction, seed=seed)
    for part in (Part.TRAIN, Part.VAL, Part.TEST):
        assert int(changed.is_ood[graph.part == part].sum()) == round(fraction * int((graph.part == part).sum()))
    assert not changed.is_ood[graph.part == Part.NONE].any()
    assert torch.equal(changed.features[~changed.is_ood], graph.features[~changed.is_ood])
    for field in ("labels", "part", "edge_index"):
        assert torch.equal(getattr(changed, field), getattr(graph, field))
    assert scenario(graph, fraction=fraction, seed=seed).fingerprint == changed.fingerprint


@pytest.mark.parametrize("scenario", FEATURE_SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_nodes_of_a_part_are_equally_likely_to_change_whatever_their_order(build_graph, scenario):
    """Two of five training nodes and one of three test nodes; the others are in no part."""
    parts = torch.tensor([1, 3, 1, 0, 1, 3, 1, 3, 0, 1], dtype=torch.int8)
    graph = build_graph([(0, 1)], [[1.0, 2.0]] * 10, [0, 1] * 5).replace(part=parts)
    counts = sum(scenario(graph, fraction=0.4, seed=seed).is_ood.double() for seed in range(400)) / 400
    shares = torch.tensor([0, 2 / 5, 0, 1 / 3], dtype=torch.float64)[parts.long()]
    assert ((counts - shares).abs() <= 5 * (shares * (1 - shares) / 400).sqrt()).all()


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
def test_an_invalid_fraction_is_an_error(word_graph, scenario):
    with pytest.raises(InputError, match="fraction is 1") as caught:
        scenario(word_graph, fraction=1.0, seed=1)
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


def test_near_features_by_hand(build_graph):
    """Features that all or none of the training nodes have leave nothing to chance."""
    graph = build_graph([(0, 1)], [[0.5, 0.5, 0.0]] * 4 + [[0.0, 0.2, 0.8]] * 4, [0, 1] * 4)
    graph = graph.replace(part=torch.tensor([1, 1, 1, 1, 3, 3, 3, 3]))
    changed = scenarios.near_features(graph, fraction=0.25, seed=0)
    assert int(changed.is_ood.sum()) == 2
    assert changed.features[changed.is_ood].tolist() == [[0.5, 0.5, 0.0]] * 2
    counted = scenarios.near_features(graph.replace(features=graph.features * 6), fraction=0.25, seed=0)
    assert counted.features[counted.is_ood].tolist() == [[3.0, 3.0, 0.0]] * 2


def test_near_features_have_the_frequencies_of_the_training_nodes():
    generator = torch.Generator().manual_seed(0)
    bits = torch.bernoulli(torch.linspace(0.05, 0.95, 40).expand(4000, 40), generator=generator)
    graph = block_model(num_nodes=4000, num_edges=10, num_classes=2, num_features=40)
    split = random_split(graph.replace(features=bits / bits.sum(dim=1, keepdim=True)), index=0, train=0.2, test=0.65)
    changed = scenarios.near_features(split, seed=0)
    rows = changed.features[changed.is_ood]
    torch.testing.assert_close(rows.sum(dim=1), torch.ones(len(rows)))
    frequencies = (split.features[split.part == Part.TRAIN] > 0).double().mean(dim=0)
    torch.testing.assert_close((rows > 0).double().mean(dim=0), frequencies, atol=0.1, rtol=0)
    # In rows that do not sum to 1, a feature that is present has its mean.
    counted = split.replace(features=3 * bits)
    values = scenarios.near_features(counted, seed=0).features[changed.is_ood]
    assert set(values.unique().tolist()) == {0.0, 3.0}


def test_near_features_need_features_that_are_present_or_absent(small_graph):
    shifted = small_graph.replace(features=small_graph.features - 1)
    with pytest.raises(InputError, match="negative values") as caught:
        scenarios.near_features(shifted, seed=0)
    assert caught.value.suggestion == "feature_noise"
    untrained = small_graph.replace(part=torch.full_like(small_graph.part, Part.TEST))
    with pytest.raises(InputError, match="no training nodes"):
        scenarios.near_features(untrained, seed=0)


@pytest.mark.parametrize("scenario", [scenarios.bernoulli, scenarios.gaussian], ids=["bernoulli", "gaussian"])
def test_published_draws_are_those_of_the_public_code(small_graph, scenario):
    """Its steps, written out: one generator of numpy draws splits and nodes, one of torch the features."""
    graph = published_split(small_graph, index=1)
    changed = scenario(graph, published_split=1, seed=0)
    rng = np.random.RandomState(42)
    for _ in range(2):
        remaining = np.bincount(small_graph.labels)
        for fraction in (0.05, 0.15, 0.8):
            sizes = (fraction * remaining).astype(int)
            for count, size in zip(remaining, sizes, strict=True):
                rng.choice(count, size, replace=False)
            remaining = remaining - sizes
    nodes = []
    for part in (Part.VAL, Part.TEST, Part.NONE, Part.TRAIN):
        members = graph.nodes(part).numpy()
        nodes.extend(rng.choice(members, int(len(members) * 0.1), replace=False))
    with torch.random.fork_rng():
        torch.manual_seed(42)
        noise = torch.zeros(len(nodes), small_graph.num_features)
        if scenario is scenarios.gaussian:
            noise = noise.normal_()
        else:
            noise = noise.bernoulli(0.5)
            noise = noise / (noise.sum(dim=-1).unsqueeze(-1) + 1e-10)
    assert sorted(nodes) == torch.nonzero(changed.is_ood).flatten().tolist()
    torch.testing.assert_close(changed.features[torch.tensor(np.array(nodes))], noise)
    untouched = ~changed.is_ood
    assert torch.equal(changed.features[untouched], graph.features[untouched])


def test_published_draws_need_the_published_split(small_graph):
    with pytest.raises(InputError, match="has another split") as caught:
        scenarios.gaussian(small_graph, published_split=0, seed=0)
    assert caught.value.parameter == "published_split"
