"""Repeated measurements of one duration, as the fields of a record in bench.json."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

Record = dict[str, Any]


def summarise_times(seconds: Sequence[float]) -> Record:
    """Return the median, half the interquartile range relative to it (`spread`), and the number of repeats."""
    median = statistics.median(seconds)
    low, _, high = statistics.quantiles(seconds, n=4) if len(seconds) > 1 else (median,) * 3
    return {"seconds": median, "spread": (high - low) / 2 / median, "repeats": len(seconds)}
