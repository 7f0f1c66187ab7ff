"""Flag nodes as trusted, ambiguous or unknown, by limits that are fitted to validation nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from lopgpn_exp.errors import InputError, check_parameter, nearest
from lopgpn_exp.evaluation.metrics import wilson_interval
from lopgpn_exp.evaluation.node_table import find_measures
from lopgpn_exp.measures import choose_measure, measures_of

TRUST, AMBIGUOUS, UNKNOWN = "trust", "ambiguous", "unknown"
MIN_NODES = 10  # smallest number of trusted validation nodes


@dataclass(frozen=True)
class Limits:
    """A node is `unknown` above the epistemic limit, else `ambiguous` above the aleatoric limit, else trusted.

    Args:
        epistemic, aleatoric: names of the measures; `epistemic` is None if the posterior has no such measure.
        accuracy, nodes: accuracy and number of the trusted validation nodes.
        target: the accuracy that was required.
    """

    epistemic: str | None
    unknown_above: float | None
    aleatoric: str
    ambiguous_above: float
    accuracy: float
    nodes: int
    target: float

    @property
    def reaches_target(self) -> bool:
        return self.accuracy >= self.target

    def flag_nodes(self, table: pd.DataFrame) -> np.ndarray:
        """Return one flag per row of a table that has the measures as columns."""
        flags = np.where(table[self.aleatoric].to_numpy() > self.ambiguous_above, AMBIGUOUS, TRUST).astype(object)
        if self.epistemic is not None:
            flags[table[self.epistemic].to_numpy() > self.unknown_above] = UNKNOWN
        return flags


def fit_limits(
    validation: pd.DataFrame,
    *,
    accuracy: float = 0.95,
    unknown: float = 0.05,
    epistemic: str | None = None,
    declared: Mapping[str, str] | None = None,
) -> Limits:
    """Fit limits to a table of validation nodes with the columns `label`, `predicted` and the measures.

    As many nodes as possible are trusted at the required accuracy. If no limit reaches it, the limit with the highest
    accuracy is used, and `reaches_target` is False.

    Args:
        accuracy: required accuracy of the trusted nodes.
        unknown: largest share of nodes above the epistemic limit.
        epistemic: measure of the epistemic limit; by default the one that the model declares.
        declared: measures that the model declares by role; by default those that the registry prefers.
    """
    check_parameter("accuracy", accuracy, 0 < accuracy < 1, expected="a share between 0 and 1", suggestion=0.95)
    check_parameter("unknown", unknown, 0 <= unknown < 1, expected="a share between 0 and 1", suggestion=0.05)
    if len(validation) == 0:
        raise InputError(
            "there are no in-distribution validation nodes to fit limits to",
            expected="a split with validation nodes, and a scenario that leaves some of them unchanged",
        )
    declared = declared or {}
    measure = _choose_epistemic(find_measures(validation), epistemic, declared)
    familiar, unknown_above = validation, None
    if measure is not None:
        unknown_above = float(np.quantile(validation[measure], 1 - unknown, method="higher"))
        familiar = validation[validation[measure] <= unknown_above]
    aleatoric = choose_measure("aleatoric", find_measures(validation), declared.get("aleatoric"))
    if aleatoric is None:
        raise InputError("the table of nodes has no aleatoric measure", expected="a column named au or tu")
    ambiguous_above, reached, nodes = _fit_largest_limit(
        familiar[aleatoric].to_numpy(), (familiar["predicted"] == familiar["label"]).to_numpy(), accuracy
    )
    return Limits(measure, unknown_above, aleatoric, ambiguous_above, reached, nodes, accuracy)


def fit_validation_limits(nodes: pd.DataFrame, **options: Any) -> Limits:
    """Fit the limits of trust to the labelled validation nodes that are in-distribution; see `fit_limits`."""
    return fit_limits(select_calibration_nodes(nodes), **options)


def select_calibration_nodes(nodes: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the labelled validation nodes that are in-distribution."""
    return nodes[(nodes["part"] == "val") & ~nodes["is_ood"] & (nodes["label"] >= 0)]


def _choose_epistemic(measures: Sequence[str], name: str | None, declared: Mapping[str, str]) -> str | None:
    if name is None:
        return choose_measure("epistemic", measures, declared.get("epistemic"))
    available = measures_of("epistemic", measures)
    expected = "one of " + ", ".join(available) if available else "nothing: this model has no epistemic measure"
    suggestion = nearest(name, available) or next(iter(available), None)
    check_parameter("epistemic", repr(name), name in available, expected=expected, suggestion=suggestion)
    return name


def _fit_largest_limit(
    uncertainty: Float[np.ndarray, " nodes"], correct: Bool[np.ndarray, " nodes"], target: float
) -> tuple[float, float, int]:
    """Return the largest limit at which the accuracy reaches the target, this accuracy, and the number of nodes."""
    values, group = np.unique(uncertainty, return_inverse=True)
    counts = np.cumsum(np.bincount(group, minlength=len(values)))
    accuracy = np.cumsum(np.bincount(group, weights=correct, minlength=len(values))) / counts
    has_enough = counts >= min(MIN_NODES, counts[-1])
    candidates = np.flatnonzero(has_enough & (accuracy >= target))
    best = candidates[-1] if len(candidates) else int(np.argmax(np.where(has_enough, accuracy, -1.0)))
    return float(values[best]), float(accuracy[best]), int(counts[best])


def score_flags(
    flags: Sequence[str] | np.ndarray, correct: Bool[np.ndarray, " nodes"], is_ood: Bool[np.ndarray, " nodes"]
) -> pd.DataFrame:
    """Return one row per flag: nodes, accuracy with its 95 % interval, errors, and OOD nodes."""
    flags = np.asarray(flags)
    rows = []
    for flag in (TRUST, AMBIGUOUS, UNKNOWN):
        has_flag = flags == flag
        count, hits = int(has_flag.sum()), int(correct[has_flag].sum())
        low, high = wilson_interval(np.array([hits / count]), np.array([count])) if count else ([np.nan], [np.nan])
        rows.append(
            {
                "flag": flag,
                "nodes": count,
                "share": count / max(len(flags), 1),
                "accuracy": hits / count if count else np.nan,
                "low": float(low[0]),
                "high": float(high[0]),
                "errors": count - hits,
                "of_all_errors": (count - hits) / max(int((~correct).sum()), 1),
                "ood": int(is_ood[has_flag].sum()),
            }
        )
    return pd.DataFrame(rows)
