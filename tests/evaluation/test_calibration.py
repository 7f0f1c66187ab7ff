"""Calibration: bins by hand, Wilson's definition, and the distribution of the error of a calibrated model."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from lopgpn_exp.evaluation.metrics.calibration import (
    BROWNIAN_95,
    NORMAL_95,
    NUM_BINS,
    CumulativeDifference,
    cumulative_difference,
    equal_mass_bins,
    equal_width_bins,
    expected_calibration_error,
    wilson_interval,
)

NODES = st.lists(st.tuples(st.integers(0, 10), st.booleans()), min_size=1, max_size=50)


def make_arrays(pairs):
    return np.array([c / 10 for c, _ in pairs]), np.array([correct for _, correct in pairs], dtype=bool)


def test_equal_width_bins_include_their_lower_edge_and_the_last_one_its_upper_edge():
    confidence = np.array([0.0, 0.1, 0.25, 0.5, 0.99, 1.0])
    assert equal_width_bins(confidence, num_bins=4).tolist() == [0, 0, 1, 2, 3, 3]
    assert equal_width_bins(np.array([1.0])).tolist() == [NUM_BINS - 1]


def test_expected_calibration_error_by_hand():
    """Two bins: confidence 0.9 and 1/2 correct (gap 0.4, two nodes), 0.6 and correct (gap 0.4, one node)."""
    error = expected_calibration_error(np.array([0.9, 0.9, 0.6]), np.array([True, False, True]), num_bins=5)
    assert error == pytest.approx((2 * 0.4 + 0.4) / 3)
    assert expected_calibration_error(np.array([1.0]), np.array([True])) == 0


def test_equal_mass_bins_by_hand():
    """Five nodes in two bins: the two least confident ones, and the other three."""
    bins = equal_mass_bins(np.array([0.9, 0.5, 0.6, 0.8, 0.7]), np.array([True, False, True, True, False]), num_bins=2)
    assert bins.size.tolist() == [2, 3]
    np.testing.assert_allclose(bins.score, [0.55, 0.8])
    np.testing.assert_allclose(bins.rate, [1 / 2, 2 / 3])
    np.testing.assert_allclose(bins.quantile, [0.2, 0.7])
    assert bins.error == pytest.approx((2 * 0.05 + 3 * (0.8 - 2 / 3)) / 5)


@given(NODES, st.integers(1, 20), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_equal_mass_bins_partition_the_nodes_and_ties_count_as_their_average(pairs, num_bins, random):
    score, event = make_arrays(pairs)
    bins = equal_mass_bins(score, event, num_bins=num_bins)
    assert len(bins.size) == min(num_bins, len(pairs))
    assert bins.size.sum() == len(pairs)
    assert bins.size.max() - bins.size.min() <= 1
    assert bins.size @ bins.score == pytest.approx(score.sum())
    assert bins.size @ bins.rate == pytest.approx(event.sum())
    assert (np.diff(bins.score) >= -1e-12).all()
    order = list(range(len(pairs)))
    random.shuffle(order)
    shuffled = equal_mass_bins(score[order], event[order], num_bins=num_bins)
    np.testing.assert_allclose(shuffled.rate, bins.rate, atol=1e-12)
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
def test_wilson_interval_against_its_definition_and_scipy(hits, size):
    low, high = (float(end[0]) for end in wilson_interval(np.array([hits / size]), np.array([size])))
    interval = stats.binomtest(hits, size).proportion_ci(method="wilson")
    assert (low, high) == pytest.approx((interval.low, interval.high), abs=1e-6)
    for end in (low, high):
        assert abs(hits / size - end) == pytest.approx(NORMAL_95 * np.sqrt(max(end * (1 - end), 0) / size), abs=1e-9)


def test_cumulative_difference_by_hand():
    """Confidences 0.5 (correct), 0.8 (wrong), 0.8 (correct), 1 (correct): the tied pair is one step."""
    result = cumulative_difference(np.array([0.8, 0.5, 1.0, 0.8]), np.array([False, True, True, True]))
    np.testing.assert_allclose(result.coverage, [0, 0.25, 0.75, 1])
    np.testing.assert_allclose(result.difference, [0, 0.125, -0.025, -0.025])
    assert result.error == pytest.approx(0.125)
    assert result.deviation == pytest.approx(np.sqrt(0.25 + 0.16 + 0.16) / 4)


@given(NODES)
@settings(max_examples=100, deadline=None)
def test_the_error_is_the_largest_gap_of_two_distribution_functions(pairs):
    """The definition of Kolmogorov and Smirnov: up to each confidence, what is correct against what is predicted."""
    confidence, correct = make_arrays(pairs)
    result = cumulative_difference(confidence, correct)
    gaps = [np.mean((confidence <= c) * (correct * 1.0 - confidence)) for c in confidence]
    assert result.error == pytest.approx(np.abs(gaps).max(), abs=1e-12)
    assert result.difference[-1] == pytest.approx(correct.mean() - confidence.mean())
    assert result.error >= abs(correct.mean() - confidence.mean()) - 1e-12


def test_gaps_that_cancel_within_a_bin_are_visible_without_bins():
    """Half of the nodes are correct at confidence 0.61, half wrong at 0.65: one bin of width 1/15 holds both."""
    confidence, correct = np.repeat([0.61, 0.65], 500), np.repeat([True, False], 500)
    assert expected_calibration_error(confidence, correct) == pytest.approx(0.13)
    assert cumulative_difference(confidence, correct).error == pytest.approx(0.39 / 2)


def test_band_and_p_value_are_those_of_a_brownian_motion():
    """5 % of calibrated models leave the band, slightly fewer for a path with 300 steps only; p is uniform."""
    rng = np.random.default_rng(0)
    results = []
    for _ in range(2000):
        confidence = rng.uniform(0.3, 1, 300)
        results.append(cumulative_difference(confidence, rng.random(300) < confidence))
    outside = np.mean([result.error > result.band for result in results])
    assert 0.03 <= outside <= 0.06
    assert outside == np.mean([result.p_value < 0.05 for result in results])
    levels = np.array([0.1, 0.3, 0.5, 0.8])
    shares = np.mean(np.array([result.p_value for result in results])[:, None] < levels, axis=0)
    np.testing.assert_allclose(shares, levels, atol=0.06)
    assert CumulativeDifference(np.zeros(1), np.array([BROWNIAN_95]), 1.0).p_value == pytest.approx(0.05, abs=1e-6)


@pytest.mark.parametrize(
    ("confidence", "correct", "p"),
    [([1.0, 1.0], [True, True], 1), ([1.0, 1.0], [True, False], 0), ([1 + 2e-16], [True], 1)],
)
def test_fully_confident_nodes_have_no_deviation(confidence, correct, p):
    result = cumulative_difference(np.array(confidence), np.array(correct))
    assert result.deviation == 0
    assert result.p_value == pytest.approx(p, abs=1e-9)


def test_far_outside_the_band_p_is_small_and_decreasing():
    values = [CumulativeDifference(np.zeros(1), np.array([size]), 1.0).p_value for size in (3.0, 5.0, 9.9, 10.1, 1e9)]
    assert values[0] == pytest.approx(4 * stats.norm.sf(3), rel=1e-4)  # twice the reflection principle
    assert sorted(values, reverse=True) == values
    assert values[-1] == 0


def test_an_over_confident_model_is_distinguished_from_a_calibrated_one():
    rng = np.random.default_rng(1)
    truth = rng.uniform(0.4, 0.9, 2000)
    correct = rng.random(2000) < truth
    assert cumulative_difference(truth, correct).p_value > 0.01
    assert cumulative_difference(np.minimum(truth + 0.08, 1), correct).p_value < 1e-6


def test_no_nodes_are_refused():
    with pytest.raises(ValueError, match="at least one node"):
        cumulative_difference(np.array([]), np.array([], dtype=bool))
