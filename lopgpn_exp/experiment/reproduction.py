"""Which runs make up the reproduction of the paper: their configs, and by those their identities."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from copy import deepcopy
from itertools import product
from pathlib import Path
from typing import Any

import yaml
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import ConfigCompositionException
from omegaconf import DictConfig, OmegaConf, open_dict

from lopgpn_exp.errors import InputError
from lopgpn_exp.experiment import schema
from lopgpn_exp.experiment.jobs import Job
from lopgpn_exp.experiment.sweep import planned, surveyed

SCENARIOS = ("none", "leave_out_classes", "bernoulli", "gaussian")
FOLDER = re.compile(r"(?P<model>\w+)-(?P<dataset>\w+)-s(?P<split>\d+)-i(?P<init>\d+)-(?P<scenario>\w+)-[0-9a-f]{10}")
Kind = tuple[str, str, int, int, str]  # model, dataset, split, init, scenario
LARGE = 100_000  # nodes from which a synthetic graph is one of the tests of scale


def configs(
    conf: Path,
    *,
    models: Iterable[str],
    datasets: Iterable[str],
    splits: int,
    inits: int,
    settings: Sequence[str] = (),
    variant: Sequence[str] = (),
    only: Collection[Kind] | None = None,
) -> list[DictConfig]:
    """One config a run of the paper's protocol, dataset by dataset. A dataset or model with fewer steps has fewer.

    Composing takes long, so a scenario's node is composed once and put into each config.

    Args:
        settings: overrides that change no number, such as `output_dir=...`.
        variant: overrides that make it another run; a model that has no such value is left out.
        only: leave out what is not of these kinds.
    """
    schema.register()
    GlobalHydra.instance().clear()
    found, refused = [], []
    with initialize_config_dir(str(conf), version_base="1.3"):
        scenarios = {name: compose("config", overrides=[f"ood={name}"]).ood for name in SCENARIOS}
        for dataset, model in ((d, m) for d in datasets for m in models):
            try:
                base = compose("config", overrides=[f"model={model}", f"dataset={dataset}", *settings, *variant])
            except ConfigCompositionException as error:
                if not variant:
                    raise
                refused.append(error)
                continue
            limit = base.model.inits or inits
            steps = product(range(min(splits, base.split.count)), range(min(inits, limit)), scenarios)
            wanted = (step for step in steps if only is None or (model, dataset, *step) in only)
            found += [_step(base, split, init, scenarios[name]) for split, init, name in wanted]
    if refused and not found:
        what = str(refused[0]).partition("\n")[0]
        raise InputError(f"{' '.join(variant)} is of no model ({what})", expected="overrides that some model takes")
    return found


def _step(base: DictConfig, split: int, init: int, scenario: DictConfig) -> DictConfig:
    config = deepcopy(base)
    with open_dict(config):
        config.ood = scenario
    config.split.index, config.init = split, init
    return config


def identified(runs: Sequence[DictConfig]) -> list[Job]:
    """The runs with their identities. A config that is wrong is an error; a dataset that cannot be read has none."""
    plans, impossible = planned(runs)
    if impossible:
        raise InputError(str(impossible[0].error), expected="a config that can be run")
    return surveyed(plans).jobs


def without(runs: Sequence[DictConfig], run_ids: Collection[str]) -> list[DictConfig]:
    """The runs that are none of these, by identity."""
    return [OmegaConf.create(job.config) for job in identified(runs) if job.run_id not in run_ids]


def kinds_with_runs(output_dir: Path) -> set[Kind]:
    """What run folders are called: their models, datasets, splits, initialisations and scenarios."""
    matches = [FOLDER.fullmatch(folder.name) for folder in (output_dir / "runs").glob("[!.]*")]
    return {(m["model"], m["dataset"], int(m["split"]), int(m["init"]), m["scenario"]) for m in matches if m}


def scale_runs(conf: Path, output_dir: Path) -> dict[str, str]:
    """Run ids of finished runs on large synthetic graphs, with all that sets them apart from a default run.

    A run counts if its own config gives its id under today's code: one of other numerics does not.
    """
    found = {}
    for path in sorted((output_dir / "runs").glob("*-synthetic-*/config.yaml")):
        config = yaml.safe_load(path.read_text())
        if config["dataset"].get("num_nodes", 0) >= LARGE:
            config["output_dir"] = str(output_dir)
            jobs = identified([OmegaConf.create(config)])
            if [job.run_id for job in jobs] == [path.parent.name]:
                found[path.parent.name] = _difference(conf, config)
    return found


def _difference(conf: Path, config: dict[str, Any]) -> str:
    """The overrides that lead from the default of this model to a config."""
    (default, *_) = configs(conf, models=[config["model"]["name"]], datasets=["synthetic"], splits=1, inits=1)
    plain = dict(_flat(OmegaConf.to_container(default, resolve=True)))
    return " ".join(f"{key}={value}" for key, value in _flat(config) if plain.get(key) != value)


def _flat(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Values that set runs apart, by their dotted names."""
    for key, value in node.items():
        name = f"{path}.{key}" if path else str(key)
        if isinstance(value, dict):
            yield from _flat(value, name)
        elif name.startswith(("model.", "dataset.", "split.", "trainer.")) and name not in (
            "split.index",
            "trainer.progress",
        ):
            yield name, value
