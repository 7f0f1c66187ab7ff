"""Accepted nodes: the bound on their errors by enumeration and by simulation, and what is said if there is none."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from lopgpn_exp.errors import InputError
from lopgpn_exp.evaluation.acceptance import ERRORS, count_needed_nodes, fit_acceptance, fit_acceptance_rule
from lopgpn_exp.evaluation.hypergeometric import hypergeometric_cdf
from lopgpn_exp.evaluation.trust import fit_validation_limits

REPETITIONS = 300


def draw_nodes(rng: np.random.Generator, *, num_nodes: int, num_validation: int, slope: float) -> pd.DataFrame:
    """Return a table of nodes with few uncertain ones, as of a trained model; errors become more frequent with `tu`.

    A twentieth of the nodes has a high epistemic uncertainty, and half of these are wrong.
    """
    tu = rng.beta(0.4, 2.5, num_nodes)
    is_strange = rng.random(num_nodes) < 0.05
    is_wrong = rng.random(num_nodes) < np.where(is_strange, 0.5, (slope * tu).clip(max=0.7))
    part = np.full(num_nodes, "test", dtype=object)
    part[rng.choice(num_nodes, num_validation, replace=False)] = "val"
    eu = rng.random(num_nodes) + is_strange
    columns = {"part": part, "label": 0, "predicted": is_wrong.astype(int), "is_ood": False, "confidence": 0.5}
    return pd.DataFrame({"node": np.arange(num_nodes), **columns, "tu": tu, "au": tu, "eu": eu})


def wrong_share(nodes: pd.DataFrame, accepted: np.ndarray) -> float:
    chosen = nodes[accepted & (nodes["part"] == "test")]
    return float((chosen["predicted"] != chosen["label"]).mean())


def test_cdf_is_that_of_scipy():
    rng = np.random.default_rng(0)
    total = rng.integers(1, 3000, 300)
    wrong, drawn = (rng.integers(0, total + 1) for _ in range(2))
    observed = rng.integers(0, drawn + 1)
    expected = stats.hypergeom.cdf(observed, total, wrong, drawn)
    np.testing.assert_allclose(hypergeometric_cdf(observed, total, wrong, drawn), expected, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("wrong", [(9,), (0,), (4, 9), (2, 5, 7), (0, 1, 2), tuple(range(10))])
@pytest.mark.parametrize(("max_error", "confidence"), [(0.3, 0.6), (0.4, 0.6), (0.25, 0.5)])
def test_bound_is_broken_by_at_most_its_share_of_all_choices_of_validation_nodes(wrong, max_error, confidence):
    """All 252 choices of 5 of 10 nodes, whichever nodes are wrong: no random numbers, no tolerance."""
    uncertainty, is_wrong = np.arange(10.0), np.isin(np.arange(10), wrong)
    broken, found = 0, 0
    for chosen in itertools.combinations(range(10), 5):
        val = np.isin(np.arange(10), chosen)
        acceptance = fit_acceptance(
            uncertainty[val], is_wrong[val], uncertainty[~val], max_error=max_error, confidence=confidence
        )
        if acceptance is None:
            continue
        accepted = ~val & (uncertainty <= acceptance.threshold)
        assert acceptance.accepted == accepted.sum() > 0
        assert acceptance.checked == (val & (uncertainty <= acceptance.threshold)).sum()
        assert acceptance.wrong == (is_wrong & val & (uncertainty <= acceptance.threshold)).sum()
        broken, found = broken + (is_wrong[accepted].mean() > max_error + 1e-12), found + 1
    assert broken <= (1 - confidence) * 252
    assert found > 0 or len(wrong) == 10 or max_error < 0.4  # the test would pass if nothing were ever accepted


@pytest.mark.parametrize(
    ("num_nodes", "num_validation", "slope", "max_error", "least"),
    [(2000, 300, 0.15, 0.05, 0.6), (900, 450, 0.3, 0.05, 0.2), (3000, 500, 0.8, 0.1, 0.4)],
)
def test_bound_is_kept_in_simulation_and_not_vacuous(num_nodes, num_validation, slope, max_error, least):
    """Over 300 calibrations, it is broken as often as chance allows for a probability of 5 %, at a level of 0.1 %."""
    rng = np.random.default_rng(0)
    broken, shares = 0, []
    for _ in range(REPETITIONS):
        nodes = draw_nodes(rng, num_nodes=num_nodes, num_validation=num_validation, slope=slope)
        limits = fit_validation_limits(nodes)
        try:
            accepted = fit_acceptance_rule(nodes, limits, max_error=max_error).accept_nodes(nodes)
        except InputError:
            shares.append(0.0)
            continue
        assert not (accepted & (limits.flag_nodes(nodes) == "unknown")).any()
        broken += wrong_share(nodes, accepted) > max_error
        shares.append(accepted[nodes["part"] == "test"].mean())
    assert broken <= stats.binom.ppf(0.999, REPETITIONS, 0.05)
    assert np.mean(shares) > least


def test_bound_is_kept_where_every_acceptance_would_break_it():
    """Uncertainty says nothing, and slightly more nodes are wrong than allowed: any threshold is a mistake."""
    rng = np.random.default_rng(0)
    accepted = {"bounded": 0, "largest that looks right": 0}
    for _ in range(REPETITIONS):
        uncertainty = rng.random(1500)
        is_wrong = rng.permutation(np.arange(1500) < 90)  # 6 %
        val = np.arange(1500) < 300
        found = fit_acceptance(uncertainty[val], is_wrong[val], uncertainty[~val], max_error=0.05, confidence=0.95)
        if found is not None:
            chosen = is_wrong[~val & (uncertainty <= found.threshold)]
            accepted["bounded"] += chosen.sum() > 0.05 * len(chosen)
        order = np.argsort(uncertainty[val])
        looks_right = np.cumsum(is_wrong[val][order]) / np.arange(1, 301) <= 0.05
        if looks_right.any():
            threshold = uncertainty[val][order][np.flatnonzero(looks_right)[-1]]
            chosen = is_wrong[~val & (uncertainty <= threshold)]
            accepted["largest that looks right"] += chosen.sum() > 0.05 * len(chosen)
    assert accepted["bounded"] <= stats.binom.ppf(0.999, REPETITIONS, 0.05)
    assert accepted["largest that looks right"] > REPETITIONS / 4  # the simulation can tell a rule without a bound


@pytest.mark.parametrize(("num_nodes", "max_error", "confidence"), [(2000, 0.05, 0.95), (300, 0.1, 0.9)])
def test_number_of_validation_nodes_that_it_takes(num_nodes, max_error, confidence):
    """Without a single wrong node, so many suffice and one less does not."""
    needed = count_needed_nodes(num_nodes, max_error=max_error, confidence=confidence)

    def fit(count: int):
        values = np.random.default_rng(1).random(num_nodes)
        right = np.zeros(count, dtype=bool)
        return fit_acceptance(values[:count], right, values[count:], max_error=max_error, confidence=confidence)

    assert fit(needed).accepted == num_nodes - needed  # everything
    assert fit(needed - 1) is None
    assert needed == pytest.approx(
        np.log(0.4 * (1 - confidence)) / np.log(1 - max_error), rel=0.15
    )  # of an infinite number


def test_failure_names_the_smallest_error_that_can_be_promised():
    nodes = draw_nodes(np.random.default_rng(0), num_nodes=2000, num_validation=300, slope=0.5)
    limits = fit_validation_limits(nodes)
    with pytest.raises(InputError, match=r"cannot be promised with confidence 0\.95") as info:
        fit_acceptance_rule(nodes, limits, max_error=0.01)
    error = info.value.suggestion
    assert info.value.parameter == "max_error"
    rule = fit_acceptance_rule(nodes, limits, max_error=error)
    assert f"a max-error of {error:g} ({rule.acceptance.accepted:,} nodes would be accepted)" in info.value.expected
    with pytest.raises(InputError):
        fit_acceptance_rule(nodes, limits, max_error=ERRORS[ERRORS.index(error) - 1])
    few = nodes.drop(nodes.index[nodes["part"] == "val"][20:])
    with pytest.raises(InputError, match=r"it takes at least \d+ validation nodes .* and there are 1\d"):
        fit_acceptance_rule(few, fit_validation_limits(few), max_error=0.05)


def test_without_an_accurate_model_nothing_is_suggested():
    nodes = draw_nodes(np.random.default_rng(0), num_nodes=2000, num_validation=300, slope=0.5).assign(predicted=1)
    with pytest.raises(InputError) as info:
        fit_acceptance_rule(nodes, fit_validation_limits(nodes), max_error=0.05)
    assert info.value.expected == "more validation nodes, or a more accurate model"
    assert info.value.suggestion is None


def test_declared_measure_decides_and_validation_nodes_do_not_choose_it():
    nodes = draw_nodes(np.random.default_rng(0), num_nodes=2000, num_validation=300, slope=0.2)
    nodes = nodes.assign(lconf=nodes["tu"] ** 2)
    limits = fit_validation_limits(nodes)
    assert fit_acceptance_rule(nodes, limits, max_error=0.2).measure == "tu"
    assert fit_acceptance_rule(nodes, limits, max_error=0.2, declared={"total": "lconf"}).measure == "lconf"
    with pytest.raises(InputError, match="no measure of total or aleatoric uncertainty"):
        fit_acceptance_rule(nodes.drop(columns=["tu", "au", "lconf"]), limits, max_error=0.2)


@pytest.mark.parametrize(
    ("name", "value"), [("max_error", 0.0), ("max_error", 1.0), ("confidence", 1.0), ("confidence", float("nan"))]
)
def test_shares_out_of_range_are_refused(name, value):
    nodes = draw_nodes(np.random.default_rng(0), num_nodes=200, num_validation=30, slope=0.2)
    with pytest.raises(InputError, match=f"{name} is") as info:
        fit_acceptance_rule(nodes, fit_validation_limits(nodes), **{"max_error": 0.1, "confidence": 0.9, name: value})
    assert info.value.parameter == name
