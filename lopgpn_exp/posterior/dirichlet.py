"""The Dirichlet distribution: the posterior of GPN and GKDE."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lopgpn_exp.posterior.monte_carlo import sample_log_dirichlet
from lopgpn_exp.posterior.posterior import Posterior, check_num_draws, select_labels
from lopgpn_exp.posterior.special import dirichlet_entropy, log_gap


class Dirichlet(Posterior):
    """Dir(alpha) per node, where alpha are the pseudo-counts.

    Deviation: measures are accurate at any alpha (see `special`); the paper's public code switches to an approximation
    at alpha_0 = 1e4 and subtracts in float32.
    """

    def __init__(self, alpha: Float[Tensor, "nodes classes"]) -> None:
        self.alpha = alpha

    @property
    def alpha_0(self) -> Float[Tensor, " nodes"]:
        """Total pseudo-count."""
        return self.alpha.sum(dim=-1)

    @property
    def mean(self) -> Tensor:
        return self.alpha / self.alpha_0[:, None]

    def __getitem__(self, nodes: Int[Tensor, " chosen"]) -> Dirichlet:
        return type(self)(self.alpha[nodes])

    @cached_property
    def loss_terms(self) -> tuple[Float[Tensor, "nodes classes"], Float[Tensor, " nodes"]]:
        r"""The uncertain cross-entropy :math:`\psi(\alpha_0) - \psi(\alpha_k)` of each class k, and the entropy.

        In float32 on a CPU a compiled kernel computes them (see `loss_kernel`).
        """
        if self.alpha.device.type == "cpu" and self.alpha.dtype == torch.float32:
            # deferred import: numba is slow to load
            from lopgpn_exp.posterior.loss_kernel import DirichletLossTerms

            return DirichletLossTerms.apply(self.alpha)
        gaps = torch.digamma(self.alpha_0)[:, None] - torch.digamma(self.alpha)
        return gaps, dirichlet_entropy(self.alpha)

    def expected_cross_entropy(self, labels: Int[Tensor, " nodes"]) -> Float[Tensor, " nodes"]:
        r"""Uncertain cross-entropy :math:`\psi(\alpha_0) - \psi(\alpha_y)`. Paper: Eq. (7)."""
        return select_labels(self.loss_terms[0], labels)

    def entropy(self) -> Float[Tensor, " nodes"]:
        """Differential entropy H(Q). Paper: Eq. (5)."""
        return self.loss_terms[1]

    def divergence_from(self, prior: Float[Tensor, "nodes classes"]) -> Float[Tensor, " nodes"]:
        r"""Divergence :math:`\mathrm{KL}(\mathrm{Dir}(\alpha) \,\|\, \mathrm{Dir}(\beta))` from a prior beta.

        It is minus the entropy of alpha plus its cross-entropy with beta, which has no term that grows with alpha.
        """
        gaps, entropy = self.loss_terms
        log_normaliser = torch.lgamma(prior).sum(dim=-1) - torch.lgamma(prior.sum(dim=-1))
        return ((prior - 1) * gaps).sum(dim=-1) + log_normaliser - entropy

    def sample(self, num_draws: int, *, seed: int) -> Float[Tensor, "draws nodes classes"]:
        """Draw class probabilities, in float64."""
        check_num_draws(num_draws)
        alpha = np.tile(self.alpha.detach().double().numpy(), (num_draws, 1))
        draws = np.exp(sample_log_dirichlet(alpha, np.random.default_rng(seed)))
        return torch.from_numpy(draws).reshape(num_draws, *self.alpha.shape)

    def au(self) -> Float[Tensor, " nodes"]:
        """Aleatoric uncertainty: the expected entropy. Paper: Eq. (3)."""
        return self.tu() - self.eu()

    def eu(self) -> Float[Tensor, " nodes"]:
        """Epistemic uncertainty: the mutual information of label and class probabilities. Paper: Eq. (4)."""
        alpha = self.alpha.double()
        alpha_0 = alpha.sum(dim=-1)
        return (alpha / alpha_0[:, None] * log_gap(alpha)).sum(dim=-1) - log_gap(alpha_0)

    def eu_pc(self) -> Float[Tensor, " nodes"]:
        """Pseudo-count-based epistemic uncertainty: minus the total count. Paper: Sec. 2.2."""
        return -self.alpha.double().sum(dim=-1)

    def eu_so(self) -> Float[Tensor, " nodes"]:
        """Second-order epistemic uncertainty: the differential entropy. Paper: Eq. (5)."""
        return dirichlet_entropy(self.alpha.double())


class EvidentialDirichlet(Dirichlet):
    r"""A Dirichlet distribution as an opinion of subjective logic, with beliefs :math:`b = (\alpha - 1) / \alpha_0`.

    Source: Zhao et al. (2020), "Uncertainty Aware Semi-Supervised Learning on Graph Data".
    """

    def vacuity(self) -> Float[Tensor, " nodes"]:
        r"""Lack of evidence: :math:`K / \alpha_0`."""
        return self.alpha.shape[1] / self.alpha.double().sum(dim=-1)

    def dissonance(self) -> Float[Tensor, " nodes"]:
        r"""Conflicting evidence: for each class, the share of the other beliefs that balances its own.

        .. math:: \sum_k b_k \frac{\sum_{j \ne k} b_j \, (1 - |b_j - b_k| / (b_j + b_k))}{\sum_{j \ne k} b_j}

        Terms without belief are 0.
        """
        belief = (self.alpha.double() - 1).clamp(min=0) / self.alpha.double().sum(dim=-1, keepdim=True)
        total = belief.sum(dim=-1)
        result = torch.zeros_like(total)
        for k in range(belief.shape[1]):  # one class at a time: K x K values per node would not fit for many classes
            own = belief[:, k : k + 1]
            sums = (belief + own).clamp(min=torch.finfo(belief.dtype).tiny)
            balance = torch.where((belief > 0) & (own > 0), 1 - (belief - own).abs() / sums, 0.0)
            balance[:, k] = 0.0
            others = total - own[:, 0]
            share = (belief * balance).sum(dim=-1) / others.clamp(min=torch.finfo(belief.dtype).tiny)
            result += own[:, 0] * torch.where(others > 0, share, 0.0)
        return result
