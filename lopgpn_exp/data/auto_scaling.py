"""Choose the scaling of features by what they look like: counts, one-hot vectors or other numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lopgpn_exp.data.scaling import RawMatrix, Scaling, stored_values

# Share of zeros from which non-negative features count as a bag of words, also if weighted (TF-IDF). Even small
# vocabularies reach it (Amazon's 767 words: 65 %), whereas images (digits: 49 %) and measurements do not. Whether
# numbers are whole says less: with rows of pixels scaled, noise is hard to detect (8 of 40 noisy digits, not 38).
MIN_ZEROS = 0.6
# Rows are divided by their sum. If a single column contributed more to it, such as an income beside many columns of 0
# and 1, it would decide the scale of all others.
MAX_COLUMN_SHARE = 0.25


@dataclass(frozen=True)
class ScalingChoice:
    """A scaling, and a sentence that says why it was chosen and how to choose another one."""

    scaling: Scaling
    sentence: str


def choose_scaling(features: RawMatrix, names: Sequence[str]) -> ScalingChoice:
    """Return `none` for one-hot rows, `rows` for counts and other sparse non-negative numbers, otherwise `standard`.

    A table that mixes counts with other numbers is scaled by rows only if no column is much larger than the others.
    """
    if 0 in features.shape:  # no nodes or no features, which `Graph` refuses
        return ScalingChoice("none", "")
    with np.errstate(all="ignore"):  # `scale_features` reports values that are not finite
        values = stored_values(features)
        if values.size and values.min() < 0:
            return _choose("standard", "Features contain negative numbers", override="none")
        num_nonzero = int(np.count_nonzero(values))
        if _is_one_hot(features, num_nonzero):
            return _choose("none", "Features are one-hot (at most one 1 in each row)", override="standard")
        zeros = 1 - num_nonzero / np.prod(features.shape, dtype=float)
        if zeros < MIN_ZEROS:
            return _choose("standard", f"Features are dense ({zeros:.0%} zeros)", override="rows")
        sums = features.sum(axis=0, dtype=np.float64)
        largest = int(sums.argmax())
        share = sums[largest] / max(sums.sum(), np.finfo(float).tiny)
        if share > MAX_COLUMN_SHARE:
            reason = f"One feature is larger than the others ({names[largest]!r} is {share:.0%} of the total)"
            return _choose("standard", reason, override="rows")
    return _choose("rows", f"Features look like counts (bag of words, {zeros:.0%} zeros)", override="standard")


def _choose(scaling: Scaling, reason: str, *, override: Scaling) -> ScalingChoice:
    sentence = f"{reason}: using scaling={scaling}. Set dataset.scaling={override} to override."
    return ScalingChoice(scaling, sentence)


def _is_one_hot(features: RawMatrix, num_nonzero: int) -> bool:
    """Return whether each row is zero except for at most one 1; `features` are not negative."""
    if not 0 < num_nonzero <= features.shape[0]:
        return False
    values = stored_values(features)
    row_counts = np.count_nonzero(features, axis=1) if isinstance(features, np.ndarray) else np.diff(features.indptr)
    return bool(row_counts.max() == 1 and values.max() == 1 and values.sum(dtype=np.float64) == num_nonzero)
