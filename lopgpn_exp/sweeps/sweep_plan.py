"""Plan a sweep: from configs to jobs with identities, grouped by the training that they share."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from lopgpn_exp.config.plan import RunPlan, plan_run
from lopgpn_exp.config.schema import Stage
from lopgpn_exp.data.splits import MissingSplitError
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Graph
from lopgpn_exp.records import Attempt, Job, SweepRecord, run_title
from lopgpn_exp.runs.execute import locate_run
from lopgpn_exp.runs.identity import training_id
from lopgpn_exp.runs.sweep_folder import label_variants
from lopgpn_exp.runs.training_cache import find_training


class DatasetCache:
    """Keeps the dataset that was read last, and the graphs that are trained on: its splits, with or without a scenario.

    The runs of a sweep go through the splits of one dataset after the other. The graphs share its features and edges.
    """

    def __init__(self) -> None:
        self._dataset: str | None = None
        self._graphs: dict[str, Graph] = {}

    def share(self, plan: RunPlan) -> RunPlan:
        """Return the plan with functions that use this cache."""
        split, scenario = (json.dumps(plan.config[group], sort_keys=True) for group in ("split", "ood"))
        # The graphs of other scenarios are needed once.
        is_trained_on = plan.stage in (Stage.training, Stage.inductive)
        change = partial(self._get, plan, split + scenario, plan.change_graph) if is_trained_on else plan.change_graph
        return replace(
            plan,
            read_dataset=partial(self._get, plan, "", plan.read_dataset),
            split_dataset=partial(self._get, plan, split, plan.split_dataset),
            change_graph=change,
        )

    def _get(self, plan: RunPlan, key: str, compute: Callable[..., Graph], *graphs: Graph) -> Graph:
        if plan.dataset_key != self._dataset:
            self._dataset, self._graphs = plan.dataset_key, {}
        if key not in self._graphs:
            self._graphs[key] = compute(*graphs)
        return self._graphs[key]


dataset_cache = DatasetCache()  # of this process, controller or worker


@dataclass(frozen=True)
class SweepPlan:
    """The jobs of a sweep, each identity once, and what cannot run.

    Args:
        invalid: runs that cannot be started, such as those with a wrong value or a missing dataset.
        skipped_splits: runs on split indices that do not exist because the dataset ships fewer splits.
    """

    jobs: list[Job]
    invalid: list[Attempt]
    skipped_splits: list[Attempt]


def plan_runs(configs: Sequence[Mapping[str, Any]]) -> tuple[list[RunPlan], list[Attempt]]:
    """Return the plans of a sweep, and the runs whose config is invalid. No data is read yet."""
    plans, invalid = [], []
    for config in configs:
        try:
            plans.append(plan_run(config))
        except InputError as error:
            invalid.append(Attempt(_job_without_identity(config), 0.0, str(error)))
    return plans, invalid


def plan_sweep(plans: Sequence[RunPlan]) -> SweepPlan:
    """Read the data of the plans and compute the identities of their runs."""
    jobs: dict[str, Job] = {}
    failures: list[tuple[RunPlan, InputError]] = []
    valid_splits = set()
    for plan in plans:
        try:
            located = locate_run(dataset_cache.share(plan))
        except InputError as error:
            failures.append((plan, error))
            continue
        valid_splits.add(_split_method(plan))
        graph = located.graphs.training
        jobs[located.run_id] = Job(
            config={**plan.config, "trainer": {**plan.config["trainer"], "progress": False}},  # the sweep has a bar
            title=plan.title,
            model=plan.model,
            dataset=plan.dataset,
            run_id=located.run_id,
            training_id=located.training_id,
            folder=located.folder,
            is_finished=located.is_finished and not plan.force,
            graph_size=graph.num_nodes + graph.num_edges,
            parts=_find_missing_parts(plan, graph),
        )
    invalid: list[Attempt] = []
    skipped: list[Attempt] = []
    for plan, failure in failures:
        is_skipped = isinstance(failure, MissingSplitError) and _split_method(plan) in valid_splits
        attempt = Attempt(_job_without_identity(plan.config), 0.0, str(failure))
        (skipped if is_skipped else invalid).append(attempt)
    return SweepPlan(list(jobs.values()), invalid, skipped)


def _find_missing_parts(plan: RunPlan, graph: Graph) -> dict[str, str]:
    """Return the trainings that a plan is made from and that are not done: the names of their models by identity."""
    missing: dict[str, str] = {}
    for part in plan.parts if plan.checkpoint is None else ():
        identity = training_id(part, graph)
        if not find_training(plan.output_dir, identity).exists():
            missing |= {identity: part.model, **_find_missing_parts(part, graph)}
    return missing


def group_by_training(jobs: Sequence[Job]) -> list[list[Job]]:
    """Group jobs that share a training, directly or as a part: one worker trains it, and no other one waits for it.

    Groups are in the order of their first jobs.
    """
    root: dict[str, str] = {}  # maps each training to another one of its group, or to itself

    def find_root(training: str) -> str:
        while root.setdefault(training, training) != training:
            training = root[training]
        return training

    for job in jobs:
        for part in job.parts:
            root[find_root(part)] = find_root(job.training_id)
    groups: dict[str, list[Job]] = {}
    for job in jobs:
        groups.setdefault(find_root(job.training_id), []).append(job)
    return list(groups.values())


def create_record(jobs: Sequence[Job]) -> SweepRecord:
    """Return the record of a sweep, whose id depends on its runs alone."""
    run_ids = tuple(job.run_id for job in jobs)
    digest = hashlib.blake2b(" ".join(sorted(run_ids)).encode(), digest_size=8).hexdigest()
    models, datasets = sorted({job.model for job in jobs}), sorted({job.dataset for job in jobs})
    name = f"sweep · {', '.join(models)} · {', '.join(datasets)} · {len(jobs)} runs"
    return SweepRecord(f"sweep-{digest}", name, run_ids, label_variants({job.run_id: job.config for job in jobs}))


def _split_method(plan: RunPlan) -> tuple[str, str]:
    """Return the dataset and how it is split, whichever of the splits this is."""
    return plan.dataset_key, json.dumps({**plan.config["split"], "index": None}, sort_keys=True)


def _job_without_identity(config: Mapping[str, Any]) -> Job:
    """Return the job of a config whose identity cannot be computed."""
    model, dataset, scenario = (str((config[group] or {}).get("name")) for group in ("model", "dataset", "ood"))
    split = (config["split"] or {}).get("index")
    digest = hashlib.blake2b(repr(config).encode(), digest_size=5).hexdigest()
    name = f"{model}-{dataset}-s{split}-i{config['init']}-{scenario}-{digest}"
    return Job(
        config=dict(config),
        title=run_title(model, dataset, split, scenario),
        model=model,
        dataset=dataset,
        run_id=name,
        training_id=name,
        folder=Path(config["output_dir"]) / "runs" / name,
    )
