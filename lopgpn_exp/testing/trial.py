"""A model, the graph it is tried on, and its trainings."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lopgpn_exp.data.splits import random_split
from lopgpn_exp.data.synthetic import block_model
from lopgpn_exp.graph import Graph
from lopgpn_exp.models import ClosedFormModel, Model
from lopgpn_exp.models.seeding import seeded
from lopgpn_exp.posterior import Posterior
from lopgpn_exp.training import fit, load_module
from lopgpn_exp.training.module import model_type

TENSORS = ("features", "edge_index", "labels", "part", "is_ood")  # of a graph


def easy_graph() -> Graph:
    """300 nodes in 3 classes that features and edges tell apart, two nodes without edges, with a split."""
    graph = block_model(num_nodes=300, num_edges=600, num_classes=3, num_features=12, signal=2.0, seed=1)
    keep = ~torch.isin(graph.edge_index, torch.tensor([5, 17])).any(dim=0)
    return random_split(graph.replace(edge_index=graph.edge_index[:, keep]), index=0, train=0.2, val=0.2, test=0.6)


@dataclass(frozen=True)
class Terms:
    """What is asked of a model where models differ.

    Args:
        graph: what it is tried on, with a split.
        epochs: of trainings that only have to be trainings.
        learning_epochs: after which it must have learned.
        accuracy: on the test nodes of the easy graph, above which it has; a third of them would be chance.
        tolerance: by how much a mean may differ when nodes are renamed; measures by ten times as much.
        rename_training_nodes: whether their order is nothing to the model either.
        excused: promises that it need not keep, with the reason.
    """

    graph: Graph = field(default_factory=easy_graph)
    epochs: int = 8
    learning_epochs: int = 80
    accuracy: float = 0.6
    tolerance: float = 1e-4
    rename_training_nodes: bool = True
    excused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Watched:
    """A fitted model, the bytes of its checkpoint, the global random states that were moved, and tensors changed."""

    model: Model
    checkpoint: bytes
    moved: dict[str, list[str]]
    changed: list[str]


class Trial:
    """A model with its options, fitted as often as it takes; what several promises ask for is done once."""

    def __init__(
        self, model_class: str, options: Mapping[str, Any], *, optimizer: Mapping[str, Any], terms: Terms
    ) -> None:
        self.model_class, self.options, self.optimizer, self.terms = model_class, options, optimizer, terms

    def __str__(self) -> str:
        return f"{self.model_class}({', '.join(f'{key}={value!r}' for key, value in self.options.items())})"

    @property
    def type(self) -> type[Model]:
        return model_type(self.model_class)

    @property
    def is_closed_form(self) -> bool:
        return issubclass(self.type, ClosedFormModel)

    @property
    def graph(self) -> Graph:
        return self.terms.graph

    def build(self, *, seed: int = 0, **dims: int) -> Model:
        """An unfitted one, for the graph unless `dims` says otherwise."""
        with seeded(seed):
            return self.type(**{**self.options, **self._dims(self.graph), **dims})

    def fit(
        self,
        graph: Graph | None = None,
        *,
        seed: int = 0,
        epochs: int | None = None,
        validate_every: int = 1,
        checkpoint: Path | None = None,
    ) -> Model:
        graph = self.graph if graph is None else graph
        fitted = fit(
            graph,
            model_class=self.model_class,
            model_options={**self.options, **self._dims(graph)},
            optimizer=dict(self.optimizer),
            seed=seed,
            max_epochs=epochs or self.terms.epochs,
            validate_every=validate_every,
            accelerator="cpu",
            progress=False,
            checkpoint_path=checkpoint,
        )
        return fitted.module.model

    @property
    def fitted(self) -> Model:
        """The model that most promises are asked of."""
        return self.watched.model

    @property
    def reopened(self) -> Model:
        """The same from its checkpoint, with nothing in it but what the file holds."""
        with TemporaryDirectory() as folder:
            path = Path(folder) / "model.ckpt"
            path.write_bytes(self.watched.checkpoint)
            return load_module(path).model.eval()

    @cached_property
    def watched(self) -> Watched:
        """The first training and prediction, and what they left behind."""
        graph = self.graph.replace(**{name: getattr(self.graph, name).clone() for name in TENSORS})
        with TemporaryDirectory() as folder:
            path = Path(folder) / "model.ckpt"
            states = [global_random_states()]
            model = self.fit(graph, checkpoint=path)
            states.append(global_random_states())
            model.predict(graph)
            states.append(global_random_states())
            moved = {
                when: [name for name in states[i] if states[i][name] != states[i + 1][name]]
                for i, when in enumerate(("training", "a prediction"))
            }
            changed = [name for name in TENSORS if not same_bits(getattr(graph, name), getattr(self.graph, name))]
            return Watched(model, path.read_bytes(), moved, changed)

    @cached_property
    def posterior(self) -> Posterior:
        return self.fitted.predict(self.graph)

    def _dims(self, graph: Graph) -> dict[str, int]:
        return {"num_features": graph.num_features, "num_classes": graph.num_classes}


def same_bits(one: Tensor, two: Tensor) -> bool:
    """A NaN is the same as a NaN: that there is one is for another promise to say."""
    alike = one.shape == two.shape and one.dtype == two.dtype
    return alike and torch.allclose(one, two, rtol=0, atol=0, equal_nan=True)


def same_model(one: Model, two: Model, graph: Graph) -> bool:
    """The same parameters and, bit for bit, the same predictions."""
    pairs = zip(one.parameters(), two.parameters(), strict=True)
    return all(same_bits(a, b) for a, b in pairs) and same_bits(one.predict(graph).mean, two.predict(graph).mean)


def global_random_states() -> dict[str, Any]:
    """Of torch and numpy, in a form that can be compared; from Python's own, type checkers draw too."""
    kind, keys, *rest = np.random.get_state(legacy=True)  # noqa: NPY002  (the very one)
    return {
        "torch": torch.random.get_rng_state().numpy().tobytes(),
        "numpy": (kind, np.asarray(keys).tobytes(), *rest),
    }


@contextmanager
def one_thread_and_random_states_kept() -> Iterator[None]:
    """Bits can be compared inside; outside, nothing has changed."""
    threads, states = torch.get_num_threads(), (np.random.get_state(), random.getstate())  # noqa: NPY002
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng():
            yield
    finally:
        torch.set_num_threads(threads)
        np.random.set_state(states[0])  # noqa: NPY002
        random.setstate(states[1])
