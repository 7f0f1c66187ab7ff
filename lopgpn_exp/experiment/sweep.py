"""Many runs as one piece of work: what there is to do, and doing it."""

from __future__ import annotations

import hashlib
import json
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from lopgpn_exp.data.splits import OneSplitError
from lopgpn_exp.errors import InputError
from lopgpn_exp.experiment.build import Plan, plan
from lopgpn_exp.experiment.jobs import Attempt, Job, record_failure
from lopgpn_exp.experiment.runner import locate, run
from lopgpn_exp.graph import Graph


class DatasetReader:
    """Reads a dataset once while the runs of a sweep go over its splits; keeps the last one."""

    def __init__(self) -> None:
        self._last: tuple[str, Graph] | None = None

    def __call__(self, plan: Plan) -> Graph:
        if self._last is None or self._last[0] != plan.dataset_key:
            self._last = (plan.dataset_key, plan.read())
        return self._last[1]


_reader = DatasetReader()  # of this process, controller or worker


def planned(configs: Sequence[DictConfig]) -> tuple[list[Plan], list[Attempt]]:
    """The plans of a sweep, and what cannot be planned: a wrong value. No data is read yet."""
    plans, impossible = [], []
    for config in configs:
        try:
            plans.append(plan(config))
        except InputError as error:
            resolved: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
            impossible.append(Attempt(_unnamed(resolved), 0.0, str(error)))
    return plans, impossible


@dataclass(frozen=True)
class Survey:
    """The jobs of a sweep, each identity once, and what is none.

    `impossible` cannot be started: a missing dataset, a split it has not. `beyond` are further splits of data that
    brings its own, beside a job on that one: the axis has fewer steps there.
    """

    jobs: list[Job]
    impossible: list[Attempt]
    beyond: list[Attempt]


def surveyed(plans: Sequence[Plan]) -> Survey:
    """Read the data of plans, and name their runs."""
    jobs: dict[str, Job] = {}
    refused, with_jobs = [], set()
    for each in _sharing_graphs(plans):
        try:
            located = locate(each, read=_reader)
        except InputError as error:
            refused.append((_splits_of(each), error, Attempt(_unnamed(each.resolved), 0.0, str(error))))
            continue
        with_jobs.add(_splits_of(each))
        quiet = {**each.resolved["trainer"], "progress": False}  # the sweep has a bar of its own
        jobs[located.run_id] = Job(
            config={**each.resolved, "trainer": quiet},
            title=each.title,
            kind=(each.model, each.dataset, each.stage != "training"),
            run_id=located.run_id,
            training_id=located.training_id,
            folder=located.folder,
            done=located.is_finished and not each.force,
        )
    impossible, beyond = [], []
    for splits, error, attempt in refused:
        (beyond if isinstance(error, OneSplitError) and splits in with_jobs else impossible).append(attempt)
    return Survey(list(jobs.values()), impossible, beyond)


def _splits_of(plan: Plan) -> tuple[str, str]:
    """The dataset and the way it is split, whichever of the splits this is."""
    return plan.dataset_key, json.dumps({**plan.resolved["split"], "index": None}, sort_keys=True)


def _sharing_graphs(plans: Sequence[Plan]) -> Iterator[Plan]:
    """The same plans, of which those that need the same graph split it and hash it once: hashing takes longest."""
    made: dict[str, Graph] = {}
    last = None
    for each in plans:
        if each.dataset_key != last:
            made, last = {}, each.dataset_key
        split, scenario = (json.dumps(each.resolved[group], sort_keys=True) for group in ("split", "ood"))
        yield replace(
            each,
            split_graph=_once(made, split, each.split_graph),
            scenario_transform=_once(made, split + scenario, each.scenario_transform),
        )


def _once(made: dict[str, Graph], key: str, make: Callable[[Graph], Graph]) -> Callable[[Graph], Graph]:
    def remembered(graph: Graph) -> Graph:
        if key not in made:
            made[key] = make(graph)
        return made[key]

    return remembered


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
                f"the dataset or your own code is another here: this is {outcome.folder.name}, not {job.run_id}"
            )
    except InputError as mistake:
        error = str(mistake)
    except Exception as defect:
        error, details = f"{type(defect).__name__}: {defect}", traceback.format_exc()
    if error is not None:
        record_failure(job, details or error)
    return Attempt(job, time.perf_counter() - start, error, details)


def _unnamed(config: dict[str, Any]) -> Job:
    """The job of a config whose identity cannot be known."""
    model, dataset, scenario = (str((config[group] or {}).get("name")) for group in ("model", "dataset", "ood"))
    split = (config["split"] or {}).get("index")
    digest = hashlib.blake2b(repr(config).encode(), digest_size=5).hexdigest()
    name = f"{model}-{dataset}-s{split}-i{config['init']}-{scenario}-{digest}"
    title = f"{model} · {dataset} · split {split} · {scenario}"
    folder = Path(config["output_dir"]) / "runs" / name
    return Job(config, title, (model, dataset, True), run_id=name, training_id=name, folder=folder, done=False)
