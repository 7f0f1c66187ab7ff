"""GPN: graph posterior networks, which disperse evidence along the graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from jaxtyping import Float, Int
from torch import Tensor

from lopgpn_exp.graph import Graph, Scheme, column_stochastic, symmetric
from lopgpn_exp.models.layers import Propagation, PropagationInput
from lopgpn_exp.models.opinions import Opinions
from lopgpn_exp.models.posterior_network import PosteriorNetwork
from lopgpn_exp.posterior import Dirichlet

NORMALIZATIONS = {"symmetric": symmetric, "column_stochastic": column_stochastic}


class GPN(PosteriorNetwork):
    r"""One Dirichlet distribution per node, :math:`\alpha = 1 + \Pi \beta^{ft}`. Source: Stadler et al. (2021).

    Paper: Eq. (9), (10).

    Args:
        normalization: `symmetric` for GPN (sym), `column_stochastic` for GPN (rw).
        num_steps, teleport, dispersion: see `Dispersion`; `dispersion` is its `scheme`.
        network: options of `PosteriorNetwork`.

    Deviation: as in the public code, the evidence beta = alpha - 1 is dispersed and 1 is added afterwards, which equals
    Eq. (9) only where the rows of Pi sum to 1.
    """

    def __init__(
        self,
        *,
        normalization: Literal["symmetric", "column_stochastic"] = "symmetric",
        num_steps: int = 10,
        teleport: float = 0.1,
        dispersion: Scheme = "recursion",
        **network: Any,
    ) -> None:
        super().__init__(**network)
        self.propagation = Propagation(NORMALIZATIONS[normalization], num_steps, teleport, dispersion)

    def prepare(
        self, graph: Graph, *, nodes: Int[Tensor, " chosen"] | None = None, cache_dir: Path | None = None
    ) -> PropagationInput:
        return self.propagation.prepare(graph, nodes)

    def forward(self, prepared: PropagationInput) -> Dirichlet:
        return Dirichlet(1 + prepared.disperse(self.feature_evidence(prepared.features)))

    def opinions(self, graph: Graph, node: int, *, cache_dir: Path | None = None) -> Opinions:
        prepared = self.prepare(graph)
        with self.evaluation_mode():
            alone = Dirichlet(1 + self.feature_evidence(prepared.features))
        return Opinions(prepared.disperse.row(node), alone, "evidence")

    def node_loss(self, posterior: Dirichlet, labels: Int[Tensor, " nodes"]) -> Float[Tensor, " nodes"]:
        """Return the uncertain cross-entropy minus the weighted entropy. Paper: Eq. (7) and Sec. 3.1."""
        return posterior.expected_cross_entropy(labels) - self.entropy_weight * posterior.entropy()
