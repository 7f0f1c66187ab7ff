"""CUQ-GNN: a posterior network on the embeddings of a graph neural network."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from jaxtyping import Float, Int
from torch import Tensor

from lopgpn_exp.graph import Graph
from lopgpn_exp.models.layers import EncoderKind
from lopgpn_exp.models.posterior_network import PosteriorNetwork
from lopgpn_exp.posterior import EvidentialDirichlet


class CUQGNN(PosteriorNetwork):
    r"""The graph is used by the encoder alone: evidence is not propagated. Source: Damke and Huellermeier (2024).

    .. math:: \alpha_c = 1 + \exp(\log q(z, c) + \tfrac d2 \log 4\pi), \qquad
              z = W_2 \, \mathrm{GNN}(\mathrm{dropout}(\mathrm{ReLU}(W_1 x)))

    Args:
        encoder: the GNN. `appnp` has 10 steps with teleport 0.1; `gcn` and `gat` have two layers of `hidden_dim` units.
        network: options of `PosteriorNetwork`.
    """

    added_options: ClassVar[Mapping[str, Any]] = {}  # those of PosteriorNetwork have other defaults here
    embeds_convolutions: ClassVar[bool] = True

    def __init__(self, *, encoder: EncoderKind = "appnp", **network: Any) -> None:
        super().__init__(encoder=encoder, **network)

    def prepare(
        self, graph: Graph, *, nodes: Int[Tensor, " chosen"] | None = None, cache_dir: Path | None = None
    ) -> Any:
        return self.encoder.prepare(graph, nodes)

    def forward(self, prepared: Any) -> EvidentialDirichlet:
        return EvidentialDirichlet(1 + self.feature_evidence(prepared))

    def node_loss(self, posterior: EvidentialDirichlet, labels: Int[Tensor, " nodes"]) -> Float[Tensor, " nodes"]:
        """Return the uncertain cross-entropy minus the weighted entropy, as GPN."""
        return posterior.expected_cross_entropy(labels) - self.entropy_weight * posterior.entropy()
