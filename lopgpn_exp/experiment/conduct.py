"""A sweep from its configs to its report: plan, run what is missing, track, show."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from omegaconf import DictConfig

from lopgpn_exp.experiment.collect import load_curves, load_results
from lopgpn_exp.experiment.jobs import Attempt, Job
from lopgpn_exp.experiment.sweep import planned, shared_trainings, surveyed
from lopgpn_exp.experiment.sweeps import Sweep, sweep_of
from lopgpn_exp.experiment.tracking import Tracker
from lopgpn_exp.report.summary import show_links
from lopgpn_exp.report.sweep import SweepBar, show_outcome, show_page, show_plan


def conduct(
    configs: Sequence[DictConfig],
    carry_out: Callable[[list[list[Job]]], Iterable[list[Attempt]]],
    settings: DictConfig,
) -> list[Attempt]:
    """Do what is left of a sweep and say what became of it.

    Args:
        configs: one a run.
        carry_out: does groups of jobs that share a training, and yields what became of them as they finish.
        settings: `output_dir`, `tracking` and `dry_run`, which all runs share.
    """
    output_dir = Path(settings.output_dir)
    plans, attempts = planned(configs)
    tracker = None
    if plans and settings.tracking.enabled and not settings.dry_run:
        tracker = Tracker(settings.tracking.uri, settings.tracking.experiment, output_dir)
    survey = surveyed(plans)
    jobs = survey.jobs
    attempts += survey.impossible
    todo = [job for job in jobs if not job.done]
    groups = shared_trainings(todo)
    show_plan(jobs, attempts, survey.beyond, trainings=len(groups), history=load_results(output_dir))
    if settings.dry_run:
        return []
    if not jobs:
        show_outcome(load_results(output_dir, run_ids=()), attempts)
        return attempts
    sweep = sweep_of(jobs, output_dir)
    with _told_if_stopped(tracker):
        if tracker:
            tracker.open_sweep(sweep)
            for job in jobs:
                if job.done:
                    tracker.add(job.folder, job.config, job.title)
        with SweepBar(len(todo)) as bar:
            for finished in carry_out(groups):
                attempts += finished
                bar.advance(finished)
                for each in finished if tracker else []:
                    tracker.add_attempt(each)
        _show(sweep, attempts, output_dir, tracker)
    return attempts


def _show(sweep: Sweep, attempts: list[Attempt], output_dir: Path, tracker: Tracker | None) -> None:
    """What became of it: in the terminal, as a page, in MLflow."""
    results, curves = (sweep.labelled(load(output_dir, run_ids=sweep.run_ids)) for load in (load_results, load_curves))
    show_outcome(results, attempts)  # first: whatever becomes of page and tracking, this was worth waiting for
    if len(results):
        show_page(sweep.write(results, curves))
    if tracker:
        tracker.close_sweep(results, curves)
        show_links(tracker.links(set(results["dataset"])), ui=tracker.ui)


@contextmanager
def _told_if_stopped(tracker: Tracker | None) -> Iterator[None]:
    """SIGTERM ends a sweep as Ctrl-C does; whatever ends it early, its parent run does not stay RUNNING for ever."""
    with _exit_by_sigterm():
        try:
            yield
        except BaseException as error:
            if tracker:
                tracker.abandon_sweep(failed=isinstance(error, Exception))
            raise


@contextmanager
def _exit_by_sigterm() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # Python lets no other one handle signals
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
