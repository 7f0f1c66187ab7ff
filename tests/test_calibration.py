"""Calibration without bins of equal width: bins by hand, Wilson's definition, the path of a calibrated model."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from lopgpn_exp.evaluation.calibration import (
    BROWNIAN_95,
    NORMAL_95,
    CumulativeDifference,
    cumulative_difference,
    equal_mass_bins,
    wilson,
)
from lopgpn_exp.evaluation.classification import expected_calibration_error

NODES = st.lists(st.tuples(st.integers(0, 10), st.booleans()), min_size=1, max_size=50)


def arrays(pairs):
    return np.array([c / 10 for c, _ in pairs]), np.array([right for _, right in pairs], dtype=bool)


def test_bins_by_hand():
    """Five nodes in two bins: the two of least confidence, and the other three."""
    bins = equal_mass_bins(np.array([0.9, 0.5, 0.6, 0.8, 0.7]), np.array([True, False, True, True, False]), num_bins=2)
    assert bins.size.tolist() == [2, 3]
    np.testing.assert_allclose(bins.score, [0.55, 0.8])
    np.testing.assert_allclose(bins.rate, [1 / 2, 2 / 3])
    np.testing.assert_allclose(bins.quantile, [0.2, 0.7])
    assert bins.error == pytest.approx((2 * 0.05 + 3 * (0.8 - 2 / 3)) / 5)


@given(NODES, st.integers(1, 20), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_bins_hold_all_nodes_equally_and_ties_count_as_their_average(pairs, num_bins, random):
    score, event = arrays(pairs)
    bins = equal_mass_bins(score, event, num_bins=num_bins)
    assert len(bins.size) == min(num_bins, len(pairs))
    assert bins.size.sum() == len(pairs)
    assert bins.size.max() - bins.size.min() <= 1
    assert bins.size @ bins.score == pytest.approx(score.sum())
    assert bins.size @ bins.rate == pytest.approx(event.sum())
    assert (np.diff(bins.score) >= -1e-12).all()
    order = list(range(len(pairs)))
    random.shuffle(order)
    again = equal_mass_bins(score[order], event[order], num_bins=num_bins)
    np.testing.assert_allclose(again.rate, bins.rate, atol=1e-12)
    if len(set(score)) == 1:
        np.testing.assert_allclose(bins.rate, event.mean(), atol=1e-12)


def test_without_ties_bins_are_slices_of_the_sorted_nodes():
    rng = np.random.default_rng(0)
    score, event = rng.random(107), rng.random(107) < 0.6
    bins = equal_mass_bins(score, event, num_bins=10)
    parts = np.split(np.argsort(score), np.cumsum(bins.size)[:-1])
    np.testing.assert_allclose(bins.rate, [event[part].mean() for part in parts])
    np.testing.assert_allclose(bins.score, [score[part].mean() for part in parts])


@pytest.mark.parametrize(("hits", "size"), [(0, 7), (7, 7), (3, 10), (250, 1000)])
def test_wilson_against_its_definition_and_scipy(hits, size):
    low, high = (float(end[0]) for end in wilson(np.array([hits / size]), np.array([size])))
    interval = stats.binomtest(hits, size).proportion_ci(method="wilson")
    assert (low, high) == pytest.approx((interval.low, interval.high), abs=1e-6)
    for end in (low, high):
        assert abs(hits / size - end) == pytest.approx(NORMAL_95 * np.sqrt(max(end * (1 - end), 0) / size), abs=1e-9)


def test_cumulative_difference_by_hand():
    """Confidences 0.5 (right), 0.8 (wrong), 0.8 (right), 1 (right): the tied pair is one step."""
    found = cumulative_difference(np.array([0.8, 0.5, 1.0, 0.8]), np.array([False, True, True, True]))
    np.testing.assert_allclose(found.coverage, [0, 0.25, 0.75, 1])
    np.testing.assert_allclose(found.difference, [0, 0.125, -0.025, -0.025])
    assert found.error == pytest.approx(0.125)
    assert found.deviation == pytest.approx(np.sqrt(0.25 + 0.16 + 0.16) / 4)


@given(NODES)
@settings(max_examples=100, deadline=None)
def test_the_error_is_the_largest_gap_of_two_distribution_functions(pairs):
    """As Kolmogorov and Smirnov have it: up to each confidence, what was right and what was said to be."""
    confidence, correct = arrays(pairs)
    found = cumulative_difference(confidence, correct)
    gaps = [np.mean((confidence <= c) * (correct * 1.0 - confidence)) for c in confidence]
    assert found.error == pytest.approx(np.abs(gaps).max(), abs=1e-12)
    assert found.difference[-1] == pytest.approx(correct.mean() - confidence.mean())
    assert found.error >= abs(correct.mean() - confidence.mean()) - 1e-12


def test_no_bins_hide_what_cancels_within_them():
    """Half of the nodes say 0.61 and are right, half say 0.65 and are wrong: one bin of width 1/15 holds both."""
    confidence, correct = np.repeat([0.61, 0.65], 500), np.repeat([True, False], 500)
    assert expected_calibration_error(confidence, correct) == pytest.approx(0.13)
    assert cumulative_difference(confidence, correct).error == pytest.approx(0.39 / 2)


def test_the_band_and_p_are_those_of_a_brownian_motion():
    """5 % of calibrated models leave the band, a few less for a path that is looked at 300 times only; p is uniform."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(2000):
        confidence = rng.uniform(0.3, 1, 300)
        found.append(cumulative_difference(confidence, rng.random(300) < confidence))
    beyond = np.mean([each.error > each.band for each in found])
    assert 0.03 <= beyond <= 0.06
    assert beyond == np.mean([each.p_value < 0.05 for each in found])
    levels = np.array([0.1, 0.3, 0.5, 0.8])
    shares = np.mean(np.array([each.p_value for each in found])[:, None] < levels, axis=0)
    np.testing.assert_allclose(shares, levels, atol=0.06)
    assert CumulativeDifference(np.zeros(1), np.array([BROWNIAN_95]), 1.0).p_value == pytest.approx(0.05, abs=1e-6)


@pytest.mark.parametrize(
    ("confidence", "correct", "p"),
    [([1.0, 1.0], [True, True], 1), ([1.0, 1.0], [True, False], 0), ([1 + 2e-16], [True], 1)],
)
def test_nodes_that_are_sure_leave_no_doubt(confidence, correct, p):
    found = cumulative_difference(np.array(confidence), np.array(correct))
    assert found.deviation == 0
    assert found.p_value == pytest.approx(p, abs=1e-9)


def test_far_beyond_the_band_p_is_small_and_falls():
    values = [CumulativeDifference(np.zeros(1), np.array([size]), 1.0).p_value for size in (3.0, 5.0, 9.9, 10.1, 1e9)]
    assert values[0] == pytest.approx(4 * stats.norm.sf(3), rel=1e-4)  # twice the reflection principle
    assert sorted(values, reverse=True) == values
    assert values[-1] == 0


def test_an_over_confident_model_is_told_from_a_calibrated_one():
    rng = np.random.default_rng(1)
    truth = rng.uniform(0.4, 0.9, 2000)
    correct = rng.random(2000) < truth
    assert cumulative_difference(truth, correct).p_value > 0.01
    assert cumulative_difference(np.minimum(truth + 0.08, 1), correct).p_value < 1e-6


def test_no_nodes_have_no_calibration():
    with pytest.raises(ValueError, match="at least one node"):
        cumulative_difference(np.array([]), np.array([], dtype=bool))
