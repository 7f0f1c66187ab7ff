"""The interface of a post-hoc step: something that is computed after training, from the outputs of a model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from jaxtyping import Int
from torch import Tensor, nn

from lopgpn_exp.graph import Graph, Part
from lopgpn_exp.models import Model
from lopgpn_exp.posterior import Posterior


@dataclass(frozen=True)
class StepData:
    """What a step is fitted to.

    Args:
        graph: the graph that the model was trained on. Labels of nodes that are neither for training nor for validation
            are hidden (-1).
        model: the trained model, without any post-hoc step.
        posterior: of every node, after the steps before this one.
        seed: seed of random draws.
    """

    graph: Graph
    model: Model
    posterior: Posterior
    seed: int
    cache_dir: Path | None = None

    def part(self, part: Part) -> tuple[Int[Tensor, " chosen"], Int[Tensor, " chosen"]]:
        """Return the training or the validation nodes, and their labels."""
        nodes = self.graph.nodes(part)
        return nodes, self.graph.labels[nodes]


class PostHocStep(nn.Module, ABC):
    """Transforms the posterior of a trained model, or adds to it. Constructed with keyword arguments.

    `fit` may use labels of training and validation nodes, and nothing else may use labels. What it learns are plain
    values and tensors in `fitted`, the module's extra state, and thus part of the checkpoint.
    """

    # What the model must offer (see `Model.offers`).
    needs: ClassVar[frozenset[str]] = frozenset()

    def __init__(self) -> None:
        super().__init__()
        self.fitted: dict[str, Any] = {}

    def check_graph(self, graph: Graph) -> None:
        """Raise an InputError if the step cannot be fitted to a graph; called before anything is trained."""

    def fit(self, data: StepData) -> dict[str, Any]:
        """Return what is learned from training or validation nodes; `refine` finds it in `self.fitted`."""
        return {}

    @abstractmethod
    def refine(self, posterior: Posterior, model: Model, graph: Graph) -> Posterior:
        """Return the new posterior of every node of any graph with the same features and classes."""

    def get_extra_state(self) -> dict[str, Any]:
        return self.fitted

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.fitted = state
