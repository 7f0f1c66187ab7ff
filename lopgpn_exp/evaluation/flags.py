"""Plain words for a node: trust it, or why not. The limits are set on validation nodes and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from lopgpn_exp.errors import InputError, nearest
from lopgpn_exp.evaluation.calibration import wilson

TRUST, AMBIGUOUS, UNKNOWN = "trust", "ambiguous", "unknown"
# What tells that a node is unlike what was learned, and that its class is open; the first that a posterior has.
EPISTEMIC = ("eu_so", "eu", "eu_pc")
ALEATORIC = ("au", "tu")
FEWEST = 10  # validation nodes that an accuracy is read off, where there are so many


@dataclass(frozen=True)
class Limits:
    """A node is `unknown` above the epistemic limit, else `ambiguous` above the other, else to be trusted.

    Args:
        epistemic, aleatoric: names of the measures; no epistemic one where the posterior has none.
        accuracy, nodes: of the trusted validation nodes.
        target: the accuracy that was asked for.
    """

    epistemic: str | None
    unknown_above: float | None
    aleatoric: str
    ambiguous_above: float
    accuracy: float
    nodes: int
    target: float

    @property
    def reached(self) -> bool:
        return self.accuracy >= self.target

    def flags(self, table: pd.DataFrame) -> np.ndarray:
        """One word a row of a table with the measures as columns."""
        words = np.where(table[self.aleatoric].to_numpy() > self.ambiguous_above, AMBIGUOUS, TRUST).astype(object)
        if self.epistemic is not None:
            words[table[self.epistemic].to_numpy() > self.unknown_above] = UNKNOWN
        return words


def limits(
    validation: pd.DataFrame,
    *,
    target: float = 0.95,
    unknown_share: float = 0.05,
    epistemic: str | None = None,
) -> Limits:
    """Limits from validation nodes: a row each, with `label`, `predicted` and the measures.

    At most `unknown_share` of them lie above the epistemic limit. Of the others, as many as possible are trusted while
    `target` of the trusted are right, from the least to the most aleatoric; where no limit reaches that, the one with
    the highest accuracy is taken, and `reached` says so.
    """
    for name, value, usual in (("accuracy", target, 0.95), ("unknown", unknown_share, 0.05)):
        if not 0 <= value < 1 or (name == "accuracy" and value == 0):
            raise InputError(f"{name} is {value}", expected="a share between 0 and 1", hint=f"{name} {usual}")
    if len(validation) == 0:
        raise InputError(
            "there are no validation nodes to set limits on", expected="at least one", hint="split.val=0.15"
        )
    measure = _epistemic(list(validation.columns), epistemic)
    kept = validation
    above = None
    if measure is not None:
        above = float(np.quantile(validation[measure], 1 - unknown_share, method="higher"))
        kept = validation[validation[measure] <= above]
    aleatoric = next(name for name in ALEATORIC if name in validation)
    value, accuracy, nodes = _largest_trusted(
        kept[aleatoric].to_numpy(), (kept["predicted"] == kept["label"]).to_numpy(), target
    )
    return Limits(measure, above, aleatoric, value, accuracy, nodes, target)


def _epistemic(columns: Sequence[str], wanted: str | None) -> str | None:
    present = [name for name in EPISTEMIC if name in columns]
    if wanted is None:
        return present[0] if present else None
    if wanted not in present:
        close = nearest(wanted, present)
        raise InputError(
            f"epistemic is {wanted!r}",
            expected="one of " + ", ".join(present) if present else "nothing: this model has no epistemic measure",
            hint=f"epistemic {close}" if close else "",
        )
    return wanted


def _largest_trusted(
    uncertainty: Float[np.ndarray, " nodes"], correct: Bool[np.ndarray, " nodes"], target: float
) -> tuple[float, float, int]:
    """The largest value up to which the nodes are right often enough: it, their accuracy, their number."""
    values, group = np.unique(uncertainty, return_inverse=True)
    counts = np.cumsum(np.bincount(group, minlength=len(values)))
    accuracy = np.cumsum(np.bincount(group, weights=correct, minlength=len(values))) / counts
    enough = counts >= min(FEWEST, counts[-1])
    reaches = np.flatnonzero(enough & (accuracy >= target))
    at = reaches[-1] if len(reaches) else int(np.argmax(np.where(enough, accuracy, -1.0)))
    return float(values[at]), float(accuracy[at]), int(counts[at])


def flag_reliability(
    flags: Sequence[str] | np.ndarray, correct: Bool[np.ndarray, " nodes"], is_ood: Bool[np.ndarray, " nodes"]
) -> pd.DataFrame:
    """How often nodes of each flag are right, with a 95 % interval; of all errors and OOD nodes, its share."""
    words = np.asarray(flags)
    rows = []
    for flag in (TRUST, AMBIGUOUS, UNKNOWN):
        chosen = words == flag
        count, hits = int(chosen.sum()), int(correct[chosen].sum())
        low, high = wilson(np.array([hits / count]), np.array([count])) if count else ([np.nan], [np.nan])
        rows.append(
            {
                "flag": flag,
                "nodes": count,
                "share": count / max(len(words), 1),
                "accuracy": hits / count if count else np.nan,
                "low": float(low[0]),
                "high": float(high[0]),
                "errors": int((~correct[chosen]).sum()),
                "of_all_errors": float((~correct & chosen).sum() / max(int((~correct).sum()), 1)),
                "ood": int(is_ood[chosen].sum()),
            }
        )
    return pd.DataFrame(rows)
