"""Input of the models that disperse node values: GPN and APPNP."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

import scipy.sparse as sp
from jaxtyping import Int
from torch import Tensor

from lopgpn_exp.graph import Dispersion, Graph, Matrix, Scheme
from lopgpn_exp.graph.dispersion import check_dispersion
from lopgpn_exp.models.base import prepared_features


@dataclass(frozen=True)
class DispersedInput:
    """Features of all nodes, the dispersion along the graph, and the nodes wanted of the result (all if None)."""

    features: Matrix
    disperse: Dispersion
    nodes: Int[Tensor, " chosen"] | None


@dataclass(frozen=True)
class DispersionPlan:
    """How a model disperses: everything but the graph."""

    normalize: Callable[[Graph], sp.csr_array]
    num_steps: int
    teleport: float
    scheme: Scheme
    _of_graph: WeakKeyDictionary[Graph, DispersedInput] = field(default_factory=WeakKeyDictionary, repr=False)

    def __post_init__(self) -> None:
        check_dispersion(num_steps=self.num_steps, teleport=self.teleport)

    def prepare(self, graph: Graph, nodes: Int[Tensor, " chosen"] | None) -> DispersedInput:
        """Training and validation differ in their nodes alone: the rest is made once and shared."""
        if graph not in self._of_graph:
            disperse = Dispersion(
                self.normalize(graph), num_steps=self.num_steps, teleport=self.teleport, scheme=self.scheme
            )
            self._of_graph[graph] = DispersedInput(prepared_features(graph.features), disperse, None)
        return replace(self._of_graph[graph], nodes=nodes)
