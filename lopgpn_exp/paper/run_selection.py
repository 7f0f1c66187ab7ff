"""Which runs make up the reproduction: their configs, their identities, and which of them have finished."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from functools import cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lopgpn_exp.config.compose import compose_config, compose_nodes, resolve
from lopgpn_exp.config.foreign_code import find_foreign_targets
from lopgpn_exp.config.plan import plan_run
from lopgpn_exp.config.schema import LABEL_IGNORED_KEYS, flatten
from lopgpn_exp.errors import InputError
from lopgpn_exp.paper import ReproductionOptions
from lopgpn_exp.records import Job
from lopgpn_exp.report.names import SCENARIO_NAMES
from lopgpn_exp.runs.run_folder import read_config
from lopgpn_exp.runs.skipped_runs import read_folders
from lopgpn_exp.sweeps.sweep_plan import plan_runs, plan_sweep

if TYPE_CHECKING:
    from omegaconf import DictConfig

log = logging.getLogger(__name__)

RUN_FOLDER = re.compile(
    r"(?P<model>\w+)-(?P<dataset>\w+)-s(?P<split>\d+)-i(?P<init>\d+)-(?P<scenario>\w+)-[0-9a-f]{10}"
)
RunKey = tuple[str, str, int, int, str]  # model, dataset, split, init, scenario
LARGE = 100_000  # synthetic graphs with at least this many nodes are tests of scale


def compose_runs(
    *,
    models: Iterable[str],
    datasets: Iterable[str],
    splits: int,
    inits: int,
    split_name: str,
    settings: Sequence[str] = (),
    variant: Sequence[str] = (),
    only: Collection[RunKey] | None = None,
) -> list[dict[str, Any]]:
    """Return one config per run of the paper's protocol, dataset by dataset.

    Datasets with a single split and models without randomness have fewer runs.

    Args:
        split_name: the config of the splits; a dataset with an official split keeps it.
        settings: overrides that change no number, such as `output_dir=...`.
        variant: overrides that make it a different run; models that do not accept them are skipped.
        only: the runs to return; all by default.
    """
    configs: list[dict[str, Any]] = []
    refused: dict[str, InputError] = {}
    for dataset, model in product(datasets, models):
        if only is not None and not any(key[:2] == (model, dataset) for key in only):
            continue
        try:
            overrides = [f"model={model}", f"dataset={dataset}", *settings, *variant]
            base = compose_nodes([f"split={split_name}", *overrides] if has_random_splits(dataset) else overrides)
        except InputError as error:
            if not variant:
                raise
            refused[model] = error
            continue
        num_splits, num_inits = min(splits, base.split.count), min(inits, base.model.inits or inits)
        for split, init, name in product(range(num_splits), range(num_inits), SCENARIO_NAMES):
            if only is None or (model, dataset, split, init, name) in only:
                configs.append(_resolve(base, split=split, init=init, scenario=name))
    if refused and not configs:
        reason = next(iter(refused.values())).what
        raise InputError(
            f"{', '.join(refused)} cannot run with {' '.join(variant)}: {reason}",
            expected="overrides that some of the models accept",
        )
    return configs


@cache  # composing takes a tenth of a second
def has_random_splits(dataset: str) -> bool:
    """Return whether a dataset has no official split."""
    return bool(compose_nodes([f"dataset={dataset}"]).split.name == "random")


def _resolve(base: DictConfig, *, split: int, init: int, scenario: str) -> dict[str, Any]:
    config = deepcopy(base)
    config.split.index, config.init, config.ood = split, init, _compose_scenario(scenario)
    return resolve(config)


@cache
def _compose_scenario(name: str) -> DictConfig:
    return compose_nodes([f"ood={name}"]).ood


def identify_runs(configs: Sequence[Mapping[str, Any]]) -> list[Job]:
    """Return the runs with their identities. An invalid config is an error; an unreadable dataset has no runs."""
    plans, invalid = plan_runs(configs)
    if invalid:
        raise InputError(str(invalid[0].error), expected="a config that can be run")
    return plan_sweep(plans).jobs


def find_available_datasets(names: Iterable[str]) -> tuple[list[str], dict[str, InputError]]:
    """Return the datasets that can be read or downloaded, and the errors of the others."""
    available: list[str] = []
    errors: dict[str, InputError] = {}
    for name in names:
        try:
            plan_run(compose_config(["model=gkde", f"dataset={name}"])).read_dataset()
            available.append(name)
        except InputError as error:
            errors[name] = error
    return available, errors


def find_run_keys(output_dir: Path) -> set[RunKey]:
    """Return what the runs below a folder are, judging by the names of their folders."""
    matches = [RUN_FOLDER.fullmatch(folder.name) for folder in (output_dir / "runs").glob("[!.]*")]
    return {(m["model"], m["dataset"], int(m["split"]), int(m["init"]), m["scenario"]) for m in matches if m}


def find_finished_runs(options: ReproductionOptions, variant: str = "") -> list[str]:
    """Return the ids of finished runs among those that the options ask for. A run of another config has another id."""
    keys = find_run_keys(options.output_dir)
    configs = compose_runs(
        models=options.models,
        datasets=options.datasets,
        splits=options.splits,
        inits=1 + max((key[3] for key in keys), default=0),
        split_name=options.split_name,
        settings=[f"output_dir={options.output_dir}"],
        variant=variant.split(),
        only=keys,
    )
    return [job.run_id for job in identify_runs(configs) if job.is_finished]


def find_scale_runs(output_dir: Path) -> dict[str, str]:
    """Return the ids of finished runs on large synthetic graphs, with the overrides that lead to their configs.

    Runs of an earlier numerics version are left out: their configs give other ids today. So are runs with code that is
    not ours, which may come from somebody else.
    """
    runs = {}
    folders = sorted((output_dir / "runs").glob("[!.]*-synthetic-*/"))
    configs, skipped = read_folders(folders, lambda folder: (folder, read_config(folder)))
    if skipped.damaged:
        log.warning(skipped.describe())
    for folder, config in configs:
        if config["dataset"].get("num_nodes", 0) >= LARGE and not find_foreign_targets(config):
            jobs = identify_runs([{**config, "output_dir": str(output_dir)}])
            if [job.run_id for job in jobs] == [folder.name]:
                runs[folder.name] = _describe_overrides(config)
    return runs


def _describe_overrides(config: Mapping[str, Any]) -> str:
    """Return the overrides that lead from the defaults of a model on a synthetic graph to a config."""
    default = dict(flatten(compose_config([f"model={config['model']['name']}", "dataset=synthetic"])))
    changed = [(key, value) for key, value in flatten(config) if default.get(key) != value]
    return " ".join(
        f"{key}={value}" for key, value in changed if key not in LABEL_IGNORED_KEYS and not key.startswith("ood.")
    )
