"""Hydra's side of a sweep: expand, plan, run what is missing, track, report. `hydra/launcher=local|joblib|slurm`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from itertools import product
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, flag_override

from lopgpn_exp.errors import InputError
from lopgpn_exp.experiment.collect import load_curves, load_results
from lopgpn_exp.experiment.sweep import Attempt, Job, attempt, shared_trainings, survey
from lopgpn_exp.experiment.tracking import Tracker
from lopgpn_exp.report.sweep import SweepBar, show_outcome, show_plan

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
        try:
            attempts = self._sweep(job_overrides)
        except InputError as error:
            sys.stderr.write(f"\nlopgpn_exp: {error}\n")
            sys.exit(2)
        if any(a.error is not None for a in attempts):
            sys.exit(FAILED)
        return []

    def attempts(self, groups: list[list[Job]]) -> Iterable[list[Attempt]]:
        """Carry out groups of jobs that share a training; yields what became of them as they finish."""
        for group in groups:
            for job in group:
                yield attempt([job])

    def _sweep(self, job_overrides: Sequence[Sequence[str]]) -> list[Attempt]:
        output_dir = Path(self.config.output_dir)
        tracker = None
        if self.config.tracking.enabled and not self.config.dry_run:
            tracker = Tracker(self.config.tracking.uri, self.config.tracking.experiment, output_dir)
        jobs, attempts = survey(self._configs(job_overrides))
        todo = [job for job in jobs if not job.done]
        groups = shared_trainings(todo)
        show_plan(jobs, attempts, trainings=len(groups), history=load_results(output_dir))
        if self.config.dry_run:
            return []
        if tracker:
            tracker.open_sweep([job.run_id for job in jobs], name=_sweep_name(jobs))
            for job in jobs:
                if job.done:
                    tracker.add(job.folder, job.config, job.title)
        with SweepBar(len(todo)) as bar:
            for finished in self.attempts(groups):
                attempts += finished
                bar.advance(finished)
                for each in finished if tracker else []:
                    tracker.add_attempt(each)
        run_ids = {job.run_id for job in jobs}
        results = load_results(output_dir, run_ids=run_ids)
        if tracker:
            tracker.close_sweep(results, load_curves(output_dir, run_ids=run_ids))
        show_outcome(results, attempts, tracker.uri if tracker else None)
        return attempts

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


def _sweep_name(jobs: Sequence[Job]) -> str:
    models, datasets = (sorted({job.kind[i] for job in jobs}) for i in (0, 1))
    return f"sweep · {', '.join(models)} · {', '.join(datasets)} · {len(jobs)} runs"
