"""How well an uncertainty measure separates out-of-distribution nodes from the others. OOD is the positive class."""

import numpy as np
from jaxtyping import Bool, Float
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve


def auroc(uncertainty: Float[np.ndarray, " nodes"], is_ood: Bool[np.ndarray, " nodes"]) -> float:
    return float(roc_auc_score(is_ood, uncertainty))


def aupr(uncertainty: Float[np.ndarray, " nodes"], is_ood: Bool[np.ndarray, " nodes"]) -> float:
    """Area under the precision-recall curve, as average precision."""
    return float(average_precision_score(is_ood, uncertainty))


def fpr95(uncertainty: Float[np.ndarray, " nodes"], is_ood: Bool[np.ndarray, " nodes"]) -> float:
    """False positive rate at the highest threshold that detects 95 % of the OOD nodes."""
    false_positives, true_positives, _ = roc_curve(is_ood, uncertainty, drop_intermediate=False)
    return float(false_positives[np.searchsorted(true_positives, 0.95, side="left")])


def relative_change(uncertainty: Float[np.ndarray, " nodes"], is_ood: Bool[np.ndarray, " nodes"]) -> float | None:
    """Mean uncertainty of OOD nodes / |that of ID nodes| - 1, the paper's `Change`; None if the latter is 0."""
    reference = abs(float(uncertainty[~is_ood].mean()))
    return float(uncertainty[is_ood].mean()) / reference - 1 if reference > 0 else None


DETECTION = {"auroc": auroc, "aupr": aupr, "fpr95": fpr95}
