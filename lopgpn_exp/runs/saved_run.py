"""A finished run, opened again: its model, its graph and its table of nodes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lopgpn_exp.config.foreign_code import check_code, find_foreign_targets
from lopgpn_exp.config.plan import RunGraphs, RunPlan, plan_run
from lopgpn_exp.errors import InputError
from lopgpn_exp.records import RunResult
from lopgpn_exp.runs.checksums import has_checksums, read_checksums, read_verified
from lopgpn_exp.runs.run_folder import LEGEND_FILE, damaged_file, read_config, read_result, repair_hint
from lopgpn_exp.runs.storage import read_json
from lopgpn_exp.threads import set_threads

if TYPE_CHECKING:  # opening a run needs no torch until its model or graph is used
    import pandas as pd

    from lopgpn_exp.graph import Graph, Legend
    from lopgpn_exp.models import Model
    from lopgpn_exp.models.checkpoint_file import Checkpoint
    from lopgpn_exp.posterior import Posterior


@dataclass(frozen=True)
class SavedRun:
    """A run folder. Everything but its result is read when it is first used.

    Args:
        is_trusted: whether the code that the run names may be imported, if it is not part of this package.
    """

    folder: Path
    result: RunResult
    is_trusted: bool = False

    @classmethod
    def open(cls, folder: Path, *, is_trusted: bool = False) -> SavedRun:
        folder = folder.resolve()
        return cls(folder, read_result(folder), is_trusted)

    @property
    def output_dir(self) -> Path:
        return self.folder.parent.parent

    @cached_property
    def config(self) -> dict[str, Any]:
        return read_config(self.folder)

    @property
    def declared_measures(self) -> dict[str, str]:
        """The measures that the model declares by role; runs from before models declared any have none."""
        declared = self.config["model"].get("measures") or {}
        return {role: name for role, name in declared.items() if name in self.predictions}

    @cached_property
    def plan(self) -> RunPlan:
        """The plan of the run. Code outside of this package is imported only if the run is trusted and unchanged."""
        foreign = find_foreign_targets(self.config)
        if foreign and not self.is_trusted:
            names = ", ".join(f"{target} ({group})" for group, target in foreign.items())
            raise InputError(
                f"the run {self.folder.name} uses code that is not part of lopgpn_exp: {names}",
                expected="your consent to import it, which runs that code",
                parameter="trust",
            )
        for group in foreign:
            check_code(self.config, group)
        root = self.config["data_root"]  # of another machine, perhaps: no folder is made there
        places = {"output_dir": str(self.output_dir), "data_root": root if root and Path(root).is_dir() else None}
        return plan_run(self.config | places)

    @cached_property
    def _checkpoint(self) -> Checkpoint:
        from lopgpn_exp.runs.checkpoint import open_checkpoint  # deferred import: needs torch

        return open_checkpoint(self.folder / "model.ckpt", self.plan, get_hint=self._repair_hint)

    @cached_property
    def model(self) -> Model:
        """The trained model. Sets the number of threads that it needs."""
        from lopgpn_exp.runs.checkpoint import build_planned_model

        set_threads(self.plan.trainer.threads)  # limits of trust are compared to the last bit
        path = self.folder / "model.ckpt"
        return build_planned_model(path, self._checkpoint, self.plan, get_hint=self._repair_hint)

    def _repair_hint(self) -> str:
        return repair_hint(self.folder)

    @property
    def num_features(self) -> int:
        return self._checkpoint.model_options["num_features"]

    @property
    def num_classes(self) -> int:
        """The number of classes that the model was trained on; a scenario may have left some out."""
        return self._checkpoint.model_options["num_classes"]

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
        if graphs.training.fingerprint != self._checkpoint.trained_on:
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
        model = self.model.for_graph(self.graph, seed=self.plan.seed, cache_dir=self.plan.cache_dir)
        return model.predict(self.graph, cache_dir=self.plan.cache_dir)

    def predict(self, graph: Graph) -> Posterior:
        """Apply the model to any graph with the same features."""
        return self.model.predict(graph, cache_dir=self.plan.cache_dir)

    @cached_property
    def predictions(self) -> pd.DataFrame:
        """The run's own table of nodes."""
        import pandas as pd

        from lopgpn_exp.evaluation.node_table import check_node_table

        path = self.folder / "predictions.parquet"
        try:
            table = pd.read_parquet(BytesIO(read_verified(path)))
            check_node_table(table)
        except Exception as error:  # pyarrow raises many kinds of errors
            raise damaged_file(path, error) from None
        return table

    @cached_property
    def legend(self) -> Legend | None:
        """The user's names for nodes, classes and features, if the data had any."""
        from lopgpn_exp.graph import Legend

        path = self.folder / LEGEND_FILE
        try:
            is_lost = has_checksums(self.folder) and LEGEND_FILE in read_checksums(self.folder)
            if not path.is_file() and not is_lost:
                return None
            return Legend.from_json(read_json(path))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise damaged_file(path, error) from None
