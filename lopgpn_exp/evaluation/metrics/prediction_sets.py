"""Prediction sets: how often they contain the class, and how large they are."""

import numpy as np
from jaxtyping import Bool, Int
from scipy.special import betaln, gammaln


def set_coverage(sets: Bool[np.ndarray, "nodes classes"], labels: Int[np.ndarray, " nodes"]) -> float:
    """Share of the sets that contain the class of their node."""
    return float(sets[np.arange(len(labels)), labels].mean())


def coverage_range(
    rank: int, num_calibration: int, num_nodes: int, *, probability: float = 0.95
) -> tuple[float, float]:
    r"""Return the range in which the measured coverage lies with a probability of at least `probability`.

    If the threshold is the k-th smallest of n calibration scores without ties, the number of m further exchangeable
    nodes whose set contains their class is beta-binomial: a binomial number of m with a share that is
    :math:`Beta(k, n + 1 - k)` distributed. The range cuts off at most (1 - `probability`) / 2 on each side.

    Args:
        rank: k.
        num_calibration: n.
        num_nodes: m.
    """
    hits, a, b = np.arange(num_nodes + 1), rank, num_calibration + 1 - rank
    binomial = gammaln(num_nodes + 1) - gammaln(hits + 1) - gammaln(num_nodes - hits + 1)
    cumulative = np.cumsum(np.exp(binomial + betaln(hits + a, num_nodes - hits + b) - betaln(a, b)))
    tail = (1 - probability) / 2
    low, high = np.searchsorted(cumulative, [tail, 1 - tail], side="left")
    return float(low) / num_nodes, float(min(high, num_nodes)) / num_nodes


def mean_set_size(sets: Bool[np.ndarray, "nodes classes"]) -> float:
    """Mean number of classes in a set; empty sets count."""
    return float(sets.sum(axis=1).mean())


def singleton_share(sets: Bool[np.ndarray, "nodes classes"]) -> float:
    """Share of the sets with exactly one class."""
    return float((sets.sum(axis=1) == 1).mean())


def empty_share(sets: Bool[np.ndarray, "nodes classes"]) -> float:
    """Share of the sets without any class."""
    return float((~sets.any(axis=1)).mean())
