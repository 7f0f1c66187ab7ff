"""Propagation of node values along the graph, as in GPN and APPNP."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

import scipy.sparse as sp
from jaxtyping import Int
from torch import Tensor

from lopgpn_exp.graph import Dispersion, Graph, Scheme
from lopgpn_exp.graph.dispersion import check_dispersion


@dataclass(frozen=True)
class PropagationInput:
    """Input of the encoder for all nodes, and the dispersion of its output to the nodes to predict."""

    features: Any
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

    def prepare(self, graph: Graph, nodes: Int[Tensor, " chosen"] | None, encoder: Any) -> PropagationInput:
        """Return the model input for some nodes; what does not depend on the nodes is computed once per graph."""
        if graph not in self._inputs:
            disperse = Dispersion(
                self.normalize(graph), num_steps=self.num_steps, teleport=self.teleport, scheme=self.scheme
            )
            self._inputs[graph] = PropagationInput(encoder.prepare(graph), disperse)
        everywhere = self._inputs[graph]
        return everywhere if nodes is None else replace(everywhere, disperse=everywhere.disperse.restrict(nodes))
