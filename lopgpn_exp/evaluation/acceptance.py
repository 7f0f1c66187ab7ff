"""Accept nodes by a rule with a bound: with a given confidence, at most a given share of them is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from lopgpn_exp.errors import InputError, check_parameter
from lopgpn_exp.evaluation.hypergeometric import hypergeometric_cdf
from lopgpn_exp.evaluation.node_table import find_measures
from lopgpn_exp.evaluation.trust import Limits, select_calibration_nodes
from lopgpn_exp.measures import choose_measure

SHARES = np.arange(1, 101) / 100  # of the nodes, the least uncertain first: the thresholds that are tested
# Sequences of tests, and the share of the error probability that each may use. The first begins with as few nodes as
# the test allows, the others with these shares of the nodes: a network may be wrong about some nodes of which it is
# certain, and a sequence that begins with these ends at once.
FIRST_LEVEL = 0.4
LATER_LEVELS = {0.3: 0.2, 0.6: 0.2, 1.0: 0.2}
MARGIN = 2  # standard deviations by which the number of accepted validation nodes may differ from what is expected
SPARE_ERRORS = 2  # wrong validation nodes that the first test should tolerate, if there are enough nodes
# Errors of which the smallest that can be promised is suggested: 0.001, 0.002, ..., 0.02, 0.025, ..., 0.5.
ERRORS = (*(step / 1000 for step in range(1, 20)), *(step / 200 for step in range(4, 101)))
ROUNDING = 1e-9  # tolerance for rounding errors of shares


@dataclass(frozen=True)
class Acceptance:
    """A threshold for which the bound holds, and the nodes behind it.

    Args:
        threshold: nodes of at most this uncertainty are accepted.
        accepted: accepted nodes that were used neither for training nor for validation.
        checked, wrong: accepted validation nodes, and how many of them are wrong.
    """

    threshold: float
    accepted: int
    checked: int
    wrong: int


@dataclass(frozen=True)
class AcceptanceRule:
    """What is accepted, by which measure, and what is promised about it. Nodes flagged unknown are never accepted."""

    measure: str
    max_error: float
    confidence: float
    acceptance: Acceptance
    limits: Limits

    def accept_nodes(self, table: pd.DataFrame) -> Bool[np.ndarray, " nodes"]:
        """Return whether each row of a table, which has the measures as columns, is accepted."""
        return _is_familiar(table, self.limits) & (table[self.measure].to_numpy() <= self.acceptance.threshold)


def check_promise(*, max_error: float, confidence: float) -> None:
    """Raise an InputError if an error or a confidence is out of range."""
    check_parameter("max_error", max_error, 0 < max_error < 1, expected="a share between 0 and 1", suggestion=0.05)
    check_parameter("confidence", confidence, 0 < confidence < 1, expected="a share between 0 and 1", suggestion=0.95)


def fit_acceptance_rule(
    nodes: pd.DataFrame,
    limits: Limits,
    *,
    max_error: float,
    confidence: float = 0.95,
    declared: Mapping[str, str] | None = None,
) -> AcceptanceRule:
    """Return the rule that accepts as many nodes as the bound allows; raise an InputError if it allows none.

    The uncertainty is the measure that the model declares as `total`, or else as `aleatoric`: it is not chosen by the
    validation nodes. Only nodes below the epistemic limit are considered. The limit is the value of one validation node
    and uses no labels; given this value, the validation nodes below it are a random subset of all nodes below it, so
    `fit_acceptance` applies to these.

    Args:
        nodes: a table of nodes as every run keeps it.
        limits: as fitted to the validation nodes of the same table.
        declared: measures that the model declares by role; by default those that the registry prefers.
    """
    check_promise(max_error=max_error, confidence=confidence)
    measure = _choose_uncertainty(nodes, declared or {})
    nodes = nodes[_is_familiar(nodes, limits)]
    validation = select_calibration_nodes(nodes)
    others = nodes.loc[~nodes["part"].isin(["train", "val"]), measure].to_numpy()
    values, is_wrong = validation[measure].to_numpy(), (validation["predicted"] != validation["label"]).to_numpy()
    acceptance = fit_acceptance(values, is_wrong, others, max_error=max_error, confidence=confidence)
    if acceptance is None:
        raise _explain_failure(values, is_wrong, others, max_error=max_error, confidence=confidence)
    return AcceptanceRule(measure, max_error, confidence, acceptance, limits)


def _is_familiar(nodes: pd.DataFrame, limits: Limits) -> Bool[np.ndarray, " nodes"]:
    """Return which nodes are below the epistemic limit; all of them if there is none."""
    if limits.epistemic is None:
        return np.ones(len(nodes), dtype=bool)
    return nodes[limits.epistemic].to_numpy() < limits.unknown_above


def fit_acceptance(
    uncertainty: Float[np.ndarray, " validation"],
    is_wrong: Bool[np.ndarray, " validation"],
    others: Float[np.ndarray, " others"],
    *,
    max_error: float,
    confidence: float,
) -> Acceptance | None:
    r"""Return the largest threshold at which at most a share `max_error` of the accepted `others` is wrong.

    Whichever nodes are wrong, and however the uncertainty ranks them: if the n validation nodes are a random subset of
    these N nodes (validation nodes and others), the statement is false with a probability of at most
    1 - `confidence`. None if no threshold is found.

    Learn then test (Angelopoulos et al., 2021). The thresholds :math:`t_1 < t_2 < \dots` are quantiles of the
    uncertainty of all N nodes, so they do not depend on which of them are validation nodes, and neither does the number
    :math:`K_j` of wrong nodes among the :math:`M_j` nodes up to :math:`t_j`. The hypothesis :math:`K_j > \kappa_j`,
    where :math:`\kappa_j` depends on numbers of nodes alone (see `_tolerated_wrong`), is rejected at level
    :math:`\delta` if so few wrong validation nodes have a probability of at most :math:`\delta` for
    :math:`K_j = \kappa_j + 1`.
    Given the number of accepted validation nodes, the wrong ones among them are hypergeometric: this is the test of
    Clopper and Pearson (1934) for a finite population.

    The hypotheses are tested in four fixed sequences, each from a first one that depends on numbers of nodes alone (see
    `_first_test` and `LATER_LEVELS`) to larger thresholds, until one is not rejected. The first true hypothesis of a
    sequence is rejected with at most the probability of its level, so the number of tests needs no correction. The
    levels of the sequences add up to 1 - `confidence`.

    A rejection bounds the wrong nodes among validation nodes and others by :math:`\kappa_j`. After the :math:`e_j`
    observed ones, at most :math:`\kappa_j - e_j` are among the :math:`m_j` others, and a threshold is used only if
    this is at most `max_error` :math:`m_j`.
    """
    if len(uncertainty) == 0 or len(others) == 0:
        return None
    ranked, pooled = np.sort(uncertainty), np.sort(np.concatenate([uncertainty, others]))
    wrong = np.sort(uncertainty[is_wrong])
    thresholds = np.unique(pooled[np.ceil(SHARES * len(pooled) - ROUNDING).astype(int) - 1])
    total, checked, observed = (np.searchsorted(values, thresholds, side="right") for values in (pooled, ranked, wrong))
    share = len(uncertainty) / len(pooled)
    margin = MARGIN * np.sqrt(total * share * (1 - share) * (1 - total / len(pooled)))
    tolerated = _tolerated_wrong(total * (1 - share) - margin, max_error)
    expected = np.floor(total * share - margin + ROUNDING).astype(int).clip(min=0)
    p_values = hypergeometric_cdf(observed, total, tolerated + 1, checked)
    is_rejected = np.zeros(len(thresholds), dtype=bool)
    level = FIRST_LEVEL * (1 - confidence)
    sequences = [(_first_test(total, tolerated, expected, level=level), level)]
    for share_of_nodes, part in LATER_LEVELS.items():
        sequences.append((int(np.searchsorted(total, share_of_nodes * total[-1] - ROUNDING)), part * (1 - confidence)))
    for start, level in sequences:
        if start is not None:
            is_rejected[start:] |= np.minimum.accumulate(p_values[start:] <= level)
    is_bounded = (tolerated - observed <= max_error * (total - checked) + ROUNDING) & (total > checked)
    usable = np.flatnonzero(is_rejected & is_bounded)
    if len(usable) == 0:
        return None
    last = usable[-1]
    return Acceptance(
        float(thresholds[last]), int(total[last] - checked[last]), int(checked[last]), int(observed[last])
    )


def _tolerated_wrong(others: Float[np.ndarray, " thresholds"], max_error: float) -> Int[np.ndarray, " thresholds"]:
    r"""Return :math:`\kappa`: the wrong nodes that are tolerated if all of them are among the accepted others.

    Args:
        others: their expected number, less a margin.
    """
    return np.floor(max_error * others.clip(min=0) + ROUNDING).astype(int)


def _first_test(
    total: Int[np.ndarray, " thresholds"],
    tolerated: Int[np.ndarray, " thresholds"],
    expected: Int[np.ndarray, " thresholds"],
    *,
    level: float,
) -> int | None:
    """Return the first threshold at which a rejection is to be expected; None if there is none.

    The test should tolerate SPARE_ERRORS wrong validation nodes or, if that takes more than half of all nodes, as many
    as it does at half of them.

    Args:
        expected: number of accepted validation nodes, less a margin.
    """
    can_reject = [
        hypergeometric_cdf(np.full_like(total, errors), total, tolerated + 1, expected) <= level
        for errors in range(SPARE_ERRORS + 1)
    ]
    half = int(np.searchsorted(total, total[-1] / 2)) + 1
    spare = max((errors for errors in range(SPARE_ERRORS + 1) if can_reject[errors][:half].any()), default=0)
    candidates = np.flatnonzero(can_reject[spare])
    return int(candidates[0]) if len(candidates) else None


def count_needed_nodes(num_nodes: int, *, max_error: float, confidence: float) -> int:
    """Return how many of N nodes must be validation nodes, all of them predicted correctly, for any promise."""
    counts = np.arange(1, num_nodes)
    wrong = _tolerated_wrong((num_nodes - counts).astype(float), max_error) + 1
    p_values = hypergeometric_cdf(np.zeros_like(counts), np.full_like(counts, num_nodes), wrong, counts)
    enough = np.flatnonzero(p_values <= FIRST_LEVEL * (1 - confidence))
    return int(counts[enough[0]]) if len(enough) else num_nodes


def _choose_uncertainty(nodes: pd.DataFrame, declared: Mapping[str, str]) -> str:
    available = find_measures(nodes)
    for role in ("total", "aleatoric"):
        measure = choose_measure(role, available, declared.get(role))
        if measure is not None:
            return measure
    raise InputError(
        "the table of nodes has no measure of total or aleatoric uncertainty to accept nodes by",
        expected="a column named tu or au, or one that the model declares",
    )


def _explain_failure(
    uncertainty: Float[np.ndarray, " validation"],
    is_wrong: Bool[np.ndarray, " validation"],
    others: Float[np.ndarray, " others"],
    *,
    max_error: float,
    confidence: float,
) -> InputError:
    """Return the error that nothing can be accepted, with the smallest error that can be promised, if there is one."""
    num_nodes = len(uncertainty) + len(others)
    needed = count_needed_nodes(num_nodes, max_error=max_error, confidence=confidence)
    promise = f"an error of at most {max_error} cannot be promised with confidence {confidence}"
    known = "validation nodes that are not flagged unknown"
    if len(uncertainty) < needed:
        reason = f"it takes at least {needed:,} {known}, and there are {len(uncertainty):,}"
    else:
        reason = (
            f"{int(is_wrong.sum()):,} of the {len(uncertainty):,} {known} are wrong, also among the least uncertain"
        )
    for error in (error for error in ERRORS if error > max_error):
        possible = fit_acceptance(uncertainty, is_wrong, others, max_error=error, confidence=confidence)
        if possible is not None:
            count = f"{possible.accepted:,} nodes would be accepted"
            expected = f"a max-error of {error:g} ({count}), a lower confidence, or more validation nodes"
            return InputError(f"{promise}: {reason}", expected=expected, parameter="max_error", suggestion=error)
    return InputError(
        f"{promise}: {reason}", expected="more validation nodes, or a more accurate model", parameter="split"
    )
