"""Bring MLflow up to date: write the finished runs and sweeps of an output folder that it lacks or shows outdated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from lopgpn_exp.errors import InputError
from lopgpn_exp.records import RunResult, SweepRecord
from lopgpn_exp.runs.run_folder import read_result
from lopgpn_exp.runs.sweep_folder import label_models, read_sweep, write_sweep
from lopgpn_exp.tracking.tracker import Tracker


@dataclass(frozen=True)
class FinishedWork:
    """The finished runs and sweeps of an output folder.

    Args:
        results: by run id.
        sweeps: the oldest first.
        unreadable: errors by folder, of runs and sweeps that cannot be read and are not tracked.
    """

    results: dict[str, RunResult]
    sweeps: list[SweepRecord]
    unreadable: dict[Path, InputError]

    @property
    def datasets(self) -> set[str]:
        return {result.dataset for result in self.results.values()}


def read_finished_work(output_dir: Path) -> FinishedWork:
    """Read the results and the records of sweeps. Folders of runs that never finished are left out."""
    work = FinishedWork({}, [], {})
    for folder in sorted((output_dir / "runs").glob("[!.]*/")):
        if (folder / "result.json").is_file():
            try:
                work.results[folder.name] = read_result(folder)
            except InputError as error:
                work.unreadable[folder] = error
    records = (output_dir / "sweeps").glob("[!.]*/sweep.json")
    for path in sorted(records, key=lambda path: path.stat().st_mtime):
        try:
            work.sweeps.append(read_sweep(path.parent))
        except InputError as error:
            work.unreadable[path.parent] = error
    return work


def track_runs(tracker: Tracker, work: FinishedWork) -> Iterator[str]:
    """Write the runs of a folder, each below the newest sweep that contains it; yields their ids."""
    newest = {run_id: sweep for sweep in work.sweeps for run_id in sweep.run_ids}
    tracker.find_runs()
    for run_id, result in work.results.items():
        tracker.sweep = newest.get(run_id)
        folder = tracker.output_dir / "runs" / run_id
        try:
            tracker.add(folder, result)
        except InputError as error:  # its config cannot be read
            work.unreadable[folder] = error
        yield run_id


def track_sweeps(tracker: Tracker, work: FinishedWork) -> None:
    """Write the means of sweeps for which MLflow shows other results, and of all newer sweeps.

    The newer ones follow because the dashboards show the sweep that was written last.
    """
    is_outdated = False
    for sweep in work.sweeps:
        results = {run_id: work.results[run_id] for run_id in sweep.run_ids if run_id in work.results}
        if not results:
            continue
        is_outdated = is_outdated or not tracker.is_sweep_closed(sweep, results)
        if is_outdated:
            _write_sweep(tracker, sweep, results)
        tracker.changes["added" if sweep.id in tracker.new_sweeps else "updated" if is_outdated else "unchanged"] += 1


def _write_sweep(tracker: Tracker, sweep: SweepRecord, results: Mapping[str, RunResult]) -> None:
    """Write the tables and the page of a sweep again, since they may be older than its runs, and then its means."""
    from lopgpn_exp.runs.table import curves_table, results_table  # deferred import: pandas

    runs, curves = (label_models(table(results.values()), sweep.labels) for table in (results_table, curves_table))
    write_sweep(tracker.output_dir / "sweeps" / sweep.id, sweep, runs, curves)
    tracker.open_sweep(sweep)
    tracker.close_sweep(runs, curves, results)
