"""Estimate the memory that reading a file needs, before reading it."""

from __future__ import annotations

import logging
from pathlib import Path

from lopgpn_exp.errors import InputError

log = logging.getLogger(__name__)

GIB = 2**30
LOG_ABOVE = GIB / 4
MAX_FEATURES = 1_000_000
MAX_COLUMNS = 100_000


def estimate_feature_bytes(num_nodes: int, num_features: int) -> int:
    """Return an upper estimate of the memory for features: three copies of 8 bytes per value and two of 4 bytes."""
    return 32 * num_nodes * num_features


def estimate_sparse_bytes(num_nodes: int, num_entries: int) -> int:
    """Return an upper estimate of the memory for sparse features: four copies of 12 bytes per non-zero value."""
    return 48 * num_entries + 32 * num_nodes


def check_num_features(num_features: int) -> None:
    """Raise an InputError if there are more features than a model can have weights for."""
    if num_features > MAX_FEATURES:
        raise InputError(
            f"there are {num_features:,} features",
            expected=f"at most {MAX_FEATURES:,}, because the models have a row of weights for each: reduce them first",
        )


def check_num_columns(num_columns: int) -> None:
    """Raise an InputError if a table has more columns than can be read in a few seconds."""
    if num_columns > MAX_COLUMNS:
        raise InputError(
            f"the table has {num_columns:,} columns",
            expected=f"at most {MAX_COLUMNS:,}; an .npz file stores features as a sparse matrix, with up to "
            f"{MAX_FEATURES:,} columns",
        )


def check_memory(source: Path | str, content: str, num_bytes: int, *, limit_gib: float | None) -> None:
    """Raise an InputError if reading a file can take more than `limit_gib` (None: the free memory of this machine)."""
    if num_bytes > LOG_ABOVE:
        log.info("Reading %s: %s, up to %.1f GiB", source, content, num_bytes / GIB)
    limit = _read_free_bytes() if limit_gib is None else limit_gib * GIB
    if limit is not None and num_bytes > limit:
        reason = "which is free on this machine" if limit_gib is None else "which is memory_limit_gib"
        raise InputError(
            f"reading {source} ({content}) can take {num_bytes / GIB:.2f} GiB",
            expected=f"at most {limit / GIB:.2f} GiB, {reason}: use fewer features, or raise the limit",
            parameter="memory_limit_gib",
            suggestion=round(num_bytes / GIB + 0.1, 1),
        )


def _read_free_bytes() -> float | None:
    """Return the memory available without swapping, or None if the system does not report it."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return float(next(line.split()[1] for line in lines if line.startswith("MemAvailable"))) * 2**10
    except (OSError, StopIteration, ValueError):
        return None
