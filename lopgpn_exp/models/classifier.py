"""Graph neural networks as classifiers: GCN and GAT."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal

from jaxtyping import Float, Int
from torch import Tensor

from lopgpn_exp.graph import Graph
from lopgpn_exp.models.base import GradientModel
from lopgpn_exp.models.layers import EncoderKind, build_encoder
from lopgpn_exp.posterior import Categorical


class Classifier(GradientModel):
    """A softmax over the output of an encoder, trained by cross-entropy.

    Args:
        encoder: `gcn` (Kipf and Welling, 2017), `gat` (Velickovic et al., 2018), `appnp`, or `mlp` without edges.
        hidden_dim: width of the hidden layer.
        dropout: dropout probability of the hidden layer.
        heads: number of attention heads in the first layer of `gat`; together they have `hidden_dim` units.

    Its posterior keeps the logits, so post-hoc steps can use their energy, and `embed` gives the hidden layer.
    """

    loss_reduction: ClassVar[Literal["sum", "mean"]] = "mean"
    offers: ClassVar[frozenset[str]] = frozenset({"logits", "hidden layer", "dropout"})

    def __init__(
        self,
        *,
        num_features: int,
        num_classes: int,
        encoder: EncoderKind = "gcn",
        hidden_dim: int = 64,
        dropout: float = 0.5,
        heads: int = 8,
    ) -> None:
        super().__init__()
        self.encoder = build_encoder(encoder, num_features, hidden_dim, num_classes, dropout=dropout, heads=heads)

    def prepare(
        self, graph: Graph, *, nodes: Int[Tensor, " chosen"] | None = None, cache_dir: Path | None = None
    ) -> Any:
        return self.encoder.prepare(graph, nodes)

    def forward(self, prepared: Any) -> Categorical:
        return Categorical.from_logits(self.encoder(prepared))

    def node_loss(self, posterior: Categorical, labels: Int[Tensor, " nodes"]) -> Float[Tensor, " nodes"]:
        return posterior.expected_cross_entropy(labels)

    def embed(self, graph: Graph) -> Float[Tensor, "nodes hidden"]:
        """Return the last hidden layer of every node."""
        with self.evaluation_mode():
            return self.encoder.embed(self.encoder.prepare(graph))
