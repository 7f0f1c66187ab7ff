"""A model to be checked, with the graph that it is fitted to."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lopgpn_exp.config.compose import compose_config
from lopgpn_exp.config.plan import RunPlan, plan_run
from lopgpn_exp.config.signature import call_options, check_model_class, import_callable
from lopgpn_exp.data.datasets.synthetic import block_model
from lopgpn_exp.data.splits import random_split
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Graph
from lopgpn_exp.models import ClosedFormModel, Model
from lopgpn_exp.posterior import Posterior
from lopgpn_exp.seeds import seeded
from lopgpn_exp.targets import import_target
from lopgpn_exp.threads import limit_threads
from lopgpn_exp.training import fit, load_module

GRAPH_TENSORS = ("features", "edge_index", "labels", "part", "is_ood")


def easy_graph() -> Graph:
    """Return a split graph with 300 nodes in 3 classes that are easy to learn, and two nodes without edges."""
    graph = block_model(num_nodes=300, num_edges=600, num_classes=3, num_features=12, signal=2.0, seed=1)
    keep = ~torch.isin(graph.edge_index, torch.tensor([5, 17])).any(dim=0)
    return random_split(graph.replace(edge_index=graph.edge_index[:, keep]), index=0, train=0.2, val=0.2, test=0.6)


@dataclass(frozen=True)
class CheckSettings:
    """Requirements that depend on the model.

    Args:
        graph: the graph that the model is fitted to, with a split.
        epochs: number of epochs of trainings that need not converge.
        learning_epochs: number of epochs after which the model must have learned.
        accuracy: test accuracy on the graph above which the model has learned; chance is a third.
        tolerance: largest change of a mean when nodes are permuted; measures may change ten times as much.
        permute_training_nodes: whether the training nodes are permuted too.
        skip: names of checks that are not run, with the reason.
    """

    graph: Graph = field(default_factory=easy_graph)
    epochs: int = 8
    learning_epochs: int = 80
    accuracy: float = 0.6
    tolerance: float = 1e-4
    permute_training_nodes: bool = True
    skip: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class FirstFit:
    """A fitted model and its checkpoint file, and the side effects of the training and of a prediction.

    Args:
        changed_random_states: libraries whose global random state changed, by the step that changed it.
        changed_tensors: tensors of the graph that changed.
    """

    model: Model
    checkpoint: bytes
    changed_random_states: dict[str, list[str]]
    changed_tensors: list[str]


class ModelUnderTest:
    """A model class with its options; results that several checks use are computed once."""

    def __init__(
        self,
        model_class: str,
        options: Mapping[str, Any],
        *,
        optimizer: Mapping[str, Any] | None = None,
        settings: CheckSettings | None = None,
        parts: Sequence[ModelUnderTest] = (),
    ) -> None:
        self.model_class, self.options, self.parts = model_class, options, parts
        self.optimizer, self.settings = optimizer or {}, settings or CheckSettings()

    @classmethod
    def from_class(
        cls, model: type | str, options: Mapping[str, Any], settings: CheckSettings | None = None
    ) -> ModelUnderTest:
        """Return the model of a class or its import path, with the default optimiser."""
        path = model if isinstance(model, str) else f"{model.__module__}.{model.__qualname__}"
        if "<locals>" in path:
            raise InputError(
                f"{path} cannot be imported by its name",
                expected="a class defined at the top level of a module, where configs and checkpoints can find it",
            )
        check_model_class(import_callable(path, "model"), path)
        _, checked = call_options({"_target_": path, **options}, path="", injected=("num_features", "num_classes"))
        return cls(path, checked, settings=settings)

    @classmethod
    def from_config(
        cls, name: str, *overrides: str, config_dir: Path | str | None = None, settings: CheckSettings | None = None
    ) -> ModelUnderTest:
        """Return the model of a config, with its options and optimiser."""
        folder = None if config_dir is None else Path(config_dir)
        run = plan_run(compose_config([f"model={name}", *overrides], config_dir=folder))
        if run.model != name:
            raise InputError(
                f"the config model={name} has the name {run.model}",
                expected="the same name as the file",
                hint=f"name: {name}",
            )
        return cls.from_plan(run, settings)

    @classmethod
    def from_plan(cls, plan: RunPlan, settings: CheckSettings | None = None) -> ModelUnderTest:
        """Return the model of a plan, with the trainings that it is made from."""
        parts = [cls.from_plan(part, settings) for part in plan.parts]
        optimizer = plan.optimizer.options()
        return cls(plan.model_class, plan.model_options, optimizer=optimizer, settings=settings, parts=parts)

    def __str__(self) -> str:
        return f"{self.model_class}({', '.join(f'{key}={value!r}' for key, value in self.options.items())})"

    @property
    def type(self) -> type[Model]:
        return import_target(self.model_class)

    @property
    def is_closed_form(self) -> bool:
        return issubclass(self.type, ClosedFormModel)

    @property
    def graph(self) -> Graph:
        return self.settings.graph

    def build(self, *, seed: int = 0, **dims: int) -> Model:
        """Return an unfitted model; `dims` overrides the numbers of features and classes of the graph."""
        with seeded(seed):
            return self.type(**{**self.options, **_graph_dims(self.graph), **dims})

    def fit(
        self,
        graph: Graph | None = None,
        *,
        seed: int = 0,
        epochs: int | None = None,
        validate_every: int = 1,
        checkpoint: Path | None = None,
    ) -> Model:
        """Return a model fitted to `graph`, by default the graph of the settings."""
        graph = self.graph if graph is None else graph
        parts = [
            part.fit(graph, seed=seed + number, epochs=epochs, validate_every=validate_every)
            for number, part in enumerate(self.parts)
        ]
        fitted = fit(
            graph,
            model_class=self.model_class,
            model_options={**self.options, **_graph_dims(graph)},
            optimizer=dict(self.optimizer),
            seed=seed,
            max_epochs=epochs or self.settings.epochs,
            validate_every=validate_every,
            accelerator="cpu",
            progress=False,
            checkpoint_path=checkpoint,
            parts=tuple(parts),
        )
        return fitted.module.model

    @cached_property
    def first_fit(self) -> FirstFit:
        graph = self.graph.replace(**{name: getattr(self.graph, name).clone() for name in GRAPH_TENSORS})
        with TemporaryDirectory() as folder:
            path = Path(folder) / "model.ckpt"
            states = [get_random_states()]
            model = self.fit(graph, checkpoint=path)
            states.append(get_random_states())
            model.predict(graph)
            states.append(get_random_states())
            changed_states = {
                step: [library for library in before if before[library] != after[library]]
                for step, before, after in zip(("training", "prediction"), states[:-1], states[1:], strict=True)
            }
            changed_tensors = [
                name for name in GRAPH_TENSORS if not same_bits(getattr(graph, name), getattr(self.graph, name))
            ]
            return FirstFit(model, path.read_bytes(), changed_states, changed_tensors)

    @property
    def model(self) -> Model:
        """The fitted model that most checks use."""
        return self.first_fit.model

    @cached_property
    def posterior(self) -> Posterior:
        """The posterior of the fitted model on the graph."""
        return self.model.predict(self.graph)

    def load_checkpoint(self) -> Model:
        """Return the fitted model, loaded from its checkpoint."""
        with TemporaryDirectory() as folder:
            path = Path(folder) / "model.ckpt"
            path.write_bytes(self.first_fit.checkpoint)
            return load_module(path, model_class=self.model_class).model.eval()


def _graph_dims(graph: Graph) -> dict[str, int]:
    return {"num_features": graph.num_features, "num_classes": graph.num_classes}


def same_bits(first: Tensor, second: Tensor) -> bool:
    """Return whether two tensors are identical. NaN equals NaN, which another check reports."""
    same_kind = first.shape == second.shape and first.dtype == second.dtype and first.layout == second.layout
    return same_kind and torch.allclose(first.to_dense(), second.to_dense(), rtol=0, atol=0, equal_nan=True)


def same_model(first: Model, second: Model, graph: Graph) -> bool:
    """Return whether two models have identical parameters and predictions."""
    pairs = zip(first.parameters(), second.parameters(), strict=True)
    return all(same_bits(a, b) for a, b in pairs) and same_bits(first.predict(graph).mean, second.predict(graph).mean)


def get_random_states() -> dict[str, Any]:
    """Return the states of torch and numpy in comparable form. Python's own is left out: beartype changes it too."""
    kind, keys, *others = np.random.get_state(legacy=True)  # noqa: NPY002  (the legacy generator is what is checked)
    return {
        "torch": torch.random.get_rng_state().numpy().tobytes(),
        "numpy": (kind, np.asarray(keys).tobytes(), *others),
    }


@contextmanager
def isolate_state() -> Iterator[None]:
    """Use a single thread, which makes results reproducible; restore threads and random states on exit."""
    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        with limit_threads(1), torch.random.fork_rng():
            yield
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)
