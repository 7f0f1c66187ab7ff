"""APPNP: first-order predictions dispersed along the graph."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lopgpn_exp.graph import Graph, Scheme, symmetric
from lopgpn_exp.models.base import GradientModel
from lopgpn_exp.models.dispersed import DispersedInput, DispersionPlan
from lopgpn_exp.models.encoder import Encoder
from lopgpn_exp.models.opinions import Opinions
from lopgpn_exp.posterior import Categorical


class APPNP(GradientModel):
    """Logits of a perceptron, dispersed, softmax last. Source: Gasteiger et al. (2019).

    Args:
        disperse_what: `logits`, or `probabilities` after the softmax.

    Deviation: the paper says that APPNP disperses class probabilities (Sec. 3.2); its numbers, and APPNP's own code,
    disperse logits.
    """

    loss_reduction: ClassVar[Literal["sum", "mean"]] = "mean"

    def __init__(
        self,
        *,
        num_features: int,
        num_classes: int,
        hidden_dim: int = 64,
        dropout: float = 0.5,
        num_steps: int = 10,
        teleport: float = 0.1,
        dispersion: Scheme = "recursion",
        disperse_what: Literal["logits", "probabilities"] = "logits",
    ) -> None:
        super().__init__()
        self.encoder = Encoder(num_features, hidden_dim, num_classes, dropout=dropout)
        self.plan = DispersionPlan(symmetric, num_steps, teleport, dispersion)
        self.disperse_what = disperse_what

    def prepare(
        self, graph: Graph, *, nodes: Int[Tensor, " chosen"] | None = None, cache_dir: Path | None = None
    ) -> DispersedInput:
        return self.plan.prepare(graph, nodes)

    def forward(self, prepared: DispersedInput) -> Categorical:
        logits = self.encoder(prepared.features)
        if self.disperse_what == "logits":
            log_probabilities = torch.log_softmax(prepared.disperse(logits), dim=-1)
        else:
            dispersed = prepared.disperse(torch.softmax(logits, dim=-1))
            probabilities = dispersed / dispersed.sum(dim=-1, keepdim=True)
            # Extreme features make a softmax exactly 0; its logarithm is then that of the smallest number there is.
            log_probabilities = torch.log(probabilities.clamp_min(torch.finfo(probabilities.dtype).tiny))
        posterior = Categorical(log_probabilities)
        return posterior if prepared.nodes is None else posterior[prepared.nodes]

    def opinions(self, graph: Graph, node: int, *, cache_dir: Path | None = None) -> Opinions:
        prepared = self.prepare(graph)
        with self.evaluating():
            alone = Categorical(torch.log_softmax(self.encoder(prepared.features), dim=-1))
        return Opinions(prepared.disperse.row(node), alone, self.disperse_what)

    def node_loss(self, posterior: Categorical, labels: Int[Tensor, " nodes"]) -> Float[Tensor, " nodes"]:
        return posterior.expected_cross_entropy(labels)
