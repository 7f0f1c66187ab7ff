"""Risk and coverage against brute force over subsets and orders."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lopgpn_exp.errors import InputError
from lopgpn_exp.evaluation.metrics.rejection import accuracy_rejection_curve, area_under_curve
from lopgpn_exp.evaluation.metrics.selective import (
    aurc,
    coverage_at_risk,
    excess_aurc,
    risk_at_coverage,
    risk_coverage_curve,
)

NODES = st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=6)


def make_arrays(pairs):
    return np.array([float(u) for u, _ in pairs]), np.array([c for _, c in pairs], dtype=bool)


def average_over_orders(uncertainty, correct):
    """The mean curve of all orders that sort by uncertainty, which is how ties are defined."""
    curves = []
    for order in permutations(range(len(uncertainty))):
        if (np.diff(uncertainty[list(order)]) >= 0).all():
            wrong = [not correct[i] for i in order]
            curves.append([sum(wrong[:k]) / k for k in range(1, len(order) + 1)])
    return np.mean(curves, axis=0)


@given(NODES)
@settings(max_examples=60, deadline=None)
def test_all_functions_against_all_orders(pairs):
    uncertainty, correct = make_arrays(pairs)
    n, curve = len(pairs), average_over_orders(uncertainty, correct)
    np.testing.assert_allclose(risk_coverage_curve(uncertainty, correct), curve, atol=1e-12)
    assert aurc(uncertainty, correct) == pytest.approx(sum(curve) / n)
    for coverage in (0.01, 1 / n, 0.5, 0.8, 1.0):
        kept = next(k for k in range(1, n + 1) if k / n >= coverage - 1e-9)
        assert risk_at_coverage(uncertainty, correct, coverage) == pytest.approx(curve[kept - 1])
    for risk in (0.0, 0.2, 1 / 3, 0.5, 1.0):
        possible = [k / n for k in range(1, n + 1) if curve[k - 1] <= risk + 1e-9]
        assert coverage_at_risk(uncertainty, correct, risk) == max(possible, default=0)


@given(NODES)
@settings(max_examples=60, deadline=None)
def test_the_excess_is_over_the_best_of_all_orders(pairs):
    uncertainty, correct = make_arrays(pairs)
    n = len(pairs)
    best = min(
        sum(sum(not correct[i] for i in order[:k]) / k for k in range(1, n + 1)) / n for order in permutations(range(n))
    )
    assert excess_aurc(uncertainty, correct) == pytest.approx(aurc(uncertainty, correct) - best)
    assert excess_aurc(uncertainty, correct) >= -1e-12


def test_risk_and_coverage_by_hand():
    """Least uncertain first: correct, wrong, correct, correct. Risks 0, 1/2, 1/3, 1/4."""
    uncertainty, correct = np.array([3.0, 1.0, 4.0, 2.0]), np.array([True, True, True, False])
    np.testing.assert_allclose(risk_coverage_curve(uncertainty, correct), [0, 1 / 2, 1 / 3, 1 / 4])
    assert risk_at_coverage(uncertainty, correct, 0.5) == 0.5
    assert risk_at_coverage(uncertainty, correct, 0.51) == pytest.approx(1 / 3)
    # The largest coverage with a risk of at most 0.3, although the risk at half the coverage is higher.
    assert coverage_at_risk(uncertainty, correct, 0.3) == 1
    assert coverage_at_risk(uncertainty, correct, 0.2) == 0.25
    assert coverage_at_risk(uncertainty, ~correct, 0.2) == 0


def test_a_coverage_that_is_a_whole_number_of_nodes_is_not_rounded_up():
    """0.07 x 100 is 7.000000000000001 in floating point."""
    uncertainty = np.arange(100.0)
    correct = uncertainty < 7
    assert risk_at_coverage(uncertainty, correct, 0.07) == 0
    assert coverage_at_risk(uncertainty, correct, 0.0) == 0.07


def test_aurc_is_the_complement_of_auarc_except_at_the_ends():
    """With 100 nodes both curves have the same points; the trapezoidal rule counts the end points by half."""
    rng = np.random.default_rng(0)
    uncertainty, correct = rng.random(100), rng.random(100) < 0.8
    accuracies = accuracy_rejection_curve(uncertainty, correct)
    np.testing.assert_allclose(1 - accuracies[::-1], risk_coverage_curve(uncertainty, correct))
    ends = (accuracies[0] + accuracies[-1]) / 2
    assert 99 * area_under_curve(accuracies) + ends == pytest.approx(100 * (1 - aurc(uncertainty, correct)))


@pytest.mark.parametrize(("call", "value"), [(risk_at_coverage, 0), (risk_at_coverage, 1.1), (coverage_at_risk, -0.1)])
def test_shares_out_of_range_are_refused(call, value):
    with pytest.raises(InputError, match=f"is {value}"):
        call(np.array([1.0]), np.array([True]), value)


def test_no_nodes_are_refused():
    with pytest.raises(ValueError, match="at least one node"):
        aurc(np.array([]), np.array([], dtype=bool))
