"""Execute a sweep as array jobs on a Slurm cluster: `hydra/launcher=slurm`."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lopgpn_exp.errors import InputError
from lopgpn_exp.records import Attempt, Job
from lopgpn_exp.runs.run_folder import is_complete, read_result

POLL_SECONDS = 2.0
GRACE_SECONDS = 15.0  # a result may reach a shared folder after its task has left the queue


@dataclass(frozen=True)
class SlurmOptions:
    """Resources and limits of an array job.

    Args:
        chunk: runs per array task; runs that share a training stay together.
        max_parallel: array tasks that run at the same time.
        timeout_min, mem_gb, cpus_per_task, partition: of each task.
        parameters: anything else that `sbatch` takes, such as `{account: mine}`.
    """

    chunk: int = 20
    max_parallel: int = 50
    timeout_min: int = 240
    mem_gb: int | None = 8
    cpus_per_task: int = 1
    partition: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.chunk < 1:
            raise InputError(f"chunk is {self.chunk}", expected="1 or more", parameter="chunk", suggestion=20)

    def to_submitit(self) -> dict[str, Any]:
        return {
            "slurm_array_parallelism": self.max_parallel,
            "timeout_min": self.timeout_min,
            "cpus_per_task": self.cpus_per_task,
            **({"mem_gb": self.mem_gb} if self.mem_gb else {}),
            **({"slurm_partition": self.partition} if self.partition else {}),
            "slurm_additional_parameters": dict(self.parameters),
        }


def execute_on_slurm(groups: list[list[Job]], options: SlurmOptions, *, output_dir: str) -> Iterable[list[Attempt]]:
    """Submit array jobs with submitit, and yield the attempts of each task as it ends.

    Workers write to the shared folder, and the controller does the tracking. Slurm requeues a task that is pre-empted
    or times out; its finished runs are not repeated. If the controller is stopped the tasks go on, and the same
    command finds what they have finished.
    """
    try:
        import submitit
    except ImportError:
        raise InputError(
            "submitit is not installed", expected="submitit", hint="pip install 'lopgpn_exp[slurm]'"
        ) from None
    try:
        executor = submitit.AutoExecutor(folder=Path(output_dir).resolve() / "slurm", cluster="slurm")
    except RuntimeError as error:
        raise InputError(
            f"there is no Slurm ({error})", expected="sbatch on the PATH", hint="hydra/launcher=joblib"
        ) from None
    executor.update_parameters(name="lopgpn_exp", **options.to_submitit())
    chunks = split_into_chunks(groups, options.chunk)
    tasks = dict(zip(executor.map_array(ArrayTask(), chunks), chunks, strict=True)) if chunks else {}
    yield from _collect(tasks)


class ArrayTask:
    """The work of one array task; submitit calls `checkpoint` when the scheduler pre-empts it."""

    def __call__(self, jobs: list[Job]) -> list[Attempt]:
        from lopgpn_exp.sweeps.executors import attempt_jobs  # deferred import: torch is needed on the node only

        return attempt_jobs(jobs)

    def checkpoint(self, jobs: list[Job]) -> Any:
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, jobs)


def split_into_chunks(groups: Sequence[Sequence[Job]], size: int) -> list[list[Job]]:
    """Put consecutive groups together into chunks of about `size` jobs; a group is never divided."""
    chunks: list[list[Job]] = []
    for group in groups:
        if chunks and len(chunks[-1]) + len(group) <= size:
            chunks[-1] += group
        else:
            chunks.append(list(group))
    return chunks


def _collect(tasks: dict[Any, list[Job]]) -> Iterable[list[Attempt]]:
    """Yield the attempts of each task when its result is there or the queue no longer lists it.

    submitit asks the accounting database, which many clusters do not have: it would wait for a killed task for ever.
    """
    missing_since: dict[Any, float] = {}
    while tasks:
        queued = _queued_tasks()
        for task in list(tasks):
            if task.paths.result_pickle.exists():
                yield _attempts_of(task, tasks.pop(task))
            elif task.job_id in queued:
                missing_since.pop(task, None)
            elif time.monotonic() - missing_since.setdefault(task, time.monotonic()) > GRACE_SECONDS:
                yield _attempts_of(task, tasks.pop(task))
        time.sleep(POLL_SECONDS)


def _queued_tasks() -> set[str]:
    """Return the ids of the tasks that are waiting or running, as `job_task`."""
    queue = subprocess.run(["squeue", "-h", "-r", "-o", "%A %F_%K"], capture_output=True, text=True, check=False)
    return set(queue.stdout.split())


def _attempts_of(task: Any, jobs: list[Job]) -> list[Attempt]:
    """Return the attempts of a task. If it died, the runs that it finished count and the others have failed."""
    from lopgpn_exp.sweeps.executors import record_failure

    try:
        if not task.paths.result_pickle.exists():
            raise RuntimeError(f"the task left no result; its log is {task.paths.stderr}")
        return task.result()
    except Exception as error:
        reason = f"the scheduler ended the job {task.job_id}"
        attempts = []
        for job in jobs:
            if is_complete(job.folder):
                attempts.append(Attempt(job, 0.0, result=read_result(job.folder)))
            else:
                record_failure(job, f"{reason}\n\n{error}")
                attempts.append(Attempt(job, 0.0, error=reason))
        return attempts
