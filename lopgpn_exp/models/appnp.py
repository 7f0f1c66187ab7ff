"""APPNP: first-order predictions, propagated along the graph."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lopgpn_exp.graph import Graph, Scheme, symmetric
from lopgpn_exp.models.base import GradientModel
from lopgpn_exp.models.layers import Encoder, Propagation, PropagationInput
from lopgpn_exp.models.opinions import Opinions
from lopgpn_exp.posterior import Categorical


class APPNP(GradientModel):
    """Disperses the logits of a perceptron along the graph, then applies a softmax. Source: Gasteiger et al. (2019).

    Args:
        hidden_dim: width of the hidden layer.
        dropout: dropout probability of the hidden layer.
        num_steps, teleport, dispersion: see `Dispersion`; `dispersion` is its `scheme`.
        disperse_what: `logits`, or `probabilities` after the softmax.

    Deviation: the paper says that APPNP disperses class probabilities (Sec. 3.2); the published numbers and APPNP's own
    code disperse logits.
    """

    loss_reduction: ClassVar[Literal["sum", "mean"]] = "mean"

    offers: ClassVar[frozenset[str]] = frozenset({"logits", "dropout"})

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
        self.propagation = Propagation(symmetric, num_steps, teleport, dispersion)
        self.disperse_what = disperse_what
        if disperse_what != "logits":
            self.offers = self.offers - {"logits"}  # type: ignore[misc]

    def prepare(
        self, graph: Graph, *, nodes: Int[Tensor, " chosen"] | None = None, cache_dir: Path | None = None
    ) -> PropagationInput:
        return self.propagation.prepare(graph, nodes, self.encoder)

    def forward(self, prepared: PropagationInput) -> Categorical:
        logits = self.encoder(prepared.features)
        if self.disperse_what == "logits":
            return Categorical.from_logits(prepared.disperse(logits))
        dispersed = prepared.disperse(torch.softmax(logits, dim=-1))
        probabilities = dispersed / dispersed.sum(dim=-1, keepdim=True)
        # Extreme features can make a probability exactly 0, whose logarithm would be infinite.
        return Categorical(torch.log(probabilities.clamp_min(torch.finfo(probabilities.dtype).tiny)))

    def opinions(self, graph: Graph, node: int, *, cache_dir: Path | None = None) -> Opinions:
        prepared = self.prepare(graph)
        with self.evaluation_mode():
            alone = Categorical.from_logits(self.encoder(prepared.features))
        return Opinions(prepared.disperse.row(node), alone, self.disperse_what)

    def node_loss(self, posterior: Categorical, labels: Int[Tensor, " nodes"]) -> Float[Tensor, " nodes"]:
        return posterior.expected_cross_entropy(labels)
