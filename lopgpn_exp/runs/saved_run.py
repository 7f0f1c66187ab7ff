"""A finished run, opened again: its model, its graph and its table of nodes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lopgpn_exp.config.plan import RunGraphs, RunPlan, plan_run
from lopgpn_exp.errors import InputError
from lopgpn_exp.records import RunResult
from lopgpn_exp.runs.run_folder import LEGEND_FILE, damaged_file, read_config, read_result

if TYPE_CHECKING:  # opening a run needs no torch until its model or graph is used
    import pandas as pd

    from lopgpn_exp.graph import Graph, Legend
    from lopgpn_exp.models import Model
    from lopgpn_exp.posterior import Posterior


@dataclass(frozen=True)
class SavedRun:
    """A run folder. Everything but its result is read when it is first used."""

    folder: Path
    result: RunResult

    @classmethod
    def open(cls, folder: Path) -> SavedRun:
        folder = folder.resolve()
        return cls(folder, read_result(folder))

    @property
    def output_dir(self) -> Path:
        return self.folder.parent.parent

    @cached_property
    def config(self) -> dict[str, Any]:
        return read_config(self.folder)

    @cached_property
    def plan(self) -> RunPlan:
        return plan_run(self.config | {"output_dir": str(self.output_dir)})

    @cached_property
    def _module(self) -> Any:
        from lopgpn_exp.runs.checkpoint import open_checkpoint  # deferred import: needs torch and Lightning

        return open_checkpoint(self.folder / "model.ckpt", hint="the command that made the run, with force=true")

    @cached_property
    def model(self) -> Model:
        """The trained model, after checking that its code has not changed. Sets the number of threads it needs."""
        import torch

        before, now = (config["model"].get("code_hash") for config in (self.config, self.plan.config))
        if before != now:
            raise InputError(
                f"the code of {self.config['model']['_target_']} has changed since {self.folder.name} was made",
                expected="the same code, or a run with the new one",
                hint="repeat the command that made the run",
            )
        torch.set_num_threads(self.plan.trainer.threads)  # limits of trust are compared to the last bit
        return self._module.model.eval()

    @property
    def num_features(self) -> int:
        return self._module.hparams["model_options"]["num_features"]

    @property
    def num_classes(self) -> int:
        """The number of classes that the model was trained on; a scenario may have left some out."""
        return self._module.hparams["model_options"]["num_classes"]

    @cached_property
    def graphs(self) -> RunGraphs:
        """The graphs of the run, after checking that its data has not changed."""
        plan = self.plan
        try:
            graphs = plan.load_graphs()
        except InputError as error:
            raise InputError(
                f"the data of {self.folder.name} cannot be read again: {error.what}",
                expected=error.expected,
                parameter="graph",
            ) from None
        if graphs.training.fingerprint != self._module.hparams["trained_on"]:
            raise InputError(
                f"the data of {self.folder.name} has changed since the run was made",
                expected="the same data, or the changed file given explicitly",
                parameter="graph",
            )
        return graphs

    @property
    def graph(self) -> Graph:
        """The graph that the run was evaluated on."""
        return self.graphs.evaluation

    @cached_property
    def posterior(self) -> Posterior:
        """The posterior of every node of `graph`."""
        return self.predict(self.graph)

    def predict(self, graph: Graph) -> Posterior:
        """Apply the model to any graph with the same features."""
        return self.model.predict(graph, cache_dir=self.plan.cache_dir)

    @cached_property
    def predictions(self) -> pd.DataFrame:
        """The run's own table of nodes."""
        import pandas as pd

        path = self.folder / "predictions.parquet"
        try:
            return pd.read_parquet(path)
        except (OSError, ValueError) as error:
            raise damaged_file(path, error) from None

    @cached_property
    def legend(self) -> Legend | None:
        """The user's names for nodes, classes and features, if the data had any."""
        from lopgpn_exp.graph import Legend

        path = self.folder / LEGEND_FILE
        if not path.is_file():
            return None
        try:
            return Legend.from_json(json.loads(path.read_text()))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise damaged_file(path, error) from None
