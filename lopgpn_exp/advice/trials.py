"""Run candidate methods on both halves of the validation nodes, as long as the time lasts."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, NoReturn

from lopgpn_exp.advice.candidates import Candidate
from lopgpn_exp.config.compose import compose_config
from lopgpn_exp.config.plan import RunPlan, plan_run
from lopgpn_exp.graph import Graph
from lopgpn_exp.records import Attempt, Job
from lopgpn_exp.runs.execute import locate_run
from lopgpn_exp.runs.machine import reset_peak_rss
from lopgpn_exp.sweeps.executors import attempt_job
from lopgpn_exp.sweeps.sweep_plan import dataset_cache, plan_sweep

HALVES = (0, 1)
DATASET = "advice"  # name of the dataset in ids and tables: these runs are not averaged with others on the same graph


class OutOfTime(BaseException):
    """The time is over. Not an Exception: no handler in between should take it for a failure of the run."""


@dataclass(frozen=True)
class Trial:
    """A method on one half of the validation nodes.

    Args:
        total: the measure that the method declares as its total uncertainty.
    """

    candidate: Candidate
    half: int
    job: Job
    total: str | None


@dataclass(frozen=True)
class Outcome:
    """What became of a trial: an attempt, or None if there was no time for it."""

    trial: Trial
    attempt: Attempt | None

    @property
    def is_finished(self) -> bool:
        return self.attempt is not None and not self.attempt.has_failed


def plan_trials(
    candidates: Sequence[Candidate], overrides: Sequence[str], values: Mapping[str, Any]
) -> tuple[list[Trial], Graph]:
    """Return the trials in the order in which to run them, and the graph without the labels of its test nodes.

    All methods on one half come before the other half; ensembles come last. Bad input raises an InputError now, before
    any training.

    Args:
        overrides: further overrides of all runs, such as `trainer.patience=20`.
        values: config values by key: path of the graph and output folder.
    """
    trials: list[Trial] = []
    for candidate in candidates:
        for plan in _plan_halves(candidate, overrides, values):
            graph = locate_run(dataset_cache.share(plan)).graphs.clean  # raises what `plan_sweep` would collect
            jobs = plan_sweep([plan]).jobs
            trials += [Trial(candidate, plan.split, job, plan.measures.get("total")) for job in jobs]
    return sorted(trials, key=lambda trial: (trial.candidate.trainings_of is not None, trial.half)), graph


def _plan_halves(candidate: Candidate, overrides: Sequence[str], values: Mapping[str, Any]) -> list[RunPlan]:
    words = [f"model={candidate.name}", "dataset=custom", "split=validation_halves", "ood=none"]
    config = compose_config([*words, *overrides], values={**values, "dataset.name": DATASET})
    return [plan_run({**config, "split": {**config["split"], "index": half}}) for half in HALVES]


def run_trials(trials: Sequence[Trial], *, deadline: float) -> Iterator[Outcome]:
    """Run trials until the deadline, a value of `time.monotonic`, and yield what became of each.

    Finished runs are read at any time. A trial that would not fit is skipped, judging by the same method on the other
    half, or by the method that an ensemble is made from. At the deadline, the current training is stopped.
    """
    seconds: dict[str, float] = {}  # by method
    for trial in trials:
        left = deadline - time.monotonic()
        attempt = None
        if trial.job.is_finished or left > _expect_seconds(trial.candidate, seconds):
            attempt = _attempt(trial.job, left)
        if attempt is not None and attempt.result is not None:  # the result of a finished run keeps how long it took
            seconds[trial.candidate.name] = max(attempt.seconds, sum(attempt.result.seconds.values()))
        yield Outcome(trial, attempt)


def _expect_seconds(candidate: Candidate, seconds: Mapping[str, float]) -> float:
    """Return how long a run of a method will take, 0 if nothing is known about it."""
    if candidate.name in seconds or candidate.trainings_of is None:
        return seconds.get(candidate.name, 0.0)
    name, count = candidate.trainings_of
    return count * seconds.get(name, 0.0)


def _attempt(job: Job, seconds: float) -> Attempt | None:
    """Run a job; return None if it is not finished after so many seconds."""
    if job.is_finished:
        return attempt_job(job)
    reset_peak_rss()
    try:
        with time_limit(seconds):
            return attempt_job(job)
    except OutOfTime:
        return None


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `OutOfTime` in the block after so many seconds; without effect outside of the main thread of Unix."""

    def stop(signal_number: int, frame: FrameType | None) -> NoReturn:
        raise OutOfTime

    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return
    previous = signal.signal(signal.SIGALRM, stop)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)  # again each second: a destructor may swallow the first
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:  # also if the signal arrives just now
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
