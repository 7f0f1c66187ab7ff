"""Calibration: whether confidence matches accuracy, and whether uncertainty matches error.

Equal-width bins give the usual ECE. For equal-mass bins and the cumulative difference, which do not depend on a bin
width, nodes of equal score count with their average (see `expected_sums`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from lopgpn_exp.evaluation.metrics.rejection import expected_sums

NUM_BINS = 15
NORMAL_95 = 1.959964
# 95 % of the paths of a Brownian motion from time 0 to 1 stay within this distance.
BROWNIAN_95 = 2.241403


def equal_width_bins(confidence: Float[np.ndarray, " nodes"], *, num_bins: int = NUM_BINS) -> Int[np.ndarray, " nodes"]:
    """Return the bin of each node, by its confidence from 0 to 1; confidence 1 belongs to the last bin."""
    return np.minimum((confidence * num_bins).astype(int), num_bins - 1)


def expected_calibration_error(
    confidence: Float[np.ndarray, " nodes"], correct: Bool[np.ndarray, " nodes"], *, num_bins: int = NUM_BINS
) -> float:
    """Gap between confidence and accuracy, averaged over bins of equal width with their sizes as weights."""
    bins = equal_width_bins(confidence, num_bins=num_bins)
    gaps = np.bincount(bins, weights=confidence - correct, minlength=num_bins)
    return float(np.abs(gaps).sum() / len(confidence))


@dataclass(frozen=True)
class Bins:
    """Nodes sorted by score, in bins of equal size.

    Args:
        size: number of nodes per bin; bins differ by at most one.
        score: mean score per bin.
        rate: share of the bin's nodes with the event, with its 95 % Wilson interval from `low` to `high`.
    """

    size: Int[np.ndarray, " bins"]
    score: Float[np.ndarray, " bins"]
    rate: Float[np.ndarray, " bins"]
    low: Float[np.ndarray, " bins"]
    high: Float[np.ndarray, " bins"]

    @property
    def quantile(self) -> Float[np.ndarray, " bins"]:
        """Position of the middle of each bin among all nodes, from 0 to 1."""
        return (np.cumsum(self.size) - self.size / 2) / self.size.sum()

    @property
    def error(self) -> float:
        """Mean gap between score and rate: for confidence and accuracy, the adaptive calibration error."""
        return float(self.size @ np.abs(self.score - self.rate) / self.size.sum())


def equal_mass_bins(
    score: Float[np.ndarray, " nodes"], event: Bool[np.ndarray, " nodes"], *, num_bins: int = NUM_BINS
) -> Bins:
    """Bin nodes by confidence (event: the prediction is correct) or by uncertainty (event: it is wrong).

    With fewer nodes than `num_bins`, there is one bin per node.
    """
    n = len(score)
    ends = np.unique(np.arange(1, num_bins + 1) * n // num_bins)
    ends = ends[ends > 0]
    size = np.diff(ends, prepend=0)
    mean, rate = (np.diff(expected_sums(score, values, ends), prepend=0.0) / size for values in (score, event))
    return Bins(size, mean, rate, *wilson_interval(rate, size))


def wilson_interval(
    rate: Float[np.ndarray, " bins"], size: Int[np.ndarray, " bins"]
) -> tuple[Float[np.ndarray, " bins"], Float[np.ndarray, " bins"]]:
    r"""Wilson's 95 % interval of a share: all p with :math:`|rate - p| \le z \sqrt{p (1-p) / size}`."""
    z = NORMAL_95
    middle = (rate + z**2 / (2 * size)) / (1 + z**2 / size)
    half = z * np.sqrt(rate * (1 - rate) / size + z**2 / (4 * size**2)) / (1 + z**2 / size)
    return middle - half, middle + half


@dataclass(frozen=True)
class CumulativeDifference:
    r"""Sums over the k least confident nodes: :math:`D_k = \frac1n \sum_{i \le k} (correct_i - confidence_i)`.

    D is flat where the model is calibrated; it rises where nodes are correct more often than their confidence says.

    Args:
        coverage: share of the nodes up to each distinct confidence, from 0 to 1.
        difference: D at these points, starting at 0.
        deviation: standard deviation of the last D if every node were correct with the probability it predicts.
    """

    coverage: Float[np.ndarray, " points"]
    difference: Float[np.ndarray, " points"]
    deviation: float

    @property
    def error(self) -> float:
        """The Kolmogorov-Smirnov calibration error, the largest |D|: 0 to 1, lower is better."""
        return float(np.abs(self.difference).max())

    @property
    def band(self) -> float:
        """The value that the largest |D| of a calibrated model exceeds with a probability of 5 %."""
        return BROWNIAN_95 * self.deviation

    @property
    def p_value(self) -> float:
        """Probability that a calibrated model has an error at least this large, in the limit of many nodes."""
        if self.error == 0:
            return 1.0
        if self.error > 10 * self.deviation:  # at most 1e-22, less than the rounding of the series
            return 0.0
        k = np.arange(100)
        exponents = -np.square((2 * k + 1) * np.pi * self.deviation / self.error) / 8
        within = 4 / np.pi * np.sum((-1.0) ** k / (2 * k + 1) * np.exp(exponents))
        return float(np.clip(1 - within, 0, 1))


def cumulative_difference(
    confidence: Float[np.ndarray, " nodes"], correct: Bool[np.ndarray, " nodes"]
) -> CumulativeDifference:
    if len(confidence) == 0:
        raise ValueError("calibration needs at least one node")
    n, confidence = len(confidence), np.minimum(confidence, 1)  # a sum of probabilities may be rounded up
    distinct, group = np.unique(confidence, return_inverse=True)
    gaps = np.bincount(group, weights=correct - confidence, minlength=len(distinct))
    difference = np.concatenate([[0.0], np.cumsum(gaps)]) / n
    coverage = np.concatenate([[0.0], np.cumsum(np.bincount(group))]) / n
    deviation = float(np.sqrt(np.sum(confidence * (1 - confidence)))) / n
    return CumulativeDifference(coverage, difference, deviation)
