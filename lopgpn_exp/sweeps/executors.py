"""Execute the jobs of a sweep: one after the other, or several at once on this machine."""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Sequence

from lopgpn_exp.config.plan import plan_run
from lopgpn_exp.errors import InputError
from lopgpn_exp.records import Attempt, Job
from lopgpn_exp.runs.execute import run
from lopgpn_exp.sweeps.sweep_plan import dataset_cache
from lopgpn_exp.threads import limit_cores

# Runs groups of jobs that share a training; yields the attempts of each group as they finish.
Executor = Callable[[list[list[Job]]], Iterable[list[Attempt]]]


def execute_serially(groups: list[list[Job]]) -> Iterable[list[Attempt]]:
    for group in groups:
        for job in group:
            yield [attempt_job(job)]


def execute_in_parallel(groups: list[list[Job]], *, num_workers: int = -1) -> Iterable[list[Attempt]]:
    """Run groups in worker processes, which import once and write files only; the controller does the tracking."""
    from joblib import Parallel, delayed

    # loky replaces a worker that has grown by 300 MB, for which a larger dataset is enough; no run is lost by it.
    warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given to the executor")
    # A sweep that is stopped reports that itself.
    warnings.filterwarnings("ignore", message=r"\d+ tasks which were still being processed by the workers")
    parallel = Parallel(n_jobs=num_workers, backend="loky", return_as="generator_unordered", pre_dispatch="2*n_jobs")
    return parallel(delayed(attempt_jobs)(group) for group in groups)


def attempt_jobs(jobs: Sequence[Job]) -> list[Attempt]:
    """Run some jobs in a worker process, one after the other. An error in one does not affect the others."""
    with limit_cores(1):  # other workers use the others
        return [attempt_job(job) for job in jobs]


def attempt_job(job: Job) -> Attempt:
    start = time.perf_counter()
    error = details = result = None
    try:
        outcome = run(dataset_cache.share(plan_run(job.config)))
        if outcome.folder != job.folder:
            raise RuntimeError(
                f"the dataset or your own code differs on this worker: it computed {outcome.folder.name}, "
                f"not {job.run_id}"
            )
        result = outcome.result
    except InputError as input_error:
        error = str(input_error)
    except Exception as bug:
        error, details = f"{type(bug).__name__}: {bug}", traceback.format_exc()
    if error is not None:
        record_failure(job, details or error)
    return Attempt(job, time.perf_counter() - start, error, details, result)


def record_failure(job: Job, text: str) -> None:
    """Write `error.txt` to the folder of the run; a later success replaces the folder as a whole."""
    try:
        job.folder.mkdir(parents=True, exist_ok=True)
        (job.folder / "error.txt").write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError:
        return  # a full or read-only disk is probably the failure itself, which the summary reports
