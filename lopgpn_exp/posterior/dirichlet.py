"""The Dirichlet distribution: the posterior of GPN and GKDE."""

from __future__ import annotations

from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lopgpn_exp.posterior.posterior import Posterior, select_labels
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
