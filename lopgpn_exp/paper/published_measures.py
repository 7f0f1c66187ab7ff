"""Uncertainty measures as the paper's public code computes them: textbook formulas in float32, or Dirichlet draws.

They reproduce published numbers. The measures by definition, which every other part of the project uses, are
those of `lopgpn_exp.posterior`.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lopgpn_exp.posterior import Dirichlet

# From this total count on, the public code replaces the entropy of a Dirichlet by its leading terms.
APPROXIMATE_FROM = 1e4
DRAWS_PER_BLOCK = 50


class TextbookDirichlet(Dirichlet):
    """A Dirichlet whose measures are computed in float32 by the formulas of the public code.

    TU, AU and the entropy subtract numbers of similar size, so they have an error of about 1e-7 times these numbers:
    nodes with almost no evidence become ties in TU, and EU = TU - AU of nodes with much evidence is mostly rounding.
    """

    def __init__(self, alpha: Float[Tensor, "nodes classes"]) -> None:
        super().__init__(alpha.float())

    def tu(self) -> Float[Tensor, " nodes"]:
        return _categorical_entropy(self.mean).double()

    def au(self) -> Float[Tensor, " nodes"]:
        gaps = torch.digamma(self.alpha_0[:, None] + 1) - torch.digamma(self.alpha + 1)
        return (self.mean * gaps).sum(dim=-1).double()

    def eu(self) -> Float[Tensor, " nodes"]:
        return (self.tu().float() - self.au().float()).double()

    def eu_pc(self) -> Float[Tensor, " nodes"]:
        return -self.alpha_0.double()

    def eu_so(self) -> Float[Tensor, " nodes"]:
        alpha, alpha_0, num_classes = self.alpha, self.alpha_0, self.alpha.shape[1]
        constant = 0.5 * (num_classes - 1) * (1 + math.log(2 * math.pi))
        leading = constant + 0.5 * alpha.log().sum(dim=-1) - (num_classes - 0.5) * alpha_0.log()
        log_beta = alpha.lgamma().sum(dim=-1) - alpha_0.lgamma()
        exact = log_beta + (alpha_0 - num_classes) * alpha_0.digamma() - ((alpha - 1) * alpha.digamma()).sum(dim=-1)
        return torch.where(alpha_0 >= APPROXIMATE_FROM, leading, exact).double()


class DrawnDirichlet(TextbookDirichlet):
    """AU is the mean entropy of draws from the Dirichlet, as in the public code before March 2024; EU is TU - AU.

    Args:
        expected_entropy: see `draw_expected_entropy`.
        entropy_of: the distribution whose entropy is EU_SO, by default this one.
    """

    def __init__(
        self,
        alpha: Float[Tensor, "nodes classes"],
        *,
        expected_entropy: Float[Tensor, " nodes"],
        entropy_of: Dirichlet | None = None,
    ) -> None:
        super().__init__(alpha)
        self.expected_entropy = expected_entropy
        self.entropy_of = None if entropy_of is None else TextbookDirichlet(entropy_of.alpha)

    def __getitem__(self, nodes: Int[Tensor, " chosen"]) -> DrawnDirichlet:
        entropy_of = None if self.entropy_of is None else self.entropy_of[nodes]
        return DrawnDirichlet(self.alpha[nodes], expected_entropy=self.expected_entropy[nodes], entropy_of=entropy_of)

    def au(self) -> Float[Tensor, " nodes"]:
        return self.expected_entropy.double()

    def eu_so(self) -> Float[Tensor, " nodes"]:
        return super().eu_so() if self.entropy_of is None else self.entropy_of.eu_so()


def draw_expected_entropy(
    alpha: Float[Tensor, "nodes classes"], *, num_draws: int, generator: np.random.Generator
) -> Float[Tensor, " nodes"]:
    """Return the mean entropy of draws from each Dir(alpha), in float32."""
    counts = alpha.float().numpy()
    total = torch.zeros(len(counts))
    for start in range(0, num_draws, DRAWS_PER_BLOCK):  # a block at a time, since all draws take gigabytes
        shape = (min(DRAWS_PER_BLOCK, num_draws - start), *counts.shape)
        gammas = torch.from_numpy(generator.standard_gamma(counts, size=shape, dtype=np.float32))
        gammas = gammas.clamp(min=torch.finfo(torch.float32).tiny)
        total += _categorical_entropy(gammas / gammas.sum(dim=-1, keepdim=True)).sum(dim=0)
    return total / num_draws


def _categorical_entropy(probabilities: Float[Tensor, "*shape classes"]) -> Float[Tensor, "*shape"]:
    """Return the entropy as `torch.distributions.Categorical` computes it, with the same clamping."""
    normalized = probabilities / probabilities.sum(dim=-1, keepdim=True)
    epsilon = torch.finfo(probabilities.dtype).eps
    return -(normalized.clamp(min=epsilon, max=1 - epsilon).log() * normalized).sum(dim=-1)
