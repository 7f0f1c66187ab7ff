"""The reproduction of the paper: its runs, the published numbers, the audit that compares both, tables and figures.

Only the options of a reproduction are imported here, so that a wrong option is reported at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["ReproductionOptions"]


@dataclass(frozen=True)
class ReproductionOptions:
    """Which runs of the paper to reproduce, and how.

    Args:
        split_name: the config of the splits, `published` or `random`; OGBN Arxiv has an official one.
        num_workers: runs at once; -1 for one per core.
        variants: overrides, each a different reading of the paper, whose finished runs are reported too.
        extend: count runs in `runs.parquet` as finished, and keep them in it.
        dry_run: stop after printing the plan.
    """

    models: tuple[str, ...]
    datasets: tuple[str, ...]
    splits: int
    inits: int
    split_name: str
    num_workers: int
    variants: tuple[str, ...]
    output_dir: Path
    extend: bool = False
    dry_run: bool = False

    @property
    def report_dir(self) -> Path:
        """The folder of the report. The report on random splits is in a subfolder."""
        folder = self.output_dir / "reproduction"
        return folder if self.split_name == "published" else folder / f"{self.split_name}_splits"

    @property
    def runs_file(self) -> Path:
        return self.report_dir / "runs.parquet"
