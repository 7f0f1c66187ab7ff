"""What reading will take, said before it is taken."""

from __future__ import annotations

import logging
from pathlib import Path

from lopgpn_exp.errors import InputError

log = logging.getLogger(__name__)

GIB = 2**30
SAID_FROM = GIB / 4  # less is nothing to speak of


def feature_bytes(num_nodes: int, num_features: int) -> int:
    """As parsed, as read and as scaled (8 bytes each), kept in 4, and as much while they are looked at."""
    return 32 * num_nodes * num_features


def check_memory(path: Path, what: str, need: int, *, limit_gib: float | None) -> None:
    """Say how many bytes reading a file can take, and refuse what does not fit.

    Args:
        limit_gib: the most that may be taken; None: what this machine has free.
    """
    if need > SAID_FROM:
        log.info("Reading %s: %s, up to %.1f GiB", path, what, need / GIB)
    free = _free_bytes() if limit_gib is None else limit_gib * GIB
    if free is not None and need > free:
        raise InputError(
            f"reading {path} ({what}) can take {need / GIB:.2f} GiB",
            expected=f"at most {free / GIB:.2f} GiB, "
            + ("which is free here" if limit_gib is None else "which is dataset.memory_limit_gib"),
            hint=f"fewer features, or dataset.memory_limit_gib={need / GIB + 0.1:.1f}",
        )


def _free_bytes() -> float | None:
    """Memory that can be had without swapping; None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return float(next(line.split()[1] for line in lines if line.startswith("MemAvailable"))) * 2**10
    except (OSError, StopIteration, ValueError):
        return None
