"""Accuracy-rejection curves."""

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

REJECTED_PERCENT = np.arange(100)


def accuracy_rejection_curve(
    uncertainty: Float[np.ndarray, " nodes"], correct: Bool[np.ndarray, " nodes"]
) -> Float[np.ndarray, "100"]:
    """Accuracy of the ceil((1 - p) n) least uncertain nodes for p = 0, 0.01, ..., 0.99. Paper: Sec. 5.2."""
    n = len(uncertainty)
    if n == 0:
        raise ValueError("an accuracy-rejection curve needs at least one node")
    kept = -(-(100 - REJECTED_PERCENT) * n // 100)  # integer ceiling: no rounding of 0.99 * n
    return expected_sums(uncertainty, correct, kept) / kept


def expected_sums(
    order: Float[np.ndarray, " nodes"], values: Shaped[np.ndarray, " nodes"], kept: Int[np.ndarray, " cuts"]
) -> Float[np.ndarray, " cuts"]:
    """Return, for each k in `kept` (1 or more), the sum of `values` over the k nodes with the lowest `order`.

    If the cut separates nodes of equal order, they count with their average, the expectation over random orders.
    """
    distinct, group = np.unique(order, return_inverse=True)
    size = np.bincount(group, minlength=len(distinct))
    total = np.bincount(group, weights=values, minlength=len(distinct))
    size_before = np.concatenate([[0], np.cumsum(size)])
    total_before = np.concatenate([[0.0], np.cumsum(total)])
    cut = np.searchsorted(size_before, kept, side="left") - 1  # the group that contains the last kept node
    return total_before[cut] + (kept - size_before[cut]) * total[cut] / size[cut]


def area_under_curve(curve: Float[np.ndarray, "100"]) -> float:
    """Mean height of the curve over p from 0 to 0.99 (trapezoidal rule); a flat curve gives its height."""
    return float(np.trapezoid(curve) / (len(curve) - 1))
