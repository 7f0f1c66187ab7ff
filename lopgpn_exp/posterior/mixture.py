"""The mixture of Dirichlets that linear opinion pooling gives: LOP-GPN's posterior."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lopgpn_exp.graph import Matrix
from lopgpn_exp.posterior.base import Posterior, _at
from lopgpn_exp.posterior.dirichlet import Dirichlet
from lopgpn_exp.posterior.monte_carlo import Estimate, overlap
from lopgpn_exp.posterior.special import categorical_entropy


class DirichletMixture(Posterior):
    r"""Node i believes :math:`\sum_j w_{ij} \mathrm{Dir}(\alpha_j)`. Paper: Eq. (11).

    Args:
        weights: row-stochastic, one row a node, one column a component. Components are shared by all nodes.
        alpha: pseudo-counts of the components.
    """

    def __init__(self, weights: Matrix, alpha: Float[Tensor, "components classes"]) -> None:
        self.weights, self.components = weights, Dirichlet(alpha)

    @property
    def mean(self) -> Tensor:
        return self.weights @ self.components.mean

    @property
    def num_nodes(self) -> int:
        return self.weights.shape[0]

    def __getitem__(self, nodes: Int[Tensor, " chosen"]) -> DirichletMixture:
        return DirichletMixture(self.weights.rows(nodes), self.components.alpha)

    def expected_cross_entropy(self, labels: Int[Tensor, " nodes"]) -> Float[Tensor, " nodes"]:
        """Uncertain cross-entropy, linear in the components. Paper: Eq. (7), (13)."""
        alpha = self.components.alpha
        return _at(self.weights @ (torch.digamma(self.components.alpha_0)[:, None] - torch.digamma(alpha)), labels)

    def entropy_lower(self) -> Float[Tensor, " nodes"]:
        """Lower bound on the differential entropy, the mean of the components'. Paper: Eq. (14)."""
        return (self.weights @ self.components.entropy()[:, None]).squeeze(1)

    def entropy_upper(self) -> Float[Tensor, " nodes"]:
        """Upper bound, the lower one plus the entropy of the weights. Paper: Eq. (14)."""
        return self.entropy_lower() + self.weights.row_entropy()

    def entropy_exact(self, *, num_draws: int = 1000, seed: int = 0) -> Estimate:
        """The differential entropy itself, between the bounds of Eq. (14), by Monte Carlo: see `monte_carlo`."""
        lower, upper = self._exact.entropy_lower().detach(), self._exact.entropy_upper().detach()
        alpha = self._exact.components.alpha.detach()
        shared = overlap(self.weights.scipy(), alpha, num_draws=num_draws, seed=seed)
        return Estimate(torch.maximum(upper - shared.value, lower), shared.standard_error)

    def tu(self) -> Float[Tensor, " nodes"]:
        return categorical_entropy(self._exact.mean)

    def au(self) -> Float[Tensor, " nodes"]:
        """Aleatoric uncertainty, linear in the components. Paper: Eq. (12)."""
        return self._pooled(Dirichlet.au)

    def eu(self) -> Float[Tensor, " nodes"]:
        """Epistemic uncertainty: how much the components disagree, plus what each does not know. Paper: Eq. (4)."""
        disagreement = self.tu() - self._pooled(Dirichlet.tu)  # >= 0 by concavity, up to rounding
        return disagreement.clamp(min=0) + self._pooled(Dirichlet.eu)

    def eu_pc(self) -> Float[Tensor, " nodes"]:
        """Minus the pooled total count."""
        return self._pooled(Dirichlet.eu_pc)

    def eu_so(self) -> Float[Tensor, " nodes"]:
        """Second-order epistemic uncertainty by its upper bound. Paper: Eq. (5), (14) and Sec. 4.1."""
        return self._exact.entropy_upper()

    def _pooled(self, measure: Callable[[Dirichlet], Tensor]) -> Tensor:
        """A measure of the components, averaged with the weights."""
        return (self._exact.weights @ measure(self._exact.components)[:, None]).squeeze(1)

    @cached_property
    def _exact(self) -> DirichletMixture:
        """The same in float64, for measures."""
        return DirichletMixture(self.weights.to(torch.float64), self.components.alpha.double())
