"""Conformal sets: scores by hand, thresholds by brute force, and the coverage that theory predicts."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Graph, Part, neighbour_mean
from lopgpn_exp.models import APPNP
from lopgpn_exp.posterior import Categorical, Dirichlet, RefinedPosterior
from lopgpn_exp.posthoc.conformal import (
    COVERAGES,
    SMOOTHINGS,
    ConformalSets,
    aps_scores,
    choose_smoothing,
    conformal_threshold,
    smooth_scores,
    threshold_rank,
)
from lopgpn_exp.posthoc.step import StepData

MODEL = APPNP(num_features=12, num_classes=3)  # which the step does not use


def random_posterior(graph: Graph, seed: int = 0) -> Categorical:
    """Random logits, larger for the true class."""
    logits = torch.randn(graph.num_nodes, graph.num_classes, generator=torch.Generator().manual_seed(seed))
    logits[torch.arange(graph.num_nodes), graph.labels] += 1.5
    return Categorical.from_logits(logits)


def fitted_step(graph: Graph, posterior, **options) -> ConformalSets:
    step = ConformalSets(**options)
    step.check_graph(graph)
    step.fitted = step.fit(StepData(graph, MODEL, posterior, seed=0))
    return step


def with_validation(graph: Graph, count: int) -> Graph:
    """The graph with `count` validation nodes; the others are not used."""
    part = torch.full((graph.num_nodes,), Part.NONE, dtype=torch.int8)
    part[:count] = Part.VAL
    return graph.replace(part=part)


def test_scores_by_hand():
    """Probabilities 0.2, 0.5, 0.3: the second class ranks first, then the third, then the first."""
    p, u = torch.tensor([[0.2, 0.5, 0.3], [0.2, 0.5, 0.3]], dtype=torch.float64), torch.tensor([0.0, 0.25])
    expected = [[0.8, 0.0, 0.5], [0.8 + 0.25 * 0.2, 0.25 * 0.5, 0.5 + 0.25 * 0.3]]
    np.testing.assert_allclose(aps_scores(p, u), expected, atol=1e-15)


def test_of_equally_probable_classes_the_first_ranks_above():
    p = torch.full((1, 4), 0.25)
    assert aps_scores(p, torch.tensor([0.5])).tolist() == [[0.125, 0.375, 0.625, 0.875]]


@given(st.integers(0, 10_000), st.integers(2, 8))
@settings(max_examples=50, deadline=None)
def test_scores_equal_their_definition_and_rank_classes_by_probability(seed, num_classes):
    rng = np.random.default_rng(seed)
    p = torch.from_numpy(np.round(rng.dirichlet(np.ones(num_classes), size=5), 1))  # rounded: with ties
    u = torch.from_numpy(rng.random(5))
    scores = aps_scores(p, u)
    for node, y in itertools.product(range(5), range(num_classes)):
        above = sum(float(p[node, k]) for k in range(num_classes) if (-p[node, k], k) < (-p[node, y], y))
        assert float(scores[node, y]) == pytest.approx(above + float(u[node] * p[node, y]), abs=1e-12)
    order = torch.argsort(p, dim=1, descending=True, stable=True)
    assert (scores.gather(1, order).diff(dim=1) >= -1e-12).all()


@given(st.lists(st.integers(0, 6), min_size=1, max_size=40), st.integers(1, 99))
@settings(max_examples=200, deadline=None)
def test_threshold_by_brute_force(values, percent):
    """The smallest score that at least (n + 1) coverage scores do not exceed, counted in whole numbers."""
    n, scores = len(values), torch.tensor(values, dtype=torch.float64) / 7
    valid = [s for s in values if 100 * sum(other <= s for other in values) >= (n + 1) * percent]
    if valid:
        assert conformal_threshold(scores, percent / 100) == min(valid) / 7
    else:
        with pytest.raises(InputError, match="need more than"):
            conformal_threshold(scores, percent / 100)


def test_rank_is_not_raised_by_rounding():
    """100 * 0.55 is 55.00000000000001 in floating point."""
    ranks = [threshold_rank(99, percent / 100) for percent in range(1, 100)]
    assert ranks == list(range(1, 100))


def test_smoothing_on_two_nodes_by_hand(build_graph):
    """Nodes 0 and 1 are neighbours and exchange a quarter of their scores; node 2 is isolated and keeps its own."""
    graph = build_graph([(0, 1)], [[0.0]] * 3, [0, 1, 0])
    scores = torch.tensor([[0.0, 0.4], [0.8, 1.0], [0.3, 0.6]], dtype=torch.float64)
    expected = [[0.2, 0.55], [0.6, 0.85], [0.3, 0.6]]
    np.testing.assert_allclose(smooth_scores(scores, neighbour_mean(graph), smoothing=0.25), expected, atol=1e-15)
    assert torch.equal(smooth_scores(scores, neighbour_mean(graph), smoothing=0.0), scores)


def test_smoothing_is_the_one_with_the_smallest_sets(small_graph):
    scores = aps_scores(random_posterior(small_graph).mean, torch.rand(300, generator=torch.Generator().manual_seed(1)))
    operator, nodes = neighbour_mean(small_graph), small_graph.nodes(Part.VAL)
    labels = small_graph.labels[nodes]
    sizes = {}
    for smoothing in SMOOTHINGS:
        smoothed = smooth_scores(scores, operator, smoothing=smoothing)[nodes]
        ranked = sorted(float(smoothed[i, label]) for i, label in enumerate(labels))
        sizes[smoothing] = float(
            (smoothed <= ranked[math.ceil(0.9 * (len(nodes) + 1)) - 1] + 1e-12).sum(dim=1).double().mean()
        )
    chosen = choose_smoothing(scores, operator, nodes, labels, coverage=0.9)
    assert sizes[chosen] == min(sizes.values())
    assert chosen > 0  # the graph is homophilous


def test_equally_good_smoothings_give_the_smallest(build_graph):
    """Without edges, smoothing changes nothing."""
    graph = build_graph([], [[0.0]] * 4, [0, 1, 0, 1])
    scores = torch.rand(4, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert choose_smoothing(scores, neighbour_mean(graph), torch.arange(4), graph.labels, coverage=0.5) == 0


def test_daps_without_smoothing_is_aps(small_graph, build_graph):
    posterior = random_posterior(small_graph)
    aps, daps = fitted_step(small_graph, posterior), ConformalSets(method="daps")
    daps.fitted = aps.fitted
    for graph in (small_graph, small_graph.replace(edge_index=small_graph.edge_index[:, :40])):
        first, second = (step.refine(posterior, MODEL, graph) for step in (aps, daps))
        assert torch.equal(first.set_scores, second.set_scores)
        assert torch.equal(first.prediction_sets, second.prediction_sets)


@pytest.mark.parametrize("method", ["aps", "daps"])
def test_sets_are_those_of_the_definition(small_graph, method):
    posterior = random_posterior(small_graph)
    step = fitted_step(small_graph, posterior, method=method, coverage=0.8, seed=3)
    refined = step.refine(posterior, MODEL, small_graph)
    scores = aps_scores(posterior.mean, torch.from_numpy(np.random.default_rng(3).random(300)))
    scores = smooth_scores(scores, neighbour_mean(small_graph), smoothing=step.fitted["smoothing"])
    assert (step.fitted["smoothing"] > 0) == (method == "daps")
    assert torch.equal(refined.set_scores, scores)
    assert torch.equal(refined.prediction_sets, scores <= step.fitted["threshold"])
    assert torch.equal(refined.measure("set_size"), refined.prediction_sets.sum(dim=1).double())
    assert torch.equal(refined.mean, posterior.mean)
    nodes = small_graph.nodes(Part.VAL)
    of_labels = scores[nodes, small_graph.labels[nodes]]
    if method == "aps":
        assert step.fitted["threshold"] == float(of_labels.sort().values[math.ceil(0.8 * 61) - 1])  # of 60 nodes
    else:
        assert step.fitted["threshold"] in of_labels.tolist()  # of one half


def test_the_halves_of_daps_are_disjoint_and_the_second_gives_the_threshold(small_graph, monkeypatch):
    """With 2 * 10 validation nodes and coverage 10/11, the threshold is the largest score of the second half."""
    graph, posterior = with_validation(small_graph, 20), random_posterior(small_graph)
    halves, largest_are_in = [], set()

    def choose(scores, operator, nodes, labels, *, coverage):
        halves.append(set(nodes.tolist()))
        assert torch.equal(labels, graph.labels[nodes])
        return 0.0

    monkeypatch.setattr("lopgpn_exp.posthoc.conformal.choose_smoothing", choose)
    for seed in range(8):
        step = fitted_step(graph, posterior, method="daps", coverage=10 / 11, seed=seed)
        scores = step.refine(posterior, MODEL, graph).set_scores
        of_labels = [float(scores[node, graph.labels[node]]) for node in range(20)]
        assert len(halves[-1]) == 10
        assert step.fitted["threshold"] == max(of_labels[node] for node in range(20) if node not in halves[-1])
        largest_are_in.add(int(np.argmax(of_labels)) in halves[-1])
    assert largest_are_in == {True, False}  # else all nodes would give the same threshold as the half


def test_thresholds_of_all_possible_coverages_are_kept(small_graph):
    """With 19 nodes, coverages up to 19/20 are possible."""
    graph, posterior = with_validation(small_graph, 19), random_posterior(small_graph)
    step = fitted_step(graph, posterior, coverage=0.7)
    thresholds = step.fitted["thresholds"]
    assert list(thresholds) == [coverage for coverage in COVERAGES if coverage <= 0.95]
    assert thresholds[0.7] == step.fitted["threshold"]
    assert list(thresholds.values()) == sorted(thresholds.values())
    refined = step.refine(posterior, MODEL, graph)
    assert refined.set_thresholds == thresholds
    chosen = refined[torch.tensor([4, 2])]
    assert chosen.set_thresholds == thresholds
    assert torch.equal(chosen.prediction_sets, refined.prediction_sets[[4, 2]])
    later = RefinedPosterior(refined, {"own": torch.zeros(300)})
    assert later.set_thresholds == thresholds
    assert later.measures == (*posterior.measures, "set_size", "own")


def test_same_seed_same_sets_and_labels_of_test_nodes_do_not_matter(small_graph):
    posterior = random_posterior(small_graph)
    other = small_graph.replace(labels=torch.where(small_graph.part == Part.TEST, 0, small_graph.labels))
    for method in ("aps", "daps"):
        first, second = (fitted_step(graph, posterior, method=method).fitted for graph in (small_graph, other))
        assert first == second
        assert fitted_step(small_graph, posterior, method=method, seed=1).fitted != first


def test_the_first_nodes_of_a_larger_graph_keep_their_sets(small_graph):
    posterior = random_posterior(small_graph)
    step = fitted_step(small_graph, posterior)
    scores = step.refine(posterior, MODEL, small_graph).set_scores
    assert torch.equal(step.refine(posterior[torch.arange(100)], MODEL, small_graph).set_scores, scores[:100])


def test_any_posterior_can_have_sets(small_graph):
    posterior = Dirichlet(1 + torch.rand(300, 3, generator=torch.Generator().manual_seed(0)))
    refined = fitted_step(small_graph, posterior).refine(posterior, MODEL, small_graph)
    assert refined.measures == (*posterior.measures, "set_size")
    assert torch.equal(refined.alpha, posterior.alpha)


def exchangeable_scores(num_nodes: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Scores of a miscalibrated model: labels come from other probabilities than it predicts."""
    logits = rng.normal(size=(num_nodes, 4))
    cumulative = np.cumsum(np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True), axis=1)
    labels = (cumulative < rng.random((num_nodes, 1))).sum(axis=1).clip(max=3)
    predicted = torch.softmax(torch.from_numpy(3 * logits + rng.normal(size=logits.shape)), dim=1)
    return aps_scores(predicted, torch.from_numpy(rng.random(num_nodes))), torch.from_numpy(labels)


@pytest.mark.parametrize(("n", "coverage"), [(50, 0.9), (99, 0.8)])
def test_mean_coverage_over_calibrations_is_that_of_the_beta_binomial(n, coverage):
    """Randomised scores have no ties. Given n, the coverage is Beta(k, n + 1 - k), and m test nodes are binomial.

    The mean of 200 calibrations must lie in its interval of 99.9 %, by the normal distribution of a mean, and a
    Kolmogorov-Smirnov test at 0.1 % must not tell their distribution from the beta-binomial.
    """
    m, repetitions, rng = 400, 200, np.random.default_rng(0)
    shares = []
    for _ in range(repetitions):
        scores, labels = exchangeable_scores(n + m, rng)
        of_labels = scores[torch.arange(n + m), labels]
        threshold = conformal_threshold(of_labels[:n], coverage)
        shares.append(float((of_labels[n:] <= threshold).double().mean()))
    k = math.ceil((n + 1) * coverage - 1e-9)
    expected = stats.betabinom(m, k, n + 1 - k)
    standard_error = expected.std() / m / math.sqrt(repetitions)
    assert expected.mean() / m == pytest.approx(k / (n + 1))
    assert abs(np.mean(shares) - k / (n + 1)) <= stats.norm.ppf(0.9995) * standard_error
    assert stats.kstest(np.array(shares) * m + rng.random(repetitions) - 1, smoothed_cdf(expected, m)).pvalue > 0.001


def smoothed_cdf(distribution, largest: int):
    """The distribution function of a whole number minus an independent uniform one, which is continuous."""
    points, values = np.arange(-1, largest + 1), distribution.cdf(np.arange(-1, largest + 1))
    return lambda x: np.interp(x, points, values)


@pytest.mark.parametrize(
    ("count", "options", "possible", "needed"),
    [
        (8, {}, 0.888, 9),
        (1, {}, 0.5, 9),
        (17, {"method": "daps"}, 0.888, 18),
        (60, {"coverage": 0.99}, 0.983, 99),
    ],
)
def test_too_few_validation_nodes_are_refused_before_training(small_graph, count, options, possible, needed):
    with pytest.raises(InputError, match="need more than the") as info:
        ConformalSets(**options).check_graph(with_validation(small_graph, count))
    assert info.value.expected == f"a coverage of at most {possible}, or at least {needed} validation nodes"
    assert (info.value.parameter, info.value.suggestion) == ("coverage", possible)
    ConformalSets(**options | {"coverage": possible}).check_graph(with_validation(small_graph, count))
    ConformalSets(**options).check_graph(with_validation(small_graph, needed))
    with pytest.raises(InputError):
        ConformalSets(**options).check_graph(with_validation(small_graph, needed - 1))


def test_no_validation_nodes_at_all_are_a_matter_of_the_split(small_graph):
    for count, method, needed in ((0, "aps", 9), (1, "daps", 18)):
        with pytest.raises(InputError, match="the 0 nodes") as info:
            ConformalSets(method=method).check_graph(with_validation(small_graph, count))
        assert info.value.expected == f"at least {needed} validation nodes"
        assert info.value.parameter == "split"


@pytest.mark.parametrize("coverage", [0.0, 1.0, -0.1, 1.5, float("nan")])
def test_impossible_coverages_are_refused(coverage):
    with pytest.raises(InputError, match="coverage is") as info:
        ConformalSets(coverage=coverage)
    assert (info.value.parameter, info.value.suggestion) == ("coverage", 0.9)
