"""The configs of all runs of a protocol, as `lopgpn_exp protocol=NAME -m` would compose them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from functools import cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import OmegaConf

from lopgpn_exp.benchmark import BenchmarkOptions
from lopgpn_exp.config import default_config_dir
from lopgpn_exp.config.compose import compose_nodes, resolve
from lopgpn_exp.config.limits import check_scenario, scenario_name
from lopgpn_exp.errors import InputError

if TYPE_CHECKING:
    from omegaconf import DictConfig

CHANGED_GROUPS = ("ood", "split")  # those that the evaluations of a protocol may set


def compose_protocol(options: BenchmarkOptions) -> list[dict[str, Any]]:
    """Return one config per run, dataset by dataset.

    Scenarios that a dataset does not have, such as its fourth set of left-out classes, are left out. Models without
    randomness have one initialisation.
    """
    settings = [f"output_dir={options.output_dir}", f"dry_run={str(options.dry_run).lower()}"]
    settings += [] if options.is_tracked else ["tracking=none"]
    evaluations = list(list_evaluations(options.protocol))
    configs = []
    for dataset, model in product(options.datasets, options.models):
        overrides = [f"protocol={options.protocol}", f"model={model}", f"dataset={dataset}", *settings]
        base = compose_nodes(overrides, config_dir=options.config_dir)
        inits = min(options.inits, base.model.inits or options.inits)
        for split, init, evaluation in product(range(options.splits), range(inits), evaluations):
            config = _resolve(base, evaluation, protocol=options.protocol, split=split, init=init)
            if _has_scenario(config):
                configs.append(config)
    return configs


@cache
def list_scenarios(protocol: str, dataset: str) -> tuple[str, ...]:
    """Return the scenarios of a protocol that a dataset has, by their names in results."""
    options = BenchmarkOptions(protocol, ("gcn",), (dataset,), 1, 1, num_workers=1, output_dir=Path("outputs"))
    return tuple(scenario_name(config) for config in compose_protocol(options))


@cache
def list_evaluations(protocol: str) -> tuple[tuple[str, ...], ...]:
    """Return the overrides of each evaluation of a protocol: `("ood=dice", "ood.budget=0.1")`."""
    file = default_config_dir() / "protocol" / f"{protocol}.yaml"
    lines = OmegaConf.load(file).hydra.sweeper.evaluations
    return tuple(evaluation for line in lines for evaluation in _expand(line.split()))


def _expand(overrides: Sequence[str]) -> Iterator[tuple[str, ...]]:
    axes = []
    for override in overrides:
        key, _, values = override.partition("=")
        axes.append([f"{key}={value}" for value in values.split(",")])
    return product(*axes)


def _resolve(base: DictConfig, evaluation: tuple[str, ...], *, protocol: str, split: int, init: int) -> dict[str, Any]:
    """Return the config of one run. Composing it from scratch would take a quarter of a second."""
    config, changed = deepcopy(base), _compose_evaluation(protocol, evaluation)
    for group in CHANGED_GROUPS:
        if any(override.partition("=")[0] == group for override in evaluation):
            config[group] = changed[group]
    config.split.index, config.init = split, init
    return resolve(config)


@cache
def _compose_evaluation(protocol: str, evaluation: tuple[str, ...]) -> DictConfig:
    return compose_nodes([f"protocol={protocol}", *evaluation])


def _has_scenario(config: dict[str, Any]) -> bool:
    try:
        check_scenario(config)
    except InputError:
        return False
    return True
