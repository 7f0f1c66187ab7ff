"""The machine that a run is measured on: memory, processor and versions."""

from __future__ import annotations

import platform
import resource
import sys
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from lopgpn_exp import __version__

RECORDED_PACKAGES = ("torch", "torch-geometric", "pytorch-lightning", "numpy", "scipy")


def peak_rss_mb() -> float:
    """Return the largest amount of memory that this process has held so far."""
    status = Path("/proc/self/status")
    if status.is_file():  # on Linux, getrusage includes the memory of the parent process at the time of the fork
        kib = next(line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return round(int(kib) / 2**10, 1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10), 1)


def reset_peak_rss() -> None:
    """Make `peak_rss_mb` count from now on, where the system can do that (Linux); elsewhere, nothing changes."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def versions() -> dict[str, str]:
    """Return the versions of everything that numbers depend on, and the processor."""
    machine = {"lopgpn_exp": __version__, "python": platform.python_version(), "processor": processor()}
    return machine | {name: version(name) for name in RECORDED_PACKAGES}


def processor() -> str:
    """Return the name of the processor: CPUs round differently, and training amplifies it."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
