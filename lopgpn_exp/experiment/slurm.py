"""`hydra/launcher=slurm`: sweeps as array jobs on a cluster."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lopgpn_exp.errors import InputError
from lopgpn_exp.experiment.jobs import Attempt, Job, record_failure
from lopgpn_exp.experiment.launchers import LocalLauncher
from lopgpn_exp.experiment.results import is_complete

POLL_SECONDS = 2.0
GRACE_SECONDS = 15.0  # a result may reach a shared folder after its task has left the queue


class SlurmLauncher(LocalLauncher):
    """Array jobs of many small runs each, by submitit. Workers write files on the shared folder; the controller tracks.

    A job that is pre-empted or times out is queued again by itself, and what it had finished is not run again.
    Stop the controller and the jobs go on; the same command then finds what they finished.

    Args:
        chunk: runs in one array task (trainings that are shared stay together).
        max_parallel: array tasks at once.
        timeout_min, mem_gb, cpus_per_task, partition: what each task asks of the scheduler.
        parameters: anything else that `sbatch` takes, such as `{account: mine}`.
    """

    def __init__(
        self,
        chunk: int = 20,
        max_parallel: int = 50,
        timeout_min: int = 240,
        mem_gb: int | None = 8,
        cpus_per_task: int = 1,
        partition: str | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        if chunk < 1:
            raise InputError(f"hydra.launcher.chunk is {chunk}", expected="1 or more", hint="hydra.launcher.chunk=20")
        self.chunk = chunk
        self.options = {
            "slurm_array_parallelism": max_parallel,
            "timeout_min": timeout_min,
            "cpus_per_task": cpus_per_task,
            **({"mem_gb": mem_gb} if mem_gb else {}),
            **({"slurm_partition": partition} if partition else {}),
            "slurm_additional_parameters": dict(parameters or {}),
        }

    def attempts(self, groups: list[list[Job]]) -> Iterable[list[Attempt]]:
        try:
            import submitit
        except ImportError:
            raise InputError(
                "submitit is not installed", expected="submitit", hint="pip install 'lopgpn_exp[slurm]'"
            ) from None
        folder = Path(self.config.output_dir).resolve() / "slurm"
        try:
            executor = submitit.AutoExecutor(folder=folder, cluster="slurm")
        except RuntimeError as error:
            raise InputError(
                f"no Slurm ({error})", expected="sbatch on the path", hint="hydra/launcher=joblib"
            ) from None
        executor.update_parameters(name="lopgpn_exp", **self.options)
        chunks = packed(groups, self.chunk)
        submitted = dict(zip(executor.map_array(Chunk(), chunks), chunks, strict=True)) if chunks else {}
        yield from _as_completed(submitted)


class Chunk:
    """The work of one array task; submitit calls `checkpoint` when the scheduler takes its place away."""

    def __call__(self, jobs: list[Job]) -> list[Attempt]:
        from lopgpn_exp.experiment.sweep import attempt  # torch: on the node, not before

        return attempt(jobs)

    def checkpoint(self, jobs: list[Job]) -> Any:
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, jobs)


def packed(groups: Sequence[Sequence[Job]], size: int) -> list[list[Job]]:
    """Consecutive groups together, `size` jobs each or a little more: a group is never torn."""
    chunks: list[list[Job]] = []
    for group in groups:
        if chunks and len(chunks[-1]) + len(group) <= size:
            chunks[-1] += group
        else:
            chunks.append(list(group))
    return chunks


def _as_completed(submitted: dict[Any, list[Job]]) -> Iterable[list[Attempt]]:
    """What became of the tasks, as they end: their result is there, or the queue no longer knows them.

    submitit asks the accounting database, which many clusters do not have: a killed task would be waited for for ever.
    """
    missing_since: dict[Any, float] = {}
    while submitted:
        queued = _queued()
        for task in list(submitted):
            if task.paths.result_pickle.exists():
                yield _outcome(task, submitted.pop(task))
            elif task.job_id in queued:
                missing_since.pop(task, None)
            elif time.monotonic() - missing_since.setdefault(task, time.monotonic()) > GRACE_SECONDS:
                yield _outcome(task, submitted.pop(task))
        time.sleep(POLL_SECONDS)


def _queued() -> set[str]:
    """Tasks that are waiting or running, as `job_task`."""
    found = subprocess.run(["squeue", "-h", "-r", "-o", "%A %F_%K"], capture_output=True, text=True, check=False)
    return set(found.stdout.split())


def _outcome(task: Any, jobs: list[Job]) -> list[Attempt]:
    """What a task returned; if it died, what it finished before counts, and the rest has failed."""
    try:
        if not task.paths.result_pickle.exists():
            raise RuntimeError(f"the task left no result; its log is {task.paths.stderr}")
        return task.result()
    except Exception as error:
        reason = f"the scheduler ended the job {task.job_id}"
        attempts = [Attempt(job, 0.0, None if is_complete(job.folder) else reason) for job in jobs]
        for each in attempts:
            if each.error is not None:
                record_failure(each.job, f"{reason}\n\n{error}")
        return attempts
