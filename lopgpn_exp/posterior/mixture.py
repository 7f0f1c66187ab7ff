"""The mixture of Dirichlets that results from linear opinion pooling: the posterior of LOP-GPN."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lopgpn_exp.graph import Matrix
from lopgpn_exp.posterior.dirichlet import Dirichlet
from lopgpn_exp.posterior.monte_carlo import Estimate, estimate_overlap, sample_log_dirichlet
from lopgpn_exp.posterior.posterior import Posterior, check_num_draws, select_labels
from lopgpn_exp.posterior.special import categorical_entropy


class DirichletMixture(Posterior):
    r"""The mixture :math:`\sum_j w_{ij} \mathrm{Dir}(\alpha_j)` of each node i. Paper: Eq. (11).

    Args:
        weights: row-stochastic, one row per node, one column per component. All nodes share the components.
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
        return type(self)(self.weights.rows(nodes), self.components.alpha)

    def expected_cross_entropy(self, labels: Int[Tensor, " nodes"]) -> Float[Tensor, " nodes"]:
        """Uncertain cross-entropy, linear in the components. Paper: Eq. (7), (13)."""
        return select_labels(self.weights @ self.components.loss_terms[0], labels)

    def entropy_lower(self) -> Float[Tensor, " nodes"]:
        """Lower bound on the differential entropy: the weighted mean of the components' entropies. Paper: Eq. (14)."""
        return (self.weights @ self.components.entropy()[:, None]).squeeze(1)

    def entropy_upper(self) -> Float[Tensor, " nodes"]:
        """Upper bound on the differential entropy: the lower bound plus the entropy of the weights. Paper: Eq. (14)."""
        return self.entropy_lower() + self.weights.row_entropy()

    def entropy_exact(self, *, num_draws: int = 1000, seed: int = 0) -> Estimate:
        """Estimate the differential entropy by Monte Carlo (see `monte_carlo`)."""
        lower, upper = self._float64.entropy_lower().detach(), self._float64.entropy_upper().detach()
        alpha = self._float64.components.alpha.detach()
        overlap = estimate_overlap(self.weights.scipy(), alpha, num_draws=num_draws, seed=seed)
        return Estimate(torch.maximum(upper - overlap.value, lower), overlap.standard_error)

    def sample(self, num_draws: int, *, seed: int) -> Float[Tensor, "draws nodes classes"]:
        """Draw a component of each node by its weights, then class probabilities from it, in float64."""
        check_num_draws(num_draws)
        generator = np.random.default_rng(seed)
        weights, alpha = self.weights.scipy(), self.components.alpha.detach().double().numpy()
        chosen = np.empty((num_draws, self.num_nodes), dtype=np.int64)
        for node in range(self.num_nodes):
            row = slice(weights.indptr[node], weights.indptr[node + 1])
            cumulative = np.cumsum(weights.data[row])
            position = np.searchsorted(cumulative[:-1], generator.random(num_draws) * cumulative[-1], side="right")
            chosen[:, node] = weights.indices[row][position]
        draws = np.exp(sample_log_dirichlet(alpha[chosen.ravel()], generator))
        return torch.from_numpy(draws).reshape(num_draws, self.num_nodes, alpha.shape[1])

    def tu(self) -> Float[Tensor, " nodes"]:
        return categorical_entropy(self._float64.mean)

    def au(self) -> Float[Tensor, " nodes"]:
        """Aleatoric uncertainty: linear in the components. Paper: Eq. (12)."""
        return self._pool(Dirichlet.au)

    def eu(self) -> Float[Tensor, " nodes"]:
        """Epistemic uncertainty: the disagreement of the components plus their mean EU. Paper: Eq. (4)."""
        disagreement = self.tu() - self._pool(Dirichlet.tu)  # >= 0 by concavity, up to rounding
        return disagreement.clamp(min=0) + self._pool(Dirichlet.eu)

    def eu_pc(self) -> Float[Tensor, " nodes"]:
        """Pseudo-count-based epistemic uncertainty: minus the pooled total count."""
        return self._pool(Dirichlet.eu_pc)

    def eu_so(self) -> Float[Tensor, " nodes"]:
        """Second-order epistemic uncertainty: the upper entropy bound. Paper: Eq. (5), (14) and Sec. 4.1."""
        return self._pool(Dirichlet.eu_so) + self._float64.weights.row_entropy()

    def _pool(self, measure: Callable[[Dirichlet], Tensor]) -> Tensor:
        """Average a measure of the components with the weights."""
        return (self._float64.weights @ measure(self._float64.components)[:, None]).squeeze(1)

    @cached_property
    def _float64(self) -> DirichletMixture:
        """The same mixture in float64, for measures."""
        return DirichletMixture(self.weights.to(torch.float64), self.components.alpha.double())
