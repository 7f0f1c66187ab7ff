"""Input of the models that disperse node values: GPN and APPNP."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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

    def __post_init__(self) -> None:
        check_dispersion(num_steps=self.num_steps, teleport=self.teleport)

    def prepare(self, graph: Graph, nodes: Int[Tensor, " chosen"] | None) -> DispersedInput:
        disperse = Dispersion(
            self.normalize(graph), num_steps=self.num_steps, teleport=self.teleport, scheme=self.scheme
        )
        return DispersedInput(prepared_features(graph.features), disperse, nodes)
