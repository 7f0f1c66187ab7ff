"""The interface between a model and the rooms around it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Literal

import scipy.sparse as sp
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import DenseMatrix, Graph, Matrix, Part, SparseMatrix
from lopgpn_exp.models.opinions import Opinions
from lopgpn_exp.posterior import Posterior

# Below this share of non-zeros a sparse first layer is faster than a dense one, its cached transpose included.
SPARSE_FEATURES_BELOW = 0.25


class Model(nn.Module, ABC):
    """A graph in, a posterior out. How it gets its parameters is what its two kinds below differ in.

    A subclass is built from keyword arguments, among them `num_features` and `num_classes`.
    """

    @abstractmethod
    def predict(self, graph: Graph, *, cache_dir: Path | None = None) -> Posterior:
        """The posterior of every node."""

    def opinions(self, graph: Graph, node: int, *, cache_dir: Path | None = None) -> Opinions:
        """What the posterior of `node` was pooled from; a model that pools nothing has no such thing."""
        raise InputError(
            f"{type(self).__name__} does not pool nodes' opinions",
            expected="a model that does: lop_gpn, gpn_sym, gpn_rw or appnp",
        )


class GradientModel(Model):
    """A model trained by gradient.

    `prepare` does, once, all that depends on nothing trained; `forward` is then all that an epoch needs.
    """

    loss_reduction: ClassVar[Literal["sum", "mean"]] = "sum"

    @abstractmethod
    def prepare(
        self, graph: Graph, *, nodes: Int[Tensor, " chosen"] | None = None, cache_dir: Path | None = None
    ) -> Any:
        """What `forward` takes to give the posterior of `nodes` (all of them by default), in their order."""

    @abstractmethod
    def forward(self, prepared: Any) -> Posterior: ...

    @abstractmethod
    def node_loss(self, posterior: Any, labels: Int[Tensor, " nodes"]) -> Float[Tensor, " nodes"]:
        """Training loss of each node; `loss_reduction` says how the training nodes' are put together."""

    def observe(self, train_labels: Int[Tensor, " train"]) -> None:
        """Take what is read off the training labels before the first step. They are all a model ever sees of labels."""

    def undecayed_parameters(self) -> list[nn.Parameter]:
        """Parameters that weight decay leaves alone."""
        return []

    def warmup_parameters(self) -> list[nn.Parameter]:
        """Parameters that are trained alone at first."""
        return []

    def predict(self, graph: Graph, *, cache_dir: Path | None = None) -> Posterior:
        """The posterior of every node, in evaluation mode."""
        with self.evaluating():
            return self(self.prepare(graph, cache_dir=cache_dir))

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """No dropout and no gradients inside; the mode that the model was in comes back afterwards."""
        training = self.training
        self.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            self.train(training)


class ClosedFormModel(Model):
    """A model fitted in one go to one graph, on which it then knows the posterior of every node.

    Such a model reads edges and training labels only, so it has nothing to say about another graph: `predict` takes
    any graph with the same edges (features changed by a scenario, for example) and refuses others. What was fitted is
    the module's extra state, so that it is in every `state_dict` and checkpoint.
    """

    def __init__(self, *, num_classes: int) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.fitted: dict[str, Any] = {}

    @abstractmethod
    def fit_nodes(
        self,
        graph: Graph,
        nodes: Int[Tensor, " train"],
        labels: Int[Tensor, " train"],
        *,
        seed: int,
        cache_dir: Path | None,
        report: Callable[[str], None],
    ) -> dict[str, Any]:
        """What `posterior` needs (tensors, numbers, texts) from the edges and the training nodes with their labels."""

    @abstractmethod
    def posterior(self, fitted: dict[str, Any]) -> Posterior:
        """The posterior of every node of the graph that was fitted."""

    def fit(
        self,
        graph: Graph,
        *,
        seed: int = 0,
        cache_dir: Path | None = None,
        report: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Fit to the training part of `graph`; `report` is told in words how far it is."""
        nodes = graph.nodes(Part.TRAIN)
        labels = graph.labels[nodes]
        missing = torch.nonzero(torch.bincount(labels, minlength=self.num_classes) == 0).flatten().tolist()
        if missing:
            raise InputError(
                f"class {graph.class_name(missing[0])} has no training node",
                expected=f"at least one of each of the {self.num_classes} classes",
                hint="split=random, or dataset.left_out_classes with ood=leave_out_classes for classes to be unknown",
            )
        found = self.fit_nodes(graph, nodes, labels, seed=seed, cache_dir=cache_dir, report=report)
        self.fitted = {"edges": graph.structure_fingerprint, **found}

    @property
    def iterations(self) -> int:
        """Steps that the fit took, 0 where there are none."""
        return self.fitted.get("iterations", 0)

    def predict(self, graph: Graph, *, cache_dir: Path | None = None) -> Posterior:
        if self.fitted.get("edges") != graph.structure_fingerprint:
            raise InputError(
                f"this {type(self).__name__} was fitted to " + ("other edges" if self.fitted else "no graph yet"),
                expected="the graph that it was fitted to: such a model knows no other nodes",
                hint="fit one to this graph: name it as the dataset, with no checkpoint=...",
            )
        return self.posterior(self.fitted)

    def get_extra_state(self) -> dict[str, Any]:
        return self.fitted

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.fitted = state


def prepared_features(features: Float[Tensor, "nodes features"]) -> Matrix:
    """The features in the representation whose product with a weight matrix is faster."""
    density = torch.count_nonzero(features).item() / features.numel()
    return SparseMatrix(sp.csr_array(features.numpy())) if density < SPARSE_FEATURES_BELOW else DenseMatrix(features)


def check_in_range(name: str, value: float, *, low: float, high: float = float("inf"), hint: str) -> None:
    """Bounds of a hyper-parameter, both included."""
    if not low <= value <= high:
        upper = f" to {high:g}" if high < float("inf") else " or more"
        raise InputError(f"{name} is {value}", expected=f"{low:g}{upper}", hint=f"model.{name}={hint}")
