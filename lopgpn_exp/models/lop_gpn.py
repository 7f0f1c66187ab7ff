"""LOP-GPN: linear opinion pooling along the graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lopgpn_exp.errors import check_in_range
from lopgpn_exp.graph import Graph, Matrix, Scheme, ppr_matrix
from lopgpn_exp.graph.ppr import Precision, check_ppr
from lopgpn_exp.models.opinions import Opinions
from lopgpn_exp.models.posterior_network import PosteriorNetwork
from lopgpn_exp.posterior import DirichletMixture


@dataclass(frozen=True)
class PoolingInput:
    """Input of the encoder for the nodes whose opinions are pooled, and the pooling weights."""

    features: Any
    weights: Matrix


class LOPGPN(PosteriorNetwork):
    r"""The posterior of node i is the mixture :math:`\sum_j \Pi_{ij} \mathrm{Dir}(\alpha^{ft}_j)`. Paper: Eq. (11).

    Args:
        num_steps, teleport, dispersion: see `Dispersion`; `dispersion` is its `scheme`.
        prune_threshold: delta, below which entries of Pi are dropped; 0 keeps Pi exact and dense.
        ppr_precision: arithmetic of the pruning, which decides ties at delta; see `ppr_matrix`.
        memory_limit_gib: largest amount of memory that building Pi may need.
        network: options of `PosteriorNetwork`.

    `prepare(nodes=...)` keeps only the rows of Pi of these nodes, and only the features of nodes with non-zero weight.
    """

    added_options: ClassVar[Mapping[str, Any]] = {**PosteriorNetwork.added_options, "ppr_precision": "float64"}

    def __init__(
        self,
        *,
        num_steps: int = 10,
        teleport: float = 0.1,
        prune_threshold: float = 0.01,
        dispersion: Scheme = "recursion",
        ppr_precision: Precision = "float64",
        memory_limit_gib: float = 8.0,
        **network: Any,
    ) -> None:
        super().__init__(**network)
        check_ppr(num_steps=num_steps, teleport=teleport, prune_threshold=prune_threshold)
        check_in_range("memory_limit_gib", memory_limit_gib, low=0, high=inf, suggestion=8.0)
        self.ppr_options: dict[str, Any] = {
            "num_steps": num_steps,
            "teleport": teleport,
            "prune_threshold": prune_threshold,
            "scheme": dispersion,
            "precision": ppr_precision,
            "memory_limit_gib": memory_limit_gib,
        }

    def prepare(
        self, graph: Graph, *, nodes: Int[Tensor, " chosen"] | None = None, cache_dir: Path | None = None
    ) -> PoolingInput:
        ppr = ppr_matrix(graph, cache_dir=cache_dir, **self.ppr_options)
        if nodes is None:  # for an evaluation, which computes measures in float64
            return PoolingInput(self.encoder.prepare(graph), ppr.to(torch.float64))
        weights, used = ppr.restrict(nodes)
        return PoolingInput(self.encoder.prepare(graph, used), weights.to(torch.float32))

    def forward(self, prepared: PoolingInput) -> DirichletMixture:
        alpha = 1 + self.feature_evidence(prepared.features)
        return DirichletMixture(prepared.weights, alpha.to(prepared.weights.dtype))

    def opinions(self, graph: Graph, node: int, *, cache_dir: Path | None = None) -> Opinions:
        with self.evaluation_mode():
            posterior = self.forward(self.prepare(graph, cache_dir=cache_dir))
        row = posterior.weights.rows(torch.tensor([node])).scipy().toarray()[0]
        return Opinions(torch.from_numpy(row), posterior.components, "beliefs")

    def node_loss(self, posterior: DirichletMixture, labels: Int[Tensor, " nodes"]) -> Float[Tensor, " nodes"]:
        """Return the uncertain cross-entropy minus the weighted lower entropy bound. Paper: Eq. (13), (14)."""
        return posterior.expected_cross_entropy(labels) - self.entropy_weight * posterior.entropy_lower()
