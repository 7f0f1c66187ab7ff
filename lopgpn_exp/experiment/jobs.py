"""A run of a sweep, before and after it ran. It travels to workers and back: plain values only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Job:
    """One run of a sweep and what is known of it before it runs."""

    config: dict[str, Any]
    title: str
    kind: tuple[str, str, bool]  # model, dataset, own training: runs of one kind take about the same time
    run_id: str
    training_id: str
    folder: Path
    done: bool


@dataclass(frozen=True)
class Attempt:
    """What became of a job: `error` is None if it finished, else one message; `details` is a defect's traceback."""

    job: Job
    seconds: float
    error: str | None = None
    details: str | None = None


def record_failure(job: Job, text: str) -> None:
    """`error.txt` in the run's own folder, which a later success replaces as a whole."""
    try:
        job.folder.mkdir(parents=True, exist_ok=True)
        (job.folder / "error.txt").write_text(text)
    except OSError:
        return  # a full or unwritable disk is what failed, and the summary tells
