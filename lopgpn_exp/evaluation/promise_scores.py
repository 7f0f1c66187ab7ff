"""Promises measured on labelled nodes: how often prediction sets contain the class, with intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from lopgpn_exp.evaluation.metrics import wilson_interval
from lopgpn_exp.evaluation.metrics.prediction_sets import coverage_range, empty_share, mean_set_size, singleton_share


@dataclass(frozen=True)
class MeasuredShare:
    """A share of nodes with its 95 % interval (Wilson)."""

    nodes: int
    share: float
    low: float
    high: float

    @classmethod
    def count(cls, is_hit: Bool[np.ndarray, " nodes"]) -> MeasuredShare:
        share = float(is_hit.mean())
        low, high = wilson_interval(np.array([share]), np.array([len(is_hit)]))
        return cls(len(is_hit), share, float(low[0]), float(high[0]))


@dataclass(frozen=True)
class SetScore:
    """Prediction sets of a group of nodes.

    Args:
        expected: the range of the coverage that is to be expected in 95 % of calibrations if the nodes are exchangeable
            with the calibration nodes; None for nodes that are known to be out-of-distribution.
    """

    group: str
    coverage: MeasuredShare
    expected: tuple[float, float] | None
    size: float
    singletons: float
    empty: float

    @property
    def is_expected(self) -> bool:
        return self.expected is None or self.expected[0] <= self.coverage.share <= self.expected[1]


def score_sets(
    sets: Bool[np.ndarray, "nodes classes"],
    labels: Int[np.ndarray, " nodes"],
    is_ood: Bool[np.ndarray, " nodes"],
    *,
    rank: int,
    num_calibration: int,
) -> list[SetScore]:
    """Return the measured coverage of in-distribution nodes and, if there are any, of OOD nodes.

    Args:
        labels: those of classes that the model cannot predict are in no set.
        rank, num_calibration: of the threshold; see `coverage_range`.
    """
    is_predictable = labels < sets.shape[1]
    is_covered = is_predictable & sets[np.arange(len(labels)), np.where(is_predictable, labels, 0)]
    scores = []
    for group, chosen in (("in-distribution", ~is_ood), ("OOD", is_ood)):
        if not chosen.any():
            continue
        expected = coverage_range(rank, num_calibration, int(chosen.sum())) if group != "OOD" else None
        members = sets[chosen]
        measured = MeasuredShare.count(is_covered[chosen])
        shares = mean_set_size(members), singleton_share(members), empty_share(members)
        scores.append(SetScore(group, measured, expected, *shares))
    return scores
