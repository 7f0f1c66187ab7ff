"""Experiments from Python, without config files and the command line."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from lopgpn_exp.config.compose import compose_config
from lopgpn_exp.config.plan import RunPlan, config_hints, plan_run
from lopgpn_exp.config.schema import Stage
from lopgpn_exp.data.files import SUFFIXES, build_graph, build_graph_like, describe_graph, parse_pyg_data
from lopgpn_exp.data.scaling import Scaling
from lopgpn_exp.errors import InputError
from lopgpn_exp.evaluation.acceptance import AcceptanceRule, fit_acceptance_rule
from lopgpn_exp.evaluation.evaluate import Evaluation, evaluate, tabulate_predictions
from lopgpn_exp.evaluation.explanation import Explanation, explain
from lopgpn_exp.evaluation.trust import Limits, fit_validation_limits
from lopgpn_exp.graph import Graph, Legend, Part
from lopgpn_exp.models import Model
from lopgpn_exp.posterior import Posterior
from lopgpn_exp.posthoc.coverage_sets import calibrate_sets
from lopgpn_exp.runs.execute import fit_model
from lopgpn_exp.runs.prediction import find_node, node_table
from lopgpn_exp.threads import limit_threads

if TYPE_CHECKING:
    from torch_geometric.data import Data


def as_graph(data: Data | Graph, *, scaling: Scaling = "none", num_classes: int | None = None) -> Graph:
    """Convert a PyG `Data` to the graph that every model takes: `model.predict(as_graph(data))`.

    Args:
        data: has `x` and `edge_index`, and optionally `y` (-1: unknown), masks, `node_id` and `class_names`.
        scaling: see `custom_graph`.
        num_classes: number of classes of a trained model; `y` then holds its classes, from 0 on, and may be missing.
    """
    if isinstance(data, Graph):
        return data
    raw = parse_pyg_data(data)
    if num_classes is not None:
        if scaling != "none":
            raise InputError(f"scaling is {scaling!r} and num_classes {num_classes}", expected="only one of them")
        classes = tuple(map(str, range(num_classes)))
        return build_graph_like(raw, Legend(raw.ids, classes, raw.feature_names), num_classes=num_classes)[0]
    graph = build_graph(raw, scaling=scaling)
    return graph if graph.official_part is None else graph.replace(part=graph.official_part)


class Experiment:
    """One model on one split of one dataset: train it once, then evaluate, predict and explain.

    >>> experiment = Experiment(model="lop_gpn", dataset="digits").fit()
    >>> experiment.evaluate(scenario="gaussian").metrics["ood/auroc/eu_so"]
    >>> experiment.predict()  # one row per node: class, probabilities, measures, flag

    Nothing is written to disk. `python -m lopgpn_exp` with the same settings gives the same numbers and keeps them.

    Args:
        model: a name in `conf/model`.
        dataset: a name in `conf/dataset`, the path of your own file (see `custom_graph`), a PyG `Data`, or a `Graph`.
            A graph that has a split keeps it.
        split, init: which split and which random initialisation.
        settings: any other config value by its key: `{"model.teleport": 0.2, "dataset.edges": "edges.csv"}`.
        progress: show a progress line while training.
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
        self._values = {
            "trainer.progress": progress,
            "split.index": split,
            "init": init,
            **{key: str(v) if isinstance(v, Path) else v for key, v in (settings or {}).items()},
        }
        self._config_dir = None if config_dir is None else Path(config_dir)
        self._given = None if isinstance(dataset, str | Path) else dataset
        name = str(dataset) if isinstance(dataset, str | Path) else ""
        if self._given is not None or isinstance(dataset, Path) or name.endswith(SUFFIXES) or "/" in name:
            self._values = {**({"dataset.path": name} if name else {}), **self._values}
            name = "custom"
        self._overrides = [f"model={model}", f"dataset={name}"]
        self._plans: dict[str, RunPlan] = {}
        self._models: dict[str, Model] = {}  # by scenario; those that do not change training share "none"
        self._graph: Graph | None = None
        self._plan("none")  # reports a mistake now

    @property
    def graph(self) -> Graph:
        """The clean graph with its split."""
        if self._graph is None:
            plan = self._plan("none")
            if self._given is None:
                self._graph = plan.load_graphs().clean
            else:
                given = as_graph(self._given, scaling=plan.config["dataset"]["scaling"])
                has_split = bool((given.part != Part.NONE).any())
                self._graph = given if has_split else plan.split_dataset(given)
        return self._graph

    @property
    def model(self) -> Model:
        """The trained model, a plain `torch.nn.Module`."""
        if "none" not in self._models:
            raise InputError("the experiment is not trained yet", expected="fit first", hint="Experiment(...).fit()")
        return self._models["none"]

    def survey(self) -> str:
        """Describe the data, with warnings about what the models may have trouble with."""
        return describe_graph(self.graph, source=self._plan("none").dataset)

    def fit(self) -> Experiment:
        """Train on the clean graph."""
        self._models["none"] = self._train("none")
        return self

    def evaluate(self, scenario: str = "none") -> Evaluation:
        """Return metrics, curves and the table of nodes in a scenario of `conf/ood`.

        A scenario that changes training, such as leaving out classes, trains a model of its own once.
        """
        plan = self._plan(scenario)
        changes_training = plan.stage in (Stage.training, Stage.inductive)
        if changes_training and scenario not in self._models:
            self._models[scenario] = self._train(scenario)
        graph = plan.graphs_from(self.graph).evaluation
        model = self._models[scenario] if changes_training else self.model
        with self._threads(), config_hints("ood"):
            return evaluate(model.for_graph(graph, seed=plan.seed).predict(graph), graph)

    def posterior(self, graph: Data | Graph | None = None) -> Posterior:
        """Return the second-order distribution of every node: `.mean`, `.measures`, `.eu()`, `.alpha` and so on."""
        with self._threads():
            return self.model.predict(self._convert(graph))

    def limits(self, *, accuracy: float = 0.95, unknown: float = 0.05, epistemic: str | None = None) -> Limits:
        """Fit the limits of trust to the validation nodes of the clean graph (see `lopgpn_exp predict`)."""
        table = tabulate_predictions(self.posterior(), self.graph)
        declared = self._plan("none").measures
        return fit_validation_limits(
            table,
            accuracy=accuracy,
            unknown=unknown,
            epistemic=epistemic,
            declared={role: name for role, name in declared.items() if name in table},
        )

    def predict(
        self,
        graph: Data | Graph | None = None,
        *,
        limits: Limits | None = None,
        coverage: float | None = None,
        max_error: float | None = None,
        confidence: float = 0.95,
    ) -> pd.DataFrame:
        """Return one row per node: `id, label, predicted, confidence`, a probability per class, the measures, `flag`.

        What `coverage` and `max_error` promise does not hold for a graph whose nodes are unlike the validation nodes.

        Args:
            graph: another version of the graph, with features on the scale of the first; by default the graph itself.
            limits: the result of `self.limits(...)` with other options.
            coverage: adds `prediction_set` and `set_size`: sets that contain the class of this share of the nodes, by
                DAPS or, if there are too few validation nodes for it, APS.
            max_error: adds `accepted`: of the accepted nodes, at most this share is wrong, with this `confidence`.
        """
        target, limits = self._convert(graph), limits or self.limits()
        rule = None
        if max_error is not None:
            rule = self.acceptance_rule(limits=limits, max_error=max_error, confidence=confidence)
        posterior = self.posterior(target)
        if coverage is not None:
            own = posterior if target is self.graph else self.posterior()
            sets = calibrate_sets(self.model, own, self.graph, coverage=coverage)
            posterior = sets.add_sets(posterior, self.model, target)
        table = node_table(posterior, target)
        accepted = {} if rule is None else {"accepted": rule.accept_nodes(table)}
        return table.assign(**accepted, flag=limits.flag_nodes(table))

    def acceptance_rule(
        self, *, max_error: float, confidence: float = 0.95, limits: Limits | None = None
    ) -> AcceptanceRule:
        """Return which nodes of the clean graph can be accepted, such that at most a share `max_error` is wrong."""
        table = tabulate_predictions(self.posterior(), self.graph)
        declared = {role: name for role, name in self._plan("none").measures.items() if name in table}
        limits = limits or self.limits()
        return fit_acceptance_rule(table, limits, max_error=max_error, confidence=confidence, declared=declared)

    def explain(self, node: object) -> Explanation:
        """Explain which nodes made a node, given by its id, as uncertain as it is."""
        number = find_node(self.graph, str(node))
        opinions = self.model.opinions(self.graph, number)
        return explain(self.graph, number, posterior=self.posterior(), **vars(opinions))

    def _convert(self, graph: Data | Graph | None) -> Graph:
        """Return a version of the graph; a `Data` is read like the first one, with the same classes and scaling."""
        if graph is None:
            return self.graph
        legend = self.graph.legend
        if isinstance(graph, Graph) or legend is None:
            other = as_graph(graph, num_classes=self.graph.num_classes)
        else:
            other, _ = build_graph_like(parse_pyg_data(graph), legend, num_classes=self.graph.num_classes)
        if other.num_features != self.graph.num_features:
            raise InputError(
                f"the graph has {other.num_features} features",
                expected=f"{self.graph.num_features}, as in the graph that was trained on",
            )
        return other

    def _plan(self, scenario: str) -> RunPlan:
        if scenario not in self._plans:
            overrides = [*self._overrides, f"ood={scenario}"]
            config = compose_config(overrides, config_dir=self._config_dir, values=self._values)
            self._plans[scenario] = plan_run(config)
        return self._plans[scenario]

    def _train(self, scenario: str) -> Model:
        plan = self._plan(scenario)
        with self._threads(), config_hints("model"):
            return fit_model(plan, plan.graphs_from(self.graph).training).module.model.eval()

    def _threads(self) -> AbstractContextManager[None]:
        """Use the configured number of threads, which the last bits depend on, and restore the caller's."""
        return limit_threads(self._plan("none").trainer.threads)
