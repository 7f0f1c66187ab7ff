"""The leaderboard: all methods under one protocol, compared with each other and with published values.

Only the options of a benchmark are imported here, so that a wrong option is reported at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["BenchmarkOptions"]


@dataclass(frozen=True)
class BenchmarkOptions:
    """Which runs of a protocol to make, and how.

    Args:
        protocol: one of `protocols.PROTOCOLS`.
        models, datasets: names of configs.
        splits, inits: how many of each.
        num_workers: runs at once; -1 for one per core.
        config_dir: the user's folder of configs.
        against: a `runs.parquet` whose runs count as finished and are shown too.
        is_tracked: whether the runs are written to MLflow.
        dry_run: stop after printing the plan.
    """

    protocol: str
    models: tuple[str, ...]
    datasets: tuple[str, ...]
    splits: int
    inits: int
    num_workers: int
    output_dir: Path
    config_dir: Path | None = None
    against: Path | None = None
    is_tracked: bool = True
    dry_run: bool = False

    @property
    def report_dir(self) -> Path:
        return self.output_dir / "benchmark"

    @property
    def runs_file(self) -> Path:
        return self.report_dir / "runs.parquet"
