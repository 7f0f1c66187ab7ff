"""A finished run opened again: its model, its graph, and what it said of every node."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from omegaconf import OmegaConf

from lopgpn_exp.errors import InputError
from lopgpn_exp.experiment.build import Plan, plan
from lopgpn_exp.experiment.results import LEGEND, read_result
from lopgpn_exp.experiment.schema import Stage

if TYPE_CHECKING:  # a run that cannot be opened is said without torch
    import pandas as pd

    from lopgpn_exp.graph import Graph, Legend
    from lopgpn_exp.models import Model
    from lopgpn_exp.posterior import Posterior


@dataclass(frozen=True)
class Finished:
    """A run folder. Its data is read, and its model applied, only when asked for."""

    folder: Path
    result: dict[str, Any]
    config: dict[str, Any]

    @property
    def title(self) -> str:
        return f"{self.result['model']} · {self.result['dataset']} · split {self.result['split']} · {self.scenario}"

    @property
    def scenario(self) -> str:
        return self.result["scenario"]

    @property
    def cache_dir(self) -> Path:
        """That of the output folder in which the run lies."""
        return self.folder.parent.parent / "cache"

    @cached_property
    def plan(self) -> Plan:
        return plan(OmegaConf.create(self.config | {"output_dir": str(self.folder.parent.parent)}))

    @cached_property
    def _module(self) -> Any:
        from lopgpn_exp.experiment.checkpoint import open_checkpoint

        return open_checkpoint(self.folder / "model.ckpt", hint="the same command that made the run, with force=true")

    @cached_property
    def model(self) -> Model:
        """As it was trained: with the code that it was trained with, and on as many threads."""
        import torch

        before, now = (config["model"].get("code_hash") for config in (self.config, self.plan.resolved))
        if before != now:
            raise InputError(
                f"the code of {self.config['model']['_target_']} is not what it was when {self.folder.name} was made",
                expected="the same code, or a run with the new one",
                hint="the same command that made the run",
            )
        torch.set_num_threads(self.config["trainer"]["threads"])  # limits are compared to the last bit
        return self._module.model.eval()

    @property
    def num_features(self) -> int:
        return self._module.hparams["model_options"]["num_features"]

    @property
    def num_classes(self) -> int:
        """Those that the model knows: a scenario may have left some out."""
        return self._module.hparams["model_options"]["num_classes"]

    @cached_property
    def graph(self) -> Graph:
        """The graph that the run evaluated, its scenario applied; the data must still be what it was."""
        otherwise = f"python -m lopgpn_exp.predict {self.folder.name} --graph FILE, where the data is elsewhere now"
        try:
            clean = self.plan.load()
        except InputError as error:
            raise InputError(
                f"the data of {self.folder.name} cannot be read again: {error.what}",
                expected=error.expected,
                hint=otherwise,
            ) from None
        trained_on = self.plan.scenario_transform(clean) if self.plan.stage is Stage.training else clean
        if trained_on.fingerprint != self._module.hparams["trained_on"]:
            raise InputError(
                f"the data of {self.folder.name} is not what it was when the run was made",
                expected="the same file, or the changed one named as such",
                hint=otherwise,
            )
        return self.plan.scenario_transform(clean) if self.plan.stage is Stage.evaluation else trained_on

    @cached_property
    def posterior(self) -> Posterior:
        """Of every node of `graph`."""
        return self.model.predict(self.graph, cache_dir=self.cache_dir)

    @cached_property
    def predictions(self) -> pd.DataFrame:
        """The run's own table of nodes."""
        import pandas as pd

        path = self.folder / "predictions.parquet"
        try:
            return pd.read_parquet(path)
        except (OSError, ValueError) as error:
            raise _damaged(path, error) from None

    @cached_property
    def legend(self) -> Legend | None:
        """The user's own names, where the data came with any."""
        from lopgpn_exp.graph import Legend

        path = self.folder / LEGEND
        if not path.is_file():
            return None
        try:
            return Legend.from_json(json.loads(path.read_text()))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise _damaged(path, error) from None


def open_run(folder: Path) -> Finished:
    """The run of a folder, if it is one and can be read."""
    folder = folder.resolve()
    result = read_result(folder)
    path = folder / "config.yaml"
    try:
        config = yaml.safe_load(path.read_text())
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise _damaged(path, error) from None
    if not isinstance(config, dict):
        raise _damaged(path, ValueError("not a config"))
    return Finished(folder, result, config)


def _damaged(path: Path, error: Exception) -> InputError:
    return InputError(
        f"{path} cannot be read ({type(error).__name__}: {str(error)[:200]})",
        expected="what a finished run leaves behind",
        hint="the same command that made the run, with force=true",
    )
