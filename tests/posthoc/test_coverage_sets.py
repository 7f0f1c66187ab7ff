"""Prediction sets of any model: the method that validation nodes allow, and the coverage over many calibrations."""

import numpy as np
import pytest
import torch
from scipy import stats

from lopgpn_exp.data.datasets.synthetic import block_model
from lopgpn_exp.errors import InputError
from lopgpn_exp.evaluation.metrics.prediction_sets import coverage_range
from lopgpn_exp.evaluation.promise_scores import score_sets
from lopgpn_exp.graph import Graph, Part
from lopgpn_exp.models import APPNP
from lopgpn_exp.posterior import Categorical
from lopgpn_exp.posthoc.coverage_sets import calibrate_sets, choose_set_method

REPETITIONS = 300
MODEL = APPNP(num_features=4, num_classes=4)  # which the sets do not use


@pytest.fixture(scope="module")
def homophilous() -> tuple[Graph, Categorical]:
    """Return a graph and overconfident predictions that are less certain for some nodes."""
    graph = block_model(num_nodes=300, num_edges=900, num_classes=4, num_features=4, signal=2.0, seed=0)
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(300, 4, generator=generator)
    logits[torch.arange(300), graph.labels] += 3 * torch.rand(300, generator=generator)
    return graph, Categorical.from_logits(2 * logits)


def split_at_random(graph: Graph, count: int, rng: np.random.Generator) -> Graph:
    part = torch.full((graph.num_nodes,), Part.TEST, dtype=torch.int8)
    part[torch.from_numpy(rng.choice(graph.num_nodes, count, replace=False))] = Part.VAL
    return graph.replace(part=part)


@pytest.mark.parametrize(("num_validation", "method"), [(60, "daps"), (15, "aps")])
def test_coverage_is_kept_over_300_random_calibrations(homophilous, num_validation, method):
    """A set contains the class of its node with 90 %; the coverage leaves its range of 95 % in at most 5 % of cases.

    If validation nodes are a random subset, the range is exact. Bounds of the test are at a level of 0.1 %.
    """
    graph, posterior = homophilous
    rng = np.random.default_rng(0)
    coverages, outside, deviation = [], 0, 0.0
    for _ in range(REPETITIONS):
        split = split_at_random(graph, num_validation, rng)
        sets = calibrate_sets(MODEL, posterior, split, coverage=0.9)
        assert sets.method == method
        test = split.nodes(Part.TEST)
        in_set = sets.add_sets(posterior, MODEL, split).prediction_sets[test].numpy()
        (score,) = score_sets(
            in_set,
            split.labels[test].numpy(),
            np.zeros(len(test), dtype=bool),
            rank=sets.rank,
            num_calibration=sets.num_calibration,
        )
        coverages.append(score.coverage.share)
        outside += not score.is_expected
        m, n, k = len(test), sets.num_calibration, sets.rank
        deviation = stats.betabinom(m, k, n + 1 - k).std() / m
    assert np.mean(coverages) >= 0.9 - stats.norm.ppf(0.999) * deviation / np.sqrt(REPETITIONS)
    assert outside <= stats.binom.ppf(0.999, REPETITIONS, 0.05)
    assert outside > 0  # a range that is never left would say nothing


@pytest.mark.parametrize(("rank", "n", "m"), [(91, 100, 400), (19, 20, 7), (10, 10, 1000), (46, 50, 1)])
def test_range_is_that_of_the_beta_binomial(rank, n, m):
    expected = stats.betabinom(m, rank, n + 1 - rank).ppf([0.025, 0.975]) / m
    np.testing.assert_allclose(coverage_range(rank, n, m), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("count", "coverage", "method"),
    [(18, 0.9, "daps"), (17, 0.9, "aps"), (9, 0.9, "aps"), (3, 0.75, "aps"), (2, 0.5, "daps")],
)
def test_method_is_daps_if_half_of_the_nodes_suffice(count, coverage, method):
    assert choose_set_method(count, coverage) == method


@pytest.mark.parametrize(("count", "coverage", "possible"), [(8, 0.9, 0.888), (1, 0.9, 0.5), (36, 0.99, 0.972)])
def test_too_few_nodes_name_the_largest_coverage(count, coverage, possible):
    with pytest.raises(InputError, match="need more than") as info:
        choose_set_method(count, coverage)
    assert (info.value.parameter, info.value.suggestion) == ("coverage", possible)
    assert choose_set_method(count, possible) in ("aps", "daps")


def test_model_without_probabilities_is_refused(homophilous):
    class Scores(Categorical):
        @property
        def mean(self):
            return 3 * self.log_mean.exp()

    graph, posterior = homophilous
    split = split_at_random(graph, 60, np.random.default_rng(0))
    with pytest.raises(InputError, match="the model gives no class probabilities"):
        calibrate_sets(MODEL, Scores(posterior.log_mean), split, coverage=0.9)


def test_scores_of_sets_by_hand():
    """Sets {0}, {0, 1}, {}, {1}; the third node and the last one are OOD, the last of a class that no set can have."""
    sets = np.array([[1, 0], [1, 1], [0, 0], [0, 1]], dtype=bool)
    inside, outside = score_sets(
        sets, np.array([0, 1, 0, 2]), np.array([False, False, True, True]), rank=9, num_calibration=9
    )
    assert (inside.coverage.nodes, inside.coverage.share, inside.size, inside.singletons) == (2, 1.0, 1.5, 0.5)
    assert (outside.coverage.share, outside.size, outside.empty, outside.expected) == (0.0, 0.5, 0.5, None)
