"""Run a sweep: plan it, execute the missing jobs, track the results, print the summary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from lopgpn_exp.records import Attempt, RunResult, SweepRecord
from lopgpn_exp.report.run_summary import print_links
from lopgpn_exp.report.terminal import print_plan, print_summary, show_progress
from lopgpn_exp.runs.storage import clean_output_dir
from lopgpn_exp.runs.sweep_folder import label_models, write_sweep
from lopgpn_exp.runs.table import curves_table, read_results, results_table
from lopgpn_exp.sweeps.executors import Executor
from lopgpn_exp.sweeps.sweep_plan import create_record, group_by_training, plan_runs, plan_sweep
from lopgpn_exp.sweeps.training_order import estimate_trainings, mean_training_seconds, order_by_cost
from lopgpn_exp.tracking import FaultTolerantTracker, open_tracker


def run_sweep(
    configs: Sequence[Mapping[str, Any]],
    execute: Executor,
    *,
    past_seconds: Mapping[tuple[str, str], float] | None = None,
) -> list[Attempt]:
    """Run all unfinished jobs of a sweep and report the outcome.

    Args:
        configs: one per run; all share `output_dir`, `tracking` and `dry_run`.
        execute: runs groups of jobs that share a training; yields the attempts of each group as they finish.
        past_seconds: mean duration of trainings by model and dataset, where the output folder has none.
    """
    output_dir = Path(configs[0]["output_dir"])
    clean_output_dir(output_dir)
    plans, attempts = plan_runs(configs)
    sweep = plan_sweep(plans)
    attempts += sweep.invalid
    results = {result.run_id: result for result in read_results(output_dir)}
    # A run whose result cannot be read is made again.
    jobs = [replace(job, is_finished=job.is_finished and job.run_id in results) for job in sweep.jobs]
    past_seconds = {**(past_seconds or {}), **mean_training_seconds(results.values())}
    unfinished = [job for job in jobs if not job.is_finished]
    groups = order_by_cost(group_by_training(unfinished), past_seconds)
    print_plan(jobs, attempts, sweep.skipped_splits, training_seconds=estimate_trainings(unfinished, past_seconds))
    if configs[0]["dry_run"]:
        return []
    if not jobs:
        print_summary(results_table([]), attempts)
        return attempts
    record = create_record(jobs)
    tracker = open_tracker(plans[0])  # after the data is checked and before any run: an unreachable store is reported
    with mark_stopped_on_exit(tracker):
        if tracker:
            tracker.open_sweep(record)
            for job in jobs:
                if job.is_finished:
                    tracker.add(job.folder, results[job.run_id], job.config)
        for attempt in show_progress(execute(groups), total=sum(map(len, groups))):
            attempts.append(attempt)
            if attempt.result is not None:
                results[attempt.job.run_id] = attempt.result
            if tracker:
                tracker.add_attempt(attempt)
        finished = [results[run_id] for run_id in record.run_ids if run_id in results]
        _report(record, finished, attempts, output_dir, tracker, configs[0]["report"])
    return attempts


def _report(
    record: SweepRecord,
    finished: Sequence[RunResult],
    attempts: Sequence[Attempt],
    output_dir: Path,
    tracker: FaultTolerantTracker | None,
    metrics: Sequence[str],
) -> None:
    """Report the outcome in the terminal, as a page, and in MLflow."""
    results, curves = (label_models(table(finished), record.labels) for table in (results_table, curves_table))
    # Before the page and tracking, so that a failure there cannot hide it.
    print_summary(results, attempts, report=metrics)
    page = write_sweep(output_dir / "sweeps" / record.id, record, results, curves) if finished else None
    links = {}
    if tracker:
        tracker.close_sweep(results, curves, {result.run_id: result for result in finished})
        links = tracker.finish(set(results["dataset"]))
    print_links(links, ui=tracker.ui if tracker else None, page=page)


@contextmanager
def mark_stopped_on_exit(tracker: FaultTolerantTracker | None) -> Iterator[None]:
    """If a sweep ends early, mark its parent run in MLflow as FAILED or KILLED instead of leaving it RUNNING."""
    try:
        yield
    except BaseException as error:
        if tracker:
            tracker.abandon_sweep(failed=isinstance(error, Exception))
        raise
