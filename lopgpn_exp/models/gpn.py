"""GPN: graph posterior networks, which disperse evidence along the graph."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from jaxtyping import Float, Int
from torch import Tensor

from lopgpn_exp.graph import Graph, Scheme, column_stochastic, symmetric
from lopgpn_exp.models.layers import Propagation, PropagationInput
from lopgpn_exp.models.opinions import Opinions
from lopgpn_exp.models.posterior_network import PosteriorNetwork
from lopgpn_exp.posterior import Dirichlet

NORMALIZATIONS = {"symmetric": symmetric, "column_stochastic": column_stochastic}


class GPNPosterior(Dirichlet):
    """The Dirichlet distribution of a node after propagation, and the one from the features of the node itself."""

    def __init__(self, alpha: Float[Tensor, "nodes classes"], *, feature_based: Dirichlet) -> None:
        super().__init__(alpha)
        self.feature_based = feature_based

    def __getitem__(self, nodes: Int[Tensor, " chosen"]) -> GPNPosterior:
        return GPNPosterior(self.alpha[nodes], feature_based=self.feature_based[nodes])


class GPN(PosteriorNetwork):
    r"""One Dirichlet distribution per node, :math:`\alpha = 1 + \Pi \beta^{ft}`. Source: Stadler et al. (2021).

    Paper: Eq. (9), (10).

    Args:
        normalization: `symmetric` for GPN (sym), `column_stochastic` for GPN (rw).
        num_steps, teleport, dispersion: see `Dispersion`; `dispersion` is its `scheme`.
        entropy_of: the Dirichlet distribution whose entropy is the regulariser: the `posterior`, or the one from the
            `features` of the node itself, as in the public code before March 2024.
        network: options of `PosteriorNetwork`.

    Deviation: as in the public code, the evidence beta = alpha - 1 is dispersed and 1 is added afterwards, which equals
    Eq. (9) only where the rows of Pi sum to 1.
    """

    added_options: ClassVar[Mapping[str, Any]] = {**PosteriorNetwork.added_options, "entropy_of": "posterior"}

    def __init__(
        self,
        *,
        normalization: Literal["symmetric", "column_stochastic"] = "symmetric",
        num_steps: int = 10,
        teleport: float = 0.1,
        dispersion: Scheme = "recursion",
        entropy_of: Literal["posterior", "features"] = "posterior",
        **network: Any,
    ) -> None:
        super().__init__(**network)
        self.entropy_of = entropy_of
        self.propagation = Propagation(NORMALIZATIONS[normalization], num_steps, teleport, dispersion)

    def prepare(
        self, graph: Graph, *, nodes: Int[Tensor, " chosen"] | None = None, cache_dir: Path | None = None
    ) -> PropagationInput:
        return self.propagation.prepare(graph, nodes, self.encoder)

    def forward(self, prepared: PropagationInput) -> GPNPosterior:
        evidence, nodes = self.feature_evidence(prepared.features), prepared.disperse.nodes
        feature_based = Dirichlet(1 + (evidence if nodes is None else evidence[nodes]))
        return GPNPosterior(1 + prepared.disperse(evidence), feature_based=feature_based)

    def opinions(self, graph: Graph, node: int, *, cache_dir: Path | None = None) -> Opinions:
        prepared = self.prepare(graph)
        with self.evaluation_mode():
            alone = Dirichlet(1 + self.feature_evidence(prepared.features))
        return Opinions(prepared.disperse.row(node), alone, "evidence")

    def node_loss(self, posterior: GPNPosterior, labels: Int[Tensor, " nodes"]) -> Float[Tensor, " nodes"]:
        """Return the uncertain cross-entropy minus the weighted entropy. Paper: Eq. (7) and Sec. 3.1."""
        regularized = posterior.feature_based if self.entropy_of == "features" else posterior
        return posterior.expected_cross_entropy(labels) - self.entropy_weight * regularized.entropy()
