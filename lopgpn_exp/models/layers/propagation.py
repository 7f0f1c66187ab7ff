"""Propagation of node values along the graph, as in GPN and APPNP."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

import scipy.sparse as sp
from jaxtyping import Int
from torch import Tensor

from lopgpn_exp.graph import Dispersion, Graph, Matrix, Scheme
from lopgpn_exp.graph.dispersion import check_dispersion
from lopgpn_exp.models.base import to_feature_matrix


@dataclass(frozen=True)
class PropagationInput:
    """Features of all nodes, and the dispersion along the graph to the nodes to predict."""

    features: Matrix
    disperse: Dispersion


@dataclass(frozen=True)
class Propagation:
    """The `Dispersion` options of a model; `normalize` returns the normalised adjacency matrix of a graph."""

    normalize: Callable[[Graph], sp.csr_array]
    num_steps: int
    teleport: float
    scheme: Scheme
    _inputs: WeakKeyDictionary[Graph, PropagationInput] = field(default_factory=WeakKeyDictionary, repr=False)

    def __post_init__(self) -> None:
        check_dispersion(num_steps=self.num_steps, teleport=self.teleport)

    def prepare(self, graph: Graph, nodes: Int[Tensor, " chosen"] | None) -> PropagationInput:
        """Return the model input for some nodes; what does not depend on the nodes is computed once per graph."""
        if graph not in self._inputs:
            disperse = Dispersion(
                self.normalize(graph), num_steps=self.num_steps, teleport=self.teleport, scheme=self.scheme
            )
            self._inputs[graph] = PropagationInput(to_feature_matrix(graph.features), disperse)
        everywhere = self._inputs[graph]
        return everywhere if nodes is None else replace(everywhere, disperse=everywhere.disperse.restrict(nodes))
