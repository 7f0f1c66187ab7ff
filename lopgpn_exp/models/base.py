"""The interface between a model and the rooms around it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Literal

import scipy.sparse as sp
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import DenseMatrix, Graph, Matrix, SparseMatrix
from lopgpn_exp.posterior import Posterior

# Below this share of non-zeros a sparse first layer is faster than a dense one, its cached transpose included.
SPARSE_FEATURES_BELOW = 0.08


class GradientModel(nn.Module, ABC):
    """A model trained by gradient: a graph in, a posterior out.

    `prepare` does, once, all that depends on nothing trained; `forward` is then all that an epoch needs.
    A subclass is built from keyword arguments, among them `num_features` and `num_classes`.
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

    @torch.no_grad()
    def predict(self, graph: Graph, *, cache_dir: Path | None = None) -> Posterior:
        """The posterior of every node, in evaluation mode."""
        training = self.training
        self.eval()
        try:
            return self(self.prepare(graph, cache_dir=cache_dir))
        finally:
            self.train(training)


def prepared_features(features: Float[Tensor, "nodes features"]) -> Matrix:
    """The features in the representation whose product with a weight matrix is faster."""
    density = torch.count_nonzero(features).item() / features.numel()
    return SparseMatrix(sp.csr_array(features.numpy())) if density < SPARSE_FEATURES_BELOW else DenseMatrix(features)


def check_in_range(name: str, value: float, *, low: float, high: float = float("inf"), hint: str) -> None:
    """Bounds of a hyper-parameter, both included."""
    if not low <= value <= high:
        upper = f" to {high:g}" if high < float("inf") else " or more"
        raise InputError(f"{name} is {value}", expected=f"{low:g}{upper}", hint=f"model.{name}={hint}")
