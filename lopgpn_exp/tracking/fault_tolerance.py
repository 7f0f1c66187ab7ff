"""Tracking that never stops a run or a sweep: MLflow is a copy of the files, and can be completed later."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from lopgpn_exp.config.plan import RunPlan, config_hints
from lopgpn_exp.errors import InputError, check_parameter, printable
from lopgpn_exp.records import Attempt, RunResult, SweepRecord
from lopgpn_exp.tracking.store import DEFAULT_EXPERIMENT, check_database, database_file, default_uri, describe_error
from lopgpn_exp.tracking.tracker import Tracker

if TYPE_CHECKING:
    import pandas as pd

RETRY_SECONDS = 30.0  # between a failure and the next attempt
RETRY_FACTOR = 10  # ... or this many times the duration of the failure, so that slow ones cost a tenth of the time
FINAL_SECONDS = 10.0  # that failures may take in the last attempt, at the end


def open_tracker(plan: RunPlan) -> FaultTolerantTracker | None:
    """Connect to the store of a plan; None if tracking is turned off.

    Raises:
        InputError: if the store cannot be used. Before training, that is probably a mistake in its address.
    """
    if not plan.tracking.enabled:
        return None
    with _tracking_hints():
        return FaultTolerantTracker(Tracker(plan.tracking.uri, plan.tracking.experiment, plan.output_dir))


def prepare_tracker(plan: RunPlan) -> Callable[[], FaultTolerantTracker | None]:
    """Check the store of a plan before training; return a function that connects to it afterwards.

    Importing MLflow and creating its database take longer than many trainings, so a database in a file is only checked
    before training. The function returns None if tracking is turned off or, with a warning, if it fails.

    Raises:
        InputError: see `open_tracker`.
    """
    if not plan.tracking.enabled:
        return lambda: None
    with _tracking_hints():
        uri, experiment = plan.tracking.uri or default_uri(plan.output_dir), plan.tracking.experiment
        if (database := database_file(uri)) is not None:
            check_parameter("experiment", "empty", bool(experiment), expected="a name", suggestion=DEFAULT_EXPERIMENT)
            check_database(uri, database)
            return partial(_open_or_warn, plan)
    tracker = open_tracker(plan)
    return lambda: tracker


def _open_or_warn(plan: RunPlan) -> FaultTolerantTracker | None:
    try:
        return open_tracker(plan)
    except InputError as error:
        _warn(f"{error.what}. Results are safe in files; to track them later: lopgpn_exp track")
        return None


@contextmanager
def _tracking_hints() -> Iterator[None]:
    """Add to an error about the store how to choose another one, or none."""
    try:
        with config_hints("tracking"):
            yield
    except InputError as error:
        raise error.with_hint(f"{error.hint}, or tracking=none") from None


class FaultTolerantTracker:
    """A tracker whose methods do not raise. What MLflow does not accept waits until the store can be used again.

    Results are in files already, so nothing is lost if it never can: `lopgpn_exp track` writes what is missing.
    """

    def __init__(self, tracker: Tracker) -> None:
        self.ui = tracker.ui
        self._tracker = tracker
        self._waiting: dict[str, Callable[[], object]] = {}
        self._retry_at = 0.0
        self._error = ""  # the last one; empty as long as there was none

    def add(self, folder: Path, result: RunResult, config: Mapping[str, Any]) -> None:
        """Write a finished run."""
        self._write(result.run_id, partial(self._tracker.add, folder, result, config))

    def add_attempt(self, attempt: Attempt) -> None:
        """Write a run of a sweep, finished or failed."""
        self._write(attempt.job.run_id, partial(self._tracker.add_attempt, attempt))

    def open_sweep(self, sweep: SweepRecord) -> None:
        """Create the parent of a sweep's runs. If that fails, the first run that can be written creates it."""
        self._tracker.sweep = sweep
        self._write(sweep.id, partial(self._tracker.open_sweep, sweep))

    def abandon_sweep(self, *, failed: bool) -> None:
        """Mark a sweep that ended early. A store that failed is not tried again: the user waits for the end."""
        if not self._waiting:
            self._tracker.abandon_sweep(failed=failed)

    def close_sweep(self, results: pd.DataFrame, curves: pd.DataFrame, by_id: Mapping[str, RunResult]) -> None:
        """Write the means of a sweep."""
        sweep = self._tracker.sweep
        assert sweep is not None
        self._write(sweep.id, partial(self._tracker.close_sweep, results, curves, by_id))

    def finish(self, datasets: Collection[str]) -> dict[str, str]:
        """Try once more to write what is waiting, and return the links of the dashboards."""
        num_left = len(self._waiting) + 1
        while 0 < len(self._waiting) < num_left:  # as long as some of it can be written
            num_left = len(self._waiting)
            self._write_waiting(FINAL_SECONDS)
        if self._waiting:
            first, *others = self._waiting
            names = first + (f" and {len(others)} more" if others else "")
            _warn(f"MLflow lacks {names} ({self._error}). To add what is missing: {self._tracker.track_command}")
            return {}
        if self._error:
            _warn("MLflow can be used again and is complete now")
        links: dict[str, str] = {}
        self._attempt(lambda: links.update(self._tracker.links(datasets)))
        return links

    def _write(self, name: str, write: Callable[[], object]) -> None:
        self._waiting.pop(name, None)  # closing a sweep replaces opening it, and comes after its runs
        self._waiting[name] = write
        if time.monotonic() >= self._retry_at:
            self._write_waiting(0)

    def _write_waiting(self, max_seconds: float) -> None:
        """Write what is waiting; stop once failures have taken `max_seconds`."""
        lost = 0.0
        for name, write in list(self._waiting.items()):
            start = time.monotonic()
            del self._waiting[name]
            if self._attempt(write):
                continue
            self._waiting[name] = write  # the last one now, so that it does not block the others
            lost += time.monotonic() - start
            self._retry_at = time.monotonic() + max(RETRY_SECONDS, RETRY_FACTOR * lost)
            if lost >= max_seconds:
                return

    def _attempt(self, action: Callable[[], object]) -> bool:
        """Return whether an action succeeded; the first failure is reported."""
        try:
            action()
        except Exception as error:  # of MLflow, its database, server or disk: none of them may stop a run
            is_first = not self._error
            self._error = describe_error(error, self._tracker.uri)
            if is_first:
                _warn(f"MLflow cannot be used now ({self._error}). Results are safe in files and will be tracked later")
            return False
        return True


def _warn(text: str) -> None:
    tqdm.write(f"warning: {printable(text)}", file=sys.stderr)  # above the progress bar, if there is one
