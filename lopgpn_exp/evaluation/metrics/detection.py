"""How well an uncertainty measure separates out-of-distribution nodes from the others. OOD is the positive class.

The values equal those of scikit-learn to the bit, without the second that its import takes. Both classes must occur.
"""

import numpy as np
from jaxtyping import Bool, Float


def auroc(uncertainty: Float[np.ndarray, " nodes"], is_ood: Bool[np.ndarray, " nodes"]) -> float:
    false, true = roc_curve(uncertainty, is_ood)
    return float(np.trapezoid(true, false))


def aupr(uncertainty: Float[np.ndarray, " nodes"], is_ood: Bool[np.ndarray, " nodes"]) -> float:
    """Area under the precision-recall curve, as average precision."""
    false, true = count_flagged(uncertainty, is_ood)
    recall = true / true[0]
    return float(np.sum(true / (true + false) * -np.diff(recall, append=0.0)))


def fpr95(uncertainty: Float[np.ndarray, " nodes"], is_ood: Bool[np.ndarray, " nodes"]) -> float:
    """False positive rate at the highest threshold that detects 95 % of the OOD nodes."""
    false, true = count_flagged(uncertainty, is_ood)
    highest = np.flatnonzero(true / true[0] >= 0.95)[-1]
    return float(false[highest] / false[0])


def relative_change(uncertainty: Float[np.ndarray, " nodes"], is_ood: Bool[np.ndarray, " nodes"]) -> float | None:
    """Mean uncertainty of OOD nodes / |that of ID nodes| - 1, the paper's `Change`; None if the latter is 0."""
    reference = abs(float(uncertainty[~is_ood].mean()))
    return float(uncertainty[is_ood].mean()) / reference - 1 if reference > 0 else None


DETECTION = {"auroc": auroc, "aupr": aupr, "fpr95": fpr95}


def roc_curve(
    uncertainty: Float[np.ndarray, " nodes"], is_ood: Bool[np.ndarray, " nodes"]
) -> tuple[Float[np.ndarray, " points"], Float[np.ndarray, " points"]]:
    """Return the false and the true positive rates from (0, 0) to (1, 1), without points inside a straight line."""
    false, true = count_flagged(uncertainty, is_ood)
    bends = np.concatenate([[True], (np.diff(false, 2) != 0) | (np.diff(true, 2) != 0), [True]])[-len(false) :]
    false, true = (np.concatenate([[0.0], np.flip(counts[bends])]) for counts in (false, true))
    return false / false[-1], true / true[-1]


def count_flagged(
    uncertainty: Float[np.ndarray, " nodes"], is_ood: Bool[np.ndarray, " nodes"]
) -> tuple[Float[np.ndarray, " thresholds"], Float[np.ndarray, " thresholds"]]:
    """Return how many ID and OOD nodes reach each distinct uncertainty, the lowest first: it flags all of them."""
    distinct, group = np.unique(uncertainty, return_inverse=True)
    counts = (np.bincount(group, weights=flagged, minlength=len(distinct)) for flagged in (~is_ood, is_ood))
    false, true = (np.flip(np.cumsum(np.flip(count))) for count in counts)
    return false, true
