"""Hydra plugins for sweeps: the sweeper expands the axes, a launcher (local, joblib or slurm) executes the jobs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, product
from math import prod
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, ValueType
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, setup_globals
from hydra.errors import HydraException
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, flag_override

from lopgpn_exp.config.compose import resolve
from lopgpn_exp.config.limits import check_scenario
from lopgpn_exp.config.plan import config_hints
from lopgpn_exp.errors import FailedRunsError, InputError
from lopgpn_exp.records import Attempt, Job

# Axes that -m adds by itself, and the config value that limits each of them for this dataset and model.
AXES = {"split.index": ("split", "count"), "init": ("model", "inits")}

MAX_PROCESSES = 1024  # all are started at once
MAX_RUNS = 100_000  # they are planned before anything runs
SHARED_KEYS = re.compile(r"output_dir|dry_run|tracking(\..*)?|hydra[./].*")  # one value for all runs of a sweep


class ProtocolSweeper(Sweeper):
    """Runs every combination of the axes: those of the command line, and those of a protocol that it does not set.

    Args:
        params: the values of each axis.
        evaluations: overrides, one group of axes per line. Each line is combined with all other axes. They are not used
            if the command line names a scenario; a line that sets a group which the command line names is left out.
    """

    def __init__(self, params: Any = None, evaluations: Any = None) -> None:
        self.params, self.evaluations = params or {}, evaluations or []
        _check_protocol(self.params, self.evaluations)

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.parser = OverridesParser.create(config_loader=hydra_context.config_loader)
        self.launcher: Launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> None:
        given = self._expand(arguments)
        axes = self._expand([f"{key}={value}" for key, value in self.params.items()]) | given
        evaluations = [] if "ood" in given else [self._expand(line.split()) for line in self.evaluations]
        grids = [axes | evaluation for evaluation in evaluations if not evaluation.keys() & given.keys()] or [axes]
        if (num_runs := sum(prod(map(len, grid.values())) for grid in grids)) > MAX_RUNS:
            raise InputError(f"the sweep has {num_runs:,} runs or more", expected=f"at most {MAX_RUNS:,}")
        self.launcher.launch([job for grid in grids for job in product(*grid.values())], initial_job_idx=0)

    def _expand(self, overrides: list[str]) -> dict[str, list[str]]:
        """Return the values of each key as overrides; those of the last override if a key has several."""
        axes = {}
        for override in self.parser.parse_overrides(overrides):
            key = override.get_key_element()
            axes[key] = [f"{key}={value}" for value in _list_values(override)]
            _check_axis(key, axes[key], override.input_line)
        return axes


class LocalLauncher(Launcher):
    """Runs one job after the other. A failed job does not stop the others, and finished runs are not repeated."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.config_loader, self.config = hydra_context.config_loader, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        setup_globals()
        configs = self._compose(job_overrides)
        if not configs:
            expected = "at least one value on every axis, and a scenario that the dataset has"
            raise InputError("the sweep has no runs", expected=expected)

        from lopgpn_exp.sweeps.run_sweep import run_sweep  # deferred import: a typo is reported without torch

        if any(attempt.has_failed for attempt in run_sweep(configs, self.execute)):
            raise FailedRunsError
        return []

    def execute(self, groups: list[list[Job]]) -> Iterable[list[Attempt]]:
        from lopgpn_exp.sweeps.executors import execute_serially

        return execute_serially(groups)

    def _compose(self, job_overrides: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
        """Return one config per job. Split and init are set afterwards, since composing takes a quarter of a second."""
        parser = OverridesParser.create(config_loader=self.config_loader)
        given = parser.parse_overrides(list(self.config.hydra.overrides.task))
        named = {o.key_or_group for o in given if o.value_type is not ValueType.GLOB_CHOICE_SWEEP}
        cache: dict[tuple[str, ...], DictConfig] = {}
        configs = []
        for overrides in job_overrides:
            pairs = (override.partition("=") for override in overrides)
            steps = {key: _parse_step(key, value) for key, _, value in pairs if key in AXES}
            rest = tuple(o for o in overrides if o.partition("=")[0] not in AXES)
            if rest not in cache:
                cache[rest] = _drop_hydra(self.config_loader.load_sweep_config(self.config, list(rest)))
            nodes = cache[rest]
            if any(_is_beyond_limit(nodes, key, step) for key, step in steps.items() if key not in named):
                continue  # a dataset with one split, or a model without randomness: the axis is shorter here
            for key, step in steps.items():
                OmegaConf.update(nodes, key, step)
            config = resolve(nodes)  # only now, since values may refer to the split or the init
            if "ood" in named or _has_scenario(config):  # a protocol, or glob(*), asks for all that there are
                configs.append(config)
        return configs


class JoblibLauncher(LocalLauncher):
    """Runs several jobs at once on this machine."""

    def __init__(self, n_jobs: object = -1) -> None:
        if not isinstance(n_jobs, int) or n_jobs == 0 or n_jobs > MAX_PROCESSES:
            expected = f"a number of processes, at most {MAX_PROCESSES:,}; -1: one per core"
            raise InputError(f"n_jobs is {n_jobs!r}", expected=expected, hint="hydra.launcher.n_jobs=-1")
        self.n_jobs = n_jobs

    def execute(self, groups: list[list[Job]]) -> Iterable[list[Attempt]]:
        from lopgpn_exp.sweeps.executors import execute_in_parallel

        return execute_in_parallel(groups, num_workers=self.n_jobs)


class SlurmLauncher(LocalLauncher):
    """Runs array jobs on a Slurm cluster; the options are those of `slurm.SlurmOptions`."""

    def __init__(self, **options: Any) -> None:
        from lopgpn_exp.sweeps.slurm import SlurmOptions

        with config_hints("hydra.launcher"):
            self.options = SlurmOptions(**options)

    def execute(self, groups: list[list[Job]]) -> Iterable[list[Attempt]]:
        from lopgpn_exp.sweeps.slurm import execute_on_slurm

        return execute_on_slurm(groups, self.options, output_dir=self.config.output_dir)


def register_plugins() -> None:
    """Register sweeper and launchers. Hydra accepts plugins only under names in the package `hydra_plugins`."""
    for plugin in (ProtocolSweeper, LocalLauncher, JoblibLauncher, SlurmLauncher):
        Plugins.instance().class_name_to_class[f"hydra_plugins.lopgpn_exp.{plugin.__name__}"] = plugin


def _check_protocol(params: Any, evaluations: Any) -> None:
    if not isinstance(params, Mapping):
        raise InputError(
            "hydra.sweeper.params is not a mapping", expected="axes and their values, such as split.index: range(3)"
        )
    is_list = isinstance(evaluations, Sequence) and not isinstance(evaluations, str)
    if not is_list or not all(isinstance(line, str) for line in evaluations):
        raise InputError(
            "hydra.sweeper.evaluations is not a list of lines", expected="overrides, such as - ood=none,near_features"
        )


def _list_values(override: Override) -> list[str]:
    """Return the values of an override; no more of them than are needed to refuse the sweep."""
    if not override.is_sweep_override():
        return [override.get_value_element_as_str()]
    if not override.is_discrete_sweep():
        expected = "single values, or lopgpn_exp tune to search a range"
        raise InputError(f"{override.get_key_element()} is a range", expected=expected)
    try:
        return list(islice(override.sweep_string_iterator(), MAX_RUNS + 1))
    except (HydraException, ValueError, ArithmeticError):  # NaN, or a step of 0
        expected = "range(start, stop, step) with finite numbers and a step other than 0"
        raise InputError(f"{override.input_line} is not a valid range", expected=expected) from None


def _check_axis(key: str, values: Sequence[str], override: str | None) -> None:
    if not values:
        limits = {"split.index": "split.count is its number of values", "init": "inits is its number of values"}
        raise InputError(
            f"the sweep has no runs: {override} has no values",
            expected="at least one value on every axis" + (f"; {limits[key]}" if key in limits else ""),
        )
    if len(values) > 1 and SHARED_KEYS.fullmatch(key):
        raise InputError(
            f"{key} has {len(values)} values",
            expected="one for all runs of a sweep; a value with a comma in quotes",
            hint=f"\"{key}='VALUE'\"",
        )


def _drop_hydra(sweep_config: DictConfig) -> DictConfig:
    """Return the config without Hydra's own node."""
    with flag_override(sweep_config, ["struct", "readonly"], [False, False]):
        sweep_config.pop("hydra")
    return sweep_config


def _parse_step(key: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise InputError(f"{key} is {value!r}", expected="a whole number", hint=f"{key}=0") from None


def _has_scenario(config: Mapping[str, Any]) -> bool:
    """Return whether the dataset and the split have the scenario that a protocol asks for."""
    try:
        check_scenario(config)
    except InputError:
        return False
    return True


def _is_beyond_limit(config: DictConfig, axis: str, step: int) -> bool:
    limit = OmegaConf.select(config, ".".join(AXES[axis]))
    return limit is not None and step >= limit
