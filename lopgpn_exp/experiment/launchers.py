"""Hydra's side of a sweep: expand, compose, hand over. `hydra/launcher=local|joblib|slurm`."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from itertools import product
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, flag_override

from lopgpn_exp.errors import mistakes_told
from lopgpn_exp.experiment.jobs import Attempt, Job

FAILED = 1
# Axes that a bare -m adds by itself, and the config value that says how many steps each has for this dataset and model.
AXES = {"split.index": "split.count", "init": "model.inits"}


class ProtocolSweeper(Sweeper):
    """Every combination of the axes: those of `params` unless the command line names them, then those it names."""

    def __init__(self, params: Mapping[str, Any] | None = None) -> None:
        self.params = params or {}

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.parser = OverridesParser.create(config_loader=hydra_context.config_loader)
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> None:
        axes: dict[str, list[str]] = {}
        for override in self.parser.parse_overrides(
            [f"{key}={value}" for key, value in self.params.items()] + arguments
        ):
            key = override.get_key_element()
            swept = override.is_sweep_override() and override.is_discrete_sweep()
            values = override.sweep_string_iterator() if swept else [override.get_value_element_as_str()]
            axes[key] = [f"{key}={value}" for value in values]
        self.launcher.launch(list(product(*axes.values())), initial_job_idx=0)


class LocalLauncher(Launcher):
    """One run after the other. A run that fails is recorded and the others go on; what is finished is not run again."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.hydra_context, self.config = hydra_context, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        setup_globals()
        with mistakes_told():
            attempts = self._sweep(job_overrides)
        if any(a.error is not None for a in attempts):
            sys.exit(FAILED)
        return []

    def attempts(self, groups: list[list[Job]]) -> Iterable[list[Attempt]]:
        """Carry out groups of jobs that share a training; yields what became of them as they finish."""
        from lopgpn_exp.experiment.sweep import attempt

        for group in groups:
            for job in group:
                yield attempt([job])

    def _sweep(self, job_overrides: Sequence[Sequence[str]]) -> list[Attempt]:
        configs = self._configs(job_overrides)

        from lopgpn_exp.experiment.conduct import conduct  # torch and pandas: a mistake found above does without

        return conduct(configs, self.attempts, self.config)

    def _configs(self, job_overrides: Sequence[Sequence[str]]) -> list[DictConfig]:
        """The config of each job. Split and init are only set, not composed again: composing takes a quarter second."""
        parser = OverridesParser.create(config_loader=self.hydra_context.config_loader)
        named = {o.key_or_group for o in parser.parse_overrides(list(self.config.hydra.overrides.task))}
        composed: dict[tuple[str, ...], DictConfig] = {}
        configs = []
        for overrides in job_overrides:
            steps = {key: int(value) for key, _, value in (o.partition("=") for o in overrides) if key in AXES}
            rest = tuple(o for o in overrides if o.partition("=")[0] not in AXES)
            if rest not in composed:
                composed[rest] = _job_config(
                    self.hydra_context.config_loader.load_sweep_config(self.config, list(rest))
                )
            config = deepcopy(composed[rest])
            limits = {key: OmegaConf.select(config, AXES[key]) for key in steps if key not in named}
            if any(limit is not None and steps[key] >= limit for key, limit in limits.items()):
                continue  # a dataset with one split, a model without randomness: the axis has fewer steps here
            for key, value in steps.items():
                OmegaConf.update(config, key, value)
            configs.append(config)
        return configs


class JoblibLauncher(LocalLauncher):
    """Several runs at once on this machine. Workers import once, write files only, and the controller tracks."""

    def __init__(self, n_jobs: int = -1) -> None:
        self.n_jobs = n_jobs

    def attempts(self, groups: list[list[Job]]) -> Iterable[list[Attempt]]:
        from joblib import Parallel, delayed

        from lopgpn_exp.experiment.sweep import attempt

        # loky replaces a worker that has grown by 300 MB, for which a larger dataset is enough; no run is lost by it.
        warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given to the executor")
        # A sweep that is stopped says so itself.
        warnings.filterwarnings("ignore", message=r"\d+ tasks which were still being processed by the workers")
        parallel = Parallel(
            n_jobs=self.n_jobs, backend="loky", return_as="generator_unordered", pre_dispatch="2*n_jobs"
        )
        return parallel(delayed(attempt)(group) for group in groups)


def _job_config(sweep_config: DictConfig) -> DictConfig:
    """Without Hydra's own node, which a run does not need."""
    with flag_override(sweep_config, ["struct", "readonly"], [False, False]):
        sweep_config.pop("hydra")
    return sweep_config


def register(*plugins: type) -> None:
    """Hydra takes plugins by a name in the package hydra_plugins alone; ours are entered under such names."""
    for plugin in plugins:
        Plugins.instance().class_name_to_class[f"hydra_plugins.lopgpn_exp.{plugin.__name__}"] = plugin
