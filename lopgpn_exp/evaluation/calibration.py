"""Whether confidence is accuracy, and whether uncertainty is error: without a choice of bin width.

Nodes of equal score count with their average, as in `rejection`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from lopgpn_exp.evaluation.rejection import expected_sums

NORMAL_95 = 1.959964
# 95 % of the paths of a Brownian motion stay within this from time 0 to 1: see `CumulativeDifference.p_value`.
BROWNIAN_95 = 2.241403


@dataclass(frozen=True)
class Bins:
    """Nodes by growing score, in bins of equally many.

    Args:
        size: nodes of a bin; bins differ by one at most.
        score: their mean score.
        rate: share of them with the event, with its 95 % interval from `low` to `high` (Wilson).
    """

    size: Int[np.ndarray, " bins"]
    score: Float[np.ndarray, " bins"]
    rate: Float[np.ndarray, " bins"]
    low: Float[np.ndarray, " bins"]
    high: Float[np.ndarray, " bins"]

    @property
    def quantile(self) -> Float[np.ndarray, " bins"]:
        """Where the middle of each bin lies among all nodes, from 0 to 1."""
        return (np.cumsum(self.size) - self.size / 2) / self.size.sum()

    @property
    def error(self) -> float:
        """Mean gap between score and rate: of confidence and accuracy, the adaptive calibration error."""
        return float(self.size @ np.abs(self.score - self.rate) / self.size.sum())


def equal_mass_bins(
    score: Float[np.ndarray, " nodes"], event: Bool[np.ndarray, " nodes"], *, num_bins: int = 15
) -> Bins:
    """Confidence and whether it was right, or uncertainty and whether it was wrong. Fewer nodes make fewer bins."""
    n = len(score)
    ends = np.unique(np.arange(1, num_bins + 1) * n // num_bins)
    ends = ends[ends > 0]
    size = np.diff(ends, prepend=0)
    mean, rate = (np.diff(expected_sums(score, values, ends), prepend=0.0) / size for values in (score, event))
    return Bins(size, mean, rate, *wilson(rate, size))


def wilson(
    rate: Float[np.ndarray, " bins"], size: Int[np.ndarray, " bins"], *, z: float = NORMAL_95
) -> tuple[Float[np.ndarray, " bins"], Float[np.ndarray, " bins"]]:
    r"""Wilson's interval of a share: all p with :math:`|rate - p| \le z \sqrt{p (1-p) / size}`."""
    middle = (rate + z**2 / (2 * size)) / (1 + z**2 / size)
    half = z * np.sqrt(rate * (1 - rate) / size + z**2 / (4 * size**2)) / (1 + z**2 / size)
    return middle - half, middle + half


@dataclass(frozen=True)
class CumulativeDifference:
    r"""By growing confidence, :math:`D_k = \frac1n \sum_{i \le k} (correct_i - confidence_i)`: flat where calibrated.

    Its slope between two nodes is how much more often those between them are right than they say. No bins are chosen.

    Args:
        coverage: share of the nodes up to each distinct confidence, from 0 to 1.
        difference: D there, from 0 on.
        deviation: standard deviation of the last D if every node were right with the probability that it says.
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
        """What |D| exceeds somewhere in 5 % of the cases, were the nodes calibrated."""
        return BROWNIAN_95 * self.deviation

    @property
    def p_value(self) -> float:
        """Probability of so large an error were the nodes calibrated: that of a Brownian motion to go so far."""
        if self.error == 0:
            return 1.0
        if self.error > 10 * self.deviation:  # 1e-22 at most, and not to be had as a difference from 1
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
