"""Many runs as one piece of work: what there is to do, and doing it."""

from __future__ import annotations

import hashlib
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from lopgpn_exp.errors import InputError
from lopgpn_exp.experiment.build import Plan, plan
from lopgpn_exp.experiment.runner import locate, run
from lopgpn_exp.graph import Graph


@dataclass(frozen=True)
class Job:
    """One run of a sweep and what is known of it before it runs. It travels to workers: plain values only."""

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


class DatasetReader:
    """Reads a dataset once while the runs of a sweep go over its splits; keeps the last one."""

    def __init__(self) -> None:
        self._last: tuple[str, Graph] | None = None

    def __call__(self, plan: Plan) -> Graph:
        if self._last is None or self._last[0] != plan.dataset_key:
            self._last = (plan.dataset_key, plan.read())
        return self._last[1]


_reader = DatasetReader()  # of this process, controller or worker


def survey(configs: Sequence[DictConfig]) -> tuple[list[Job], list[Attempt]]:
    """The jobs of a sweep, each identity once, and what cannot even be planned (a wrong value, a missing dataset)."""
    jobs: dict[str, Job] = {}
    impossible = []
    for config in configs:
        resolved: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
        resolved["trainer"]["progress"] = False  # the sweep has a bar of its own
        try:
            planned = plan(config)
            located = locate(planned, read=_reader)
        except InputError as error:
            impossible.append(Attempt(_unplanned(resolved), 0.0, str(error)))
            continue
        jobs[located.run_id] = Job(
            config=resolved,
            title=planned.title,
            kind=(planned.model, planned.dataset, planned.stage != "training"),
            run_id=located.run_id,
            training_id=located.training_id,
            folder=located.folder,
            done=located.is_finished and not config.force,
        )
    return list(jobs.values()), impossible


def shared_trainings(jobs: Sequence[Job]) -> list[list[Job]]:
    """Jobs that need the same training, together: a worker trains once and evaluates the rest right after."""
    position = {job.run_id: index for index, job in enumerate(jobs)}
    ordered = sorted(jobs, key=lambda job: job.training_id)
    groups = [list(group) for _, group in groupby(ordered, key=lambda job: job.training_id)]
    return sorted(groups, key=lambda group: min(position[job.run_id] for job in group))


def attempt(jobs: Sequence[Job]) -> list[Attempt]:
    """Run some jobs one after the other. Nothing raised by one reaches the others."""
    return [_attempt(job) for job in jobs]


def _attempt(job: Job) -> Attempt:
    start = time.perf_counter()
    error = details = None
    try:
        outcome = run(plan(OmegaConf.create(job.config)), read=_reader)
        if outcome.folder != job.folder:
            raise RuntimeError(
                f"the dataset was read differently here: this is {outcome.folder.name}, not {job.run_id}"
            )
    except InputError as mistake:
        error = str(mistake)
    except Exception as defect:
        error, details = f"{type(defect).__name__}: {defect}", traceback.format_exc()
    if error is not None:
        record_failure(job, details or error)
    return Attempt(job, time.perf_counter() - start, error, details)


def record_failure(job: Job, text: str) -> None:
    """`error.txt` in the run's own folder, which a later success replaces as a whole."""
    try:
        job.folder.mkdir(parents=True, exist_ok=True)
        (job.folder / "error.txt").write_text(text)
    except OSError:
        return  # a full or unwritable disk is what failed, and the summary tells


def _unplanned(config: dict[str, Any]) -> Job:
    model, dataset, scenario = (str((config[group] or {}).get("name")) for group in ("model", "dataset", "ood"))
    split = (config["split"] or {}).get("index")
    digest = hashlib.blake2b(repr(config).encode(), digest_size=5).hexdigest()
    name = f"{model}-{dataset}-s{split}-i{config['init']}-{scenario}-{digest}"
    title = f"{model} · {dataset} · split {split} · {scenario}"
    folder = Path(config["output_dir"]) / "runs" / name
    return Job(config, title, (model, dataset, True), run_id=name, training_id=name, folder=folder, done=False)
