"""How good the predicted class probabilities are."""

import numpy as np
from jaxtyping import Bool, Float, Int


def accuracy(correct: Bool[np.ndarray, " nodes"]) -> float:
    return float(correct.mean())


def brier_score(mean: Float[np.ndarray, "nodes classes"], labels: Int[np.ndarray, " nodes"]) -> float:
    """Mean squared distance of the predicted vector from the one-hot label, between 0 and 2."""
    at_label = mean[np.arange(len(labels)), labels]
    return float((np.square(mean).sum(axis=1) - 2 * at_label + 1).mean())


def expected_calibration_error(
    confidence: Float[np.ndarray, " nodes"], correct: Bool[np.ndarray, " nodes"], *, num_bins: int = 15
) -> float:
    """Gap between confidence and accuracy, averaged over bins of equal width (weighted by their nodes)."""
    bins = np.minimum((confidence * num_bins).astype(int), num_bins - 1)
    gaps = np.bincount(bins, weights=confidence - correct, minlength=num_bins)
    return float(np.abs(gaps).sum() / len(confidence))
