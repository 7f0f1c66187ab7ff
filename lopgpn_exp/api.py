"""The same experiments from Python: no config files, no command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch

from lopgpn_exp.cli import composed
from lopgpn_exp.data.custom.pyg_file import raw_of_data
from lopgpn_exp.data.custom.read import graph_like, graph_of
from lopgpn_exp.data.custom.scaling import Scaling
from lopgpn_exp.data.custom.survey import survey
from lopgpn_exp.data.custom.tables import TABLES
from lopgpn_exp.errors import InputError
from lopgpn_exp.evaluation import Evaluation, evaluate, predictions
from lopgpn_exp.evaluation.explanation import Explanation, explain
from lopgpn_exp.evaluation.flags import Limits
from lopgpn_exp.experiment.build import Plan, plan
from lopgpn_exp.experiment.prediction import node_number, node_table, validation_limits
from lopgpn_exp.experiment.runner import fitted
from lopgpn_exp.experiment.schema import Stage
from lopgpn_exp.graph import Graph, Legend, Part
from lopgpn_exp.models import Model
from lopgpn_exp.posterior import Posterior

if TYPE_CHECKING:
    from torch_geometric.data import Data

SUFFIXES = (".pt", ".pth", ".npz", *TABLES)


def as_graph(data: Data | Graph, *, scaling: Scaling = "none", num_classes: int | None = None) -> Graph:
    """A PyG `Data` as the graph that every model here takes: `model.predict(as_graph(data))`.

    Args:
        data: with `x`, `edge_index`, and where there are `y` (-1: unknown), masks, `node_id` and `class_names`.
        scaling: see `custom_graph`.
        num_classes: of a trained model: `y` then holds its classes, from 0 on, and may be missing.
    """
    if isinstance(data, Graph):
        return data
    raw = raw_of_data(data)
    if num_classes is not None:
        if scaling != "none":
            raise InputError(f"scaling is {scaling!r} and num_classes {num_classes}", expected="one of both")
        classes = tuple(map(str, range(num_classes)))
        return graph_like(raw, Legend(raw.ids, classes, raw.feature_names), num_classes=num_classes)[0]
    graph = graph_of(raw, scaling=scaling)
    return graph if graph.official_part is None else graph.replace(part=graph.official_part)


class Experiment:
    """One model on one split of one dataset, trained once and asked as often as you like.

    >>> experiment = Experiment(model="lop_gpn", dataset="digits").fit()
    >>> experiment.evaluate(scenario="gaussian").metrics["ood/auroc/eu_so"]
    >>> experiment.predict()  # a row a node: class, probabilities, measures, flag

    Nothing is written; `python -m lopgpn_exp` with the same words gives the same numbers and keeps them.

    Args:
        model: a name of `conf/model`.
        dataset: a name of `conf/dataset`, the path of a file of your own (see `custom_graph`), a PyG `Data`, or a
            `Graph`. A graph that has a split keeps it.
        split, init: which split and which random initialisation.
        settings: any other value of the config by its name: `{"model.teleport": 0.2, "dataset.edges": "edges.csv"}`.
        progress: show a line while training.
        config_dir: your own folder of configs, as `--config-dir`.
    """

    def __init__(
        self,
        *,
        model: str = "lop_gpn",
        dataset: str | Path | Data | Graph = "digits",
        split: int = 0,
        init: int = 0,
        settings: Mapping[str, Any] | None = None,
        progress: bool = False,
        config_dir: str | Path | None = None,
    ) -> None:
        self._settings = {
            "trainer.progress": progress,
            "split.index": split,
            "init": init,
            **{key: str(v) if isinstance(v, Path) else v for key, v in (settings or {}).items()},
        }
        self._own = None if config_dir is None else Path(config_dir)
        self._given = None if isinstance(dataset, str | Path) else dataset
        name = str(dataset) if isinstance(dataset, str | Path) else ""
        if self._given is not None or isinstance(dataset, Path) or name.endswith(SUFFIXES) or "/" in name:
            self._settings = {**({"dataset.path": name} if name else {}), **self._settings}
            name = "custom"
        self._words = [f"model={model}", f"dataset={name}"]
        self._plans: dict[str, Plan] = {}
        self._models: dict[str, Model] = {}  # by the scenario that needed its own training; else "none"
        self._graph: Graph | None = None
        self._plan("none")  # a mistake is told now

    @property
    def graph(self) -> Graph:
        """The clean graph with its split."""
        if self._graph is None:
            planned = self._plan("none")
            if self._given is None:
                self._graph = planned.load()
            else:
                given = as_graph(self._given, scaling=planned.resolved["dataset"]["scaling"])
                self._graph = given if bool((given.part != Part.NONE).any()) else planned.split_graph(given)
        return self._graph

    @property
    def model(self) -> Model:
        """The trained model, a plain `torch.nn.Module`."""
        if "none" not in self._models:
            raise InputError("the experiment has no model yet", expected="training first", hint="Experiment(...).fit()")
        return self._models["none"]

    def survey(self) -> str:
        """What the data is, in words, with warnings of what the models will have trouble with."""
        return survey(self.graph, source=self._plan("none").dataset)

    def fit(self) -> Experiment:
        """Train on the clean graph."""
        self._models["none"] = self._trained("none")
        return self

    def evaluate(self, scenario: str = "none") -> Evaluation:
        """Metrics, curves and the table of nodes in a scenario of `conf/ood`; one that leaves out classes trains a
        model of its own, once."""
        planned = self._plan(scenario)
        if planned.stage is Stage.training and scenario not in self._models:
            self._models[scenario] = self._trained(scenario)
        graph = self.graph if planned.stage is Stage.none else planned.scenario_transform(self.graph)
        model = self._models[scenario] if planned.stage is Stage.training else self.model
        with self._threads():
            return evaluate(model.predict(graph), graph)

    def posterior(self, graph: Data | Graph | None = None) -> Posterior:
        """The second-order distribution of every node: `.mean`, `.measures`, `.eu()`, `.alpha` and so on."""
        with self._threads():
            return self.model.predict(self._other(graph))

    def limits(self, *, accuracy: float = 0.95, unknown: float = 0.05, epistemic: str | None = None) -> Limits:
        """Limits of trust, set on the validation nodes of the clean graph (see `python -m lopgpn_exp.predict`)."""
        return validation_limits(
            predictions(self.posterior(), self.graph), target=accuracy, unknown_share=unknown, epistemic=epistemic
        )

    def predict(self, graph: Data | Graph | None = None, *, limits: Limits | None = None) -> pd.DataFrame:
        """One row a node: `id, label, predicted, confidence`, a probability a class, the measures, `flag`.

        Args:
            graph: another version of the graph, its features on the scale of the first; None: the graph itself.
            limits: those of `self.limits(...)` with other wishes.
        """
        shown = self._other(graph)
        table = node_table(self.posterior(shown), shown)
        return table.assign(flag=(limits or self.limits()).flags(table))

    def explain(self, node: object) -> Explanation:
        """Whose opinions made a node, named by its id, as uncertain as it is."""
        number = node_number(self.graph, str(node))
        found = self.model.opinions(self.graph, number)
        return explain(
            self.graph,
            number,
            posterior=self.posterior(),
            weights=found.weights,
            alone=found.alone,
            pooled=found.pooled,
        )

    def _other(self, graph: Data | Graph | None) -> Graph:
        """A version of the graph, a `Data` understood as the first one was: same classes, same scale."""
        if graph is None:
            return self.graph
        legend = self.graph.legend
        if isinstance(graph, Graph) or legend is None:
            other = as_graph(graph, num_classes=self.graph.num_classes)
        else:
            other, _ = graph_like(raw_of_data(graph), legend, num_classes=self.graph.num_classes)
        if other.num_features != self.graph.num_features:
            raise InputError(
                f"the graph has {other.num_features} features",
                expected=f"{self.graph.num_features}, as the one trained on",
            )
        return other

    def _plan(self, scenario: str) -> Plan:
        if scenario not in self._plans:
            config = composed([*self._words, f"ood={scenario}"], own=self._own, values=self._settings)
            self._plans[scenario] = plan(config)
        return self._plans[scenario]

    def _trained(self, scenario: str) -> Model:
        planned = self._plan(scenario)
        graph = planned.scenario_transform(self.graph) if planned.stage is Stage.training else self.graph
        with self._threads():
            return fitted(planned, graph).module.model.eval()

    @contextmanager
    def _threads(self) -> Iterator[None]:
        """The config's number of threads, on which the last bits depend; the caller's is put back."""
        before = torch.get_num_threads()
        torch.set_num_threads(self._plan("none").trainer["threads"])
        try:
            yield
        finally:
            torch.set_num_threads(before)
