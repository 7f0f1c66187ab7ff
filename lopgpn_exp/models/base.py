"""The interface of a model: a graph in, a posterior out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from lopgpn_exp import NUMERICS_VERSION
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import DenseMatrix, Graph, Matrix, Part, SparseMatrix
from lopgpn_exp.graph.features import SPARSE_BELOW, count_density, to_scipy
from lopgpn_exp.models.opinions import Opinions
from lopgpn_exp.posterior import Posterior
from lopgpn_exp.targets import import_target


class Model(nn.Module, ABC):
    """Base class of all models; subclass `GradientModel` or `ClosedFormModel`, which differ in how they are fitted.

    A subclass is constructed with keyword arguments, among them `num_features` and `num_classes`.
    """

    # Part of the identity of a run. A change that moves the numbers of one model alone increases it in its class.
    numerics_version: ClassVar[int] = NUMERICS_VERSION
    # Options that were added after results had been published. At these values they are left out of the identity of a
    # run, so that earlier runs keep theirs.
    added_options: ClassVar[Mapping[str, Any]] = {}
    # Whether it reads the features of the nodes; if so, a graph without features is refused before training.
    uses_features: ClassVar[bool] = True
    # What post-hoc steps can use: "logits", "pseudo-counts", "dropout", or "hidden layer", the method `embed(graph)`.
    offers: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def predict(self, graph: Graph, *, cache_dir: Path | None = None) -> Posterior:
        """Return the posterior of every node."""

    def for_graph(self, graph: Graph, *, seed: int = 0, cache_dir: Path | None = None) -> Model:
        """Return a model that can predict a changed version of the graph it was trained on: as a rule, itself."""
        return self

    @property
    def pools_opinions(self) -> bool:
        """Whether `opinions` says which nodes a posterior is pooled from."""
        return type(self).opinions is not Model.opinions

    def opinions(self, graph: Graph, node: int, *, cache_dir: Path | None = None) -> Opinions:
        """Return the opinions that the posterior of `node` is pooled from, if the model pools over nodes."""
        raise InputError(
            f"{type(self).__name__} does not pool the opinions of nodes",
            expected="a model that does: lop_gpn, gpn_sym, gpn_rw or appnp",
        )


@dataclass(frozen=True)
class FitData:
    """Input of a fit: a graph, and its training nodes with their labels.

    Args:
        graph: labels of other nodes must not be read, except those of validation nodes by post-hoc steps. A closed-form
            fit must not read features either.
        seed: seed of random draws, if the fit needs any.
        cache_dir: folder for results that depend on the edges alone.
        report: called with a short text that describes the progress.
        parts: the trained models that this one is made from.
    """

    graph: Graph
    nodes: Int[Tensor, " train"]
    labels: Int[Tensor, " train"]
    seed: int = 0
    cache_dir: Path | None = None
    report: Callable[[str], None] = lambda text: None
    parts: tuple[Model, ...] = ()


class GradientModel(Model):
    """A model trained by gradient descent.

    `prepare` computes once everything that does not depend on parameters; an epoch calls `forward` only.
    """

    loss_reduction: ClassVar[Literal["sum", "mean"]] = "sum"
    # Whether it learns from another trained model, which its config names under `teacher`.
    needs_teacher: ClassVar[bool] = False

    @abstractmethod
    def prepare(
        self, graph: Graph, *, nodes: Int[Tensor, " chosen"] | None = None, cache_dir: Path | None = None
    ) -> Any:
        """Return the input from which `forward` computes the posterior of `nodes` (default: all), in their order."""

    @abstractmethod
    def forward(self, prepared: Any) -> Posterior: ...

    @abstractmethod
    def node_loss(self, posterior: Any, labels: Int[Tensor, " nodes"]) -> Float[Tensor, " nodes"]:
        """Return the training loss of each node; `loss_reduction` says how they are combined."""

    def observe(self, train_labels: Int[Tensor, " train"]) -> None:
        """Set what depends on the training labels, such as a class prior; called before the first step.

        Apart from `node_loss` and `observe_data`, only this method has access to labels.
        """

    def observe_data(self, data: FitData) -> None:
        """Set what depends on the training labels, the graph, or a trained teacher, which is the only part.

        By default, it calls `observe`.
        """
        self.observe(data.labels)

    def undecayed_parameters(self) -> list[nn.Parameter]:
        """Return the parameters that weight decay does not apply to."""
        return []

    def warmup_parameters(self) -> list[nn.Parameter]:
        """Return the parameters that are trained alone during the warm-up epochs."""
        return []

    def predict(self, graph: Graph, *, cache_dir: Path | None = None) -> Posterior:
        """Return the posterior of every node, in evaluation mode."""
        with self.evaluation_mode():
            return self(self.prepare(graph, cache_dir=cache_dir))

    @contextmanager
    def evaluation_mode(self) -> Iterator[None]:
        """Switch off dropout and gradients; restore the previous mode on exit."""
        training = self.training
        self.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            self.train(training)


class ClosedFormModel(Model):
    """A model fitted in one step to one graph; it holds the posterior of every node of that graph.

    Such a model reads only edges and training labels: `predict` accepts any graph with the same edges, for example with
    features that a scenario changed, and refuses others; `for_graph` fits the model again. The fitted values are the
    module's extra state, and thus part of every `state_dict` and checkpoint.
    """

    uses_features: ClassVar[bool] = False

    def __init__(self, *, num_classes: int) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.fitted: dict[str, Any] = {}

    @abstractmethod
    def fit_nodes(self, data: FitData) -> dict[str, Any]:
        """Return the tensors, numbers and strings from which `posterior` is computed."""

    @abstractmethod
    def posterior(self, fitted: dict[str, Any]) -> Posterior:
        """Return the posterior of every node of the fitted graph."""

    def fit(
        self,
        graph: Graph,
        *,
        seed: int = 0,
        cache_dir: Path | None = None,
        report: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Fit the model to the training part of `graph`; see `FitData` for the arguments."""
        nodes = graph.nodes(Part.TRAIN)
        labels = graph.labels[nodes]
        missing = torch.nonzero(torch.bincount(labels, minlength=self.num_classes) == 0).flatten().tolist()
        if missing:
            raise InputError(
                f"class {graph.class_name(missing[0])} has no training node",
                expected=f"at least one training node for each of the {self.num_classes} classes",
                hint="use a random split, or leave this class out as out-of-distribution",
            )
        fitted = self.fit_nodes(FitData(graph, nodes, labels, seed, cache_dir, report))
        self.fitted = {"edges": graph.structure_fingerprint, **fitted}

    def for_graph(self, graph: Graph, *, seed: int = 0, cache_dir: Path | None = None) -> Model:
        """Return this model or, if the edges are others, a copy that is fitted to the training nodes of `graph`."""
        if self.fitted.get("edges") == graph.structure_fingerprint:
            return self
        model = copy(self)
        model.fit(graph, seed=seed, cache_dir=cache_dir)
        return model

    @property
    def iterations(self) -> int:
        """Number of iterations of the fit, 0 if it is not iterative."""
        return self.fitted.get("iterations", 0)

    def predict(self, graph: Graph, *, cache_dir: Path | None = None) -> Posterior:
        if self.fitted.get("edges") != graph.structure_fingerprint:
            raise InputError(
                f"this {type(self).__name__} was fitted to " + ("other edges" if self.fitted else "no graph yet"),
                expected="the graph that it was fitted to: it cannot predict other nodes",
                hint="fit a new model to this graph",
            )
        return self.posterior(self.fitted)

    def get_extra_state(self) -> dict[str, Any]:
        return self.fitted

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.fitted = state


class CompositeModel(Model):
    """A model made from trained models, its parts: an ensemble, or a model with post-hoc steps.

    Its parts are trained first, or come from the cache; then `combine` takes them over. All of it, parts included, is
    stored in one checkpoint.
    """

    # Options that describe the parts. They count in the identity of a run through the identities of the parts.
    part_options: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def combine(self, data: FitData) -> None:
        """Take over the weights of `data.parts`, and fit what is left to fit."""

    def check_graph(self, graph: Graph) -> None:
        """Raise an InputError if the model cannot be fitted to a graph; called before anything is trained."""

    @property
    def iterations(self) -> int:
        """Number of iterations of the fit, apart from those of the parts."""
        return 0


def hide_labels(graph: Graph) -> Graph:
    """Return the graph without the labels of nodes that are neither for training nor for validation."""
    is_visible = (graph.part == Part.TRAIN) | (graph.part == Part.VAL)
    return graph.replace(labels=torch.where(is_visible, graph.labels, -1))


def build_part(config: Mapping[str, Any], num_features: int, num_classes: int) -> Model:
    """Return the untrained model of a part, whose config has a `_target_` and its options."""
    options = {key: value for key, value in config.items() if key != "_target_"}
    return import_target(config["_target_"])(num_features=num_features, num_classes=num_classes, **options)


def to_feature_matrix(features: Float[Tensor, "nodes features"]) -> Matrix:
    """Return the features as a sparse or a dense matrix, whichever is faster to multiply with weights."""
    if count_density(features) < SPARSE_BELOW:
        return SparseMatrix(to_scipy(features))
    return DenseMatrix(features.to_dense())
