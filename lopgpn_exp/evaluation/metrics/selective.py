"""Selective prediction: error rate (risk) of the nodes that are kept, as a function of their share (coverage).

The least uncertain nodes are kept. Nodes of equal uncertainty count with their average (see `expected_sums`).
"""

import math

import numpy as np
from jaxtyping import Bool, Float

from lopgpn_exp.errors import check_parameter
from lopgpn_exp.evaluation.metrics.rejection import expected_sums

ROUNDING = 1e-12  # tolerance for rounding errors of shares


def risk_coverage_curve(
    uncertainty: Float[np.ndarray, " nodes"], correct: Bool[np.ndarray, " nodes"]
) -> Float[np.ndarray, " nodes"]:
    """Risk of the k least uncertain nodes, for k = 1, ..., n."""
    if len(uncertainty) == 0:
        raise ValueError("a risk-coverage curve needs at least one node")
    kept = np.arange(1, len(uncertainty) + 1)
    return expected_sums(uncertainty, ~correct, kept) / kept


def risk_at_coverage(
    uncertainty: Float[np.ndarray, " nodes"], correct: Bool[np.ndarray, " nodes"], coverage: float
) -> float:
    """Risk of the smallest set of least uncertain nodes whose share is at least `coverage`."""
    check_shares(coverage=coverage)
    kept = math.ceil(coverage * len(uncertainty) * (1 - ROUNDING))  # 7 of 10 nodes for 0.7, despite rounding
    return float(risk_coverage_curve(uncertainty, correct)[kept - 1])


def coverage_at_risk(
    uncertainty: Float[np.ndarray, " nodes"], correct: Bool[np.ndarray, " nodes"], risk: float
) -> float:
    """Largest share of nodes that can be kept at a risk of at most `risk`, possibly 0."""
    check_shares(risk=risk)
    allowed = np.flatnonzero(risk_coverage_curve(uncertainty, correct) <= risk + ROUNDING)
    return float(allowed[-1] + 1) / len(uncertainty) if len(allowed) else 0.0


def aurc(uncertainty: Float[np.ndarray, " nodes"], correct: Bool[np.ndarray, " nodes"]) -> float:
    """Area under the risk-coverage curve, the mean risk over all n coverages: lower is better.

    AUARC, in contrast, is the mean accuracy at 100 coverages from 0.01 to 1.
    """
    return float(risk_coverage_curve(uncertainty, correct).mean())


def excess_aurc(uncertainty: Float[np.ndarray, " nodes"], correct: Bool[np.ndarray, " nodes"]) -> float:
    """AURC minus the AURC of the best order, which rejects all errors first."""
    return aurc(uncertainty, correct) - aurc((~correct).astype(float), correct)


def check_shares(*, coverage: float = 1.0, risk: float = 0.0) -> None:
    """Raise an `InputError` if a coverage or risk is out of range."""
    check_parameter("coverage", coverage, 0 < coverage <= 1, expected="more than 0, at most 1", suggestion=0.8)
    check_parameter("risk", risk, 0 <= risk <= 1, expected="from 0 to 1", suggestion=0.05)
