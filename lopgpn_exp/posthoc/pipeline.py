"""A trained model followed by post-hoc steps, as one model."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar

from torch import nn

from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Graph
from lopgpn_exp.models import CompositeModel, FitData, Model, Opinions
from lopgpn_exp.models.base import build_part, hide_labels
from lopgpn_exp.posterior import Posterior
from lopgpn_exp.posthoc.step import PostHocStep, StepData
from lopgpn_exp.targets import import_target


class PostHocModel(CompositeModel):
    """A model whose posterior passes through post-hoc steps, in their order.

    Its only part, `base`, is an ordinary training: `model=gnnsafe` after `model=gcn` trains nothing.

    Args:
        base: the config of the model: its `_target_` and its options.
        steps: the configs of the steps by name, each with its `_target_` and its options.
    """

    part_options: ClassVar[tuple[str, ...]] = ("base",)

    def __init__(
        self,
        *,
        num_features: int,
        num_classes: int,
        base: Mapping[str, Any],
        steps: Mapping[str, Mapping[str, Any]],
    ) -> None:
        super().__init__()
        self.base = build_part(base, num_features, num_classes)
        self.steps = nn.ModuleDict({name: _build_step(config) for name, config in steps.items()})
        for name, step in self._steps().items():
            if missing := step.needs - self.base.offers:
                raise InputError(
                    f"{name} needs the {sorted(missing)[0]} of a model, and {type(self.base).__name__} has none",
                    expected="a model that has: gcn, gat or, for logits, appnp",
                    parameter="model",
                    suggestion="gcn",
                )

    def check_graph(self, graph: Graph) -> None:
        if isinstance(self.base, CompositeModel):
            self.base.check_graph(graph)
        for name, step in self._steps().items():
            try:
                step.check_graph(graph)
            except InputError as error:
                if error.parameter in signature(type(step)).parameters:  # not the split, for example
                    error.parameter = f"posthoc.{name}.{error.parameter}"
                raise

    def combine(self, data: FitData) -> None:
        (trained,) = data.parts
        self.base.load_state_dict(trained.state_dict())
        self.base.eval()
        graph = hide_labels(data.graph)
        posterior = self.base.predict(graph, cache_dir=data.cache_dir)
        for name, step in self._steps().items():
            data.report(name)
            step.fitted = step.fit(StepData(graph, self.base, posterior, data.seed, data.cache_dir))
            posterior = step.refine(posterior, self.base, graph)

    def predict(self, graph: Graph, *, cache_dir: Path | None = None) -> Posterior:
        posterior = self.base.predict(graph, cache_dir=cache_dir)
        for step in self._steps().values():
            posterior = step.refine(posterior, self.base, graph)
        return posterior

    def for_graph(self, graph: Graph, *, seed: int = 0, cache_dir: Path | None = None) -> Model:
        base = self.base.for_graph(graph, seed=seed, cache_dir=cache_dir)
        if base is self.base:
            return self
        model = deepcopy(self)
        model.base = base
        return model

    @property
    def pools_opinions(self) -> bool:
        return self.base.pools_opinions

    def opinions(self, graph: Graph, node: int, *, cache_dir: Path | None = None) -> Opinions:
        return self.base.opinions(graph, node, cache_dir=cache_dir)

    def _steps(self) -> dict[str, PostHocStep]:
        return dict(self.steps.items())  # type: ignore[arg-type]


def _build_step(config: Mapping[str, Any]) -> PostHocStep:
    options = {key: value for key, value in config.items() if key != "_target_"}
    return import_target(config["_target_"])(**options)
