"""How a changed version of a graph compares with the run: new nodes, and nodes that are flagged unknown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from lopgpn_exp.errors import InputError, check_parameter
from lopgpn_exp.evaluation.trust import UNKNOWN, Limits, select_calibration_nodes


@dataclass(frozen=True)
class FlagShare:
    """How many nodes of a group there are, and how many of them are flagged unknown."""

    nodes: int
    unknown: int

    @property
    def share(self) -> float:
        return self.unknown / max(self.nodes, 1)

    @classmethod
    def count(cls, flags: np.ndarray) -> FlagShare:
        return cls(len(flags), int((flags == UNKNOWN).sum()))


@dataclass(frozen=True)
class GraphChange:
    """Unknown nodes of a changed graph: all of its nodes, those that the run does not have, and validation nodes."""

    everything: FlagShare
    new: FlagShare
    validation: FlagShare


def compare_versions(flags: np.ndarray, ids: Iterable[object], own: pd.DataFrame, limits: Limits) -> GraphChange:
    """Compare the flags of a changed graph with those of the run's validation nodes.

    Args:
        flags: one per node of the changed graph.
        ids: of these nodes; `own` has them in the column `id`, or else as the numbers of its nodes.
        own: the run's own table of nodes.
    """
    names = set(own["id" if "id" in own else "node"].astype(str))
    is_new = np.array([str(name) not in names for name in ids], dtype=bool)
    validation = limits.flag_nodes(select_calibration_nodes(own))
    return GraphChange(FlagShare.count(flags), FlagShare.count(flags[is_new]), FlagShare.count(validation))


def check_fail_above(share: float, limits: Limits) -> None:
    """Raise an InputError if the share of unknown nodes cannot be compared with a limit."""
    check_parameter("fail_above", share, 0 <= share < 1, expected="a share from 0 to less than 1", suggestion=0.2)
    if limits.epistemic is None:
        raise InputError(
            "fail-above needs nodes that are flagged unknown, and this model has no epistemic measure",
            expected="a run of a model that has one, such as lop_gpn or gpn_sym",
        )
