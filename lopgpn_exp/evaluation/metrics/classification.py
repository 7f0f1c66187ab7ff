"""Scores of the predicted class probabilities."""

import numpy as np
from jaxtyping import Bool, Float, Int


def accuracy(correct: Bool[np.ndarray, " nodes"]) -> float:
    return float(correct.mean())


def brier_score(mean: Float[np.ndarray, "nodes classes"], labels: Int[np.ndarray, " nodes"]) -> float:
    """Mean squared distance of the predicted vector from the one-hot label, between 0 and 2."""
    at_label = mean[np.arange(len(labels)), labels]
    return float((np.square(mean).sum(axis=1) - 2 * at_label + 1).mean())
