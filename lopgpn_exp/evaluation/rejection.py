"""Accuracy-rejection curves."""

import numpy as np
from jaxtyping import Bool, Float

REJECTED_PERCENT = np.arange(100)


def accuracy_rejection_curve(
    uncertainty: Float[np.ndarray, " nodes"], correct: Bool[np.ndarray, " nodes"]
) -> Float[np.ndarray, "100"]:
    """Accuracy of the ceil((1 - p) n) least uncertain nodes for p = 0, 0.01, ..., 0.99. Paper: Sec. 5.2.

    Where the cut goes through nodes of equal uncertainty, they count with their average: the value expected of a
    random order among them, never that of the index order.
    """
    n = len(uncertainty)
    if n == 0:
        raise ValueError("an accuracy-rejection curve needs at least one node")
    values, group = np.unique(uncertainty, return_inverse=True)
    size = np.bincount(group, minlength=len(values))
    hits = np.bincount(group, weights=correct, minlength=len(values))
    size_before = np.concatenate([[0], np.cumsum(size)])
    hits_before = np.concatenate([[0.0], np.cumsum(hits)])
    kept = -(-(100 - REJECTED_PERCENT) * n // 100)  # integer ceiling: no rounding of 0.99 * n
    cut = np.searchsorted(size_before, kept, side="left") - 1  # the group in which the last kept node lies
    expected_hits = hits_before[cut] + (kept - size_before[cut]) * hits[cut] / size[cut]
    return expected_hits / kept


def area_under_curve(curve: Float[np.ndarray, "100"]) -> float:
    """Mean height of the curve over p from 0 to 0.99 (trapezoidal rule); a flat curve gives its height."""
    return float(np.trapezoid(curve) / (len(curve) - 1))
