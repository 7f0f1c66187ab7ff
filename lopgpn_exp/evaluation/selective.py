"""Selective prediction: the error among the nodes that are kept, against how many are.

Risk is the error rate, coverage the share of nodes kept, least uncertain first. Nodes of equal uncertainty count with
their average, as in `rejection`.
"""

import math

import numpy as np
from jaxtyping import Bool, Float

from lopgpn_exp.errors import InputError
from lopgpn_exp.evaluation.rejection import expected_sums

ROUNDING = 1e-12  # what a risk may exceed its limit by: it is a quotient of sums


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
    """Risk of the smallest set of least uncertain nodes that is at least this share of all."""
    check_shares(coverage=coverage)
    kept = math.ceil(coverage * len(uncertainty) * (1 - ROUNDING))  # 0.7 x 10 is 7
    return float(risk_coverage_curve(uncertainty, correct)[kept - 1])


def coverage_at_risk(
    uncertainty: Float[np.ndarray, " nodes"], correct: Bool[np.ndarray, " nodes"], risk: float
) -> float:
    """The largest share of nodes that can be kept at no more than this risk, 0 where not even one can."""
    check_shares(risk=risk)
    allowed = np.flatnonzero(risk_coverage_curve(uncertainty, correct) <= risk + ROUNDING)
    return float(allowed[-1] + 1) / len(uncertainty) if len(allowed) else 0.0


def aurc(uncertainty: Float[np.ndarray, " nodes"], correct: Bool[np.ndarray, " nodes"]) -> float:
    """Area under the risk-coverage curve, the mean risk over all n coverages: lower is better.

    AUARC beside it is the mean accuracy over 100 of them, the last 1 % left out.
    """
    return float(risk_coverage_curve(uncertainty, correct).mean())


def excess_aurc(uncertainty: Float[np.ndarray, " nodes"], correct: Bool[np.ndarray, " nodes"]) -> float:
    """AURC minus that of the best order, which rejects every error first: what the measure itself is to blame for."""
    return aurc(uncertainty, correct) - aurc((~correct).astype(float), correct)


def check_shares(*, coverage: float = 1.0, risk: float = 0.0) -> None:
    if not 0 < coverage <= 1:
        raise InputError(f"coverage is {coverage}", expected="more than 0, at most 1", hint="0.8")
    if not 0 <= risk <= 1:
        raise InputError(f"risk is {risk}", expected="from 0 to 1", hint="0.05")
