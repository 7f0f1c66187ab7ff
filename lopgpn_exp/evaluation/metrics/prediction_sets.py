"""Prediction sets: how often they contain the class, and how large they are."""

import numpy as np
from jaxtyping import Bool, Int


def set_coverage(sets: Bool[np.ndarray, "nodes classes"], labels: Int[np.ndarray, " nodes"]) -> float:
    """Share of the sets that contain the class of their node."""
    return float(sets[np.arange(len(labels)), labels].mean())


def mean_set_size(sets: Bool[np.ndarray, "nodes classes"]) -> float:
    """Mean number of classes in a set; empty sets count."""
    return float(sets.sum(axis=1).mean())


def singleton_share(sets: Bool[np.ndarray, "nodes classes"]) -> float:
    """Share of the sets with exactly one class."""
    return float((sets.sum(axis=1) == 1).mean())


def empty_share(sets: Bool[np.ndarray, "nodes classes"]) -> float:
    """Share of the sets without any class."""
    return float((~sets.any(axis=1)).mean())
