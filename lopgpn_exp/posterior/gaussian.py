"""A Gaussian around a point of the simplex: Matern-GGP's posterior."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor

from lopgpn_exp.posterior.base import Posterior


class GaussianSimplex(Posterior):
    """N(mean, diag(variance)) a node. Paper: Sec. 5.1.

    Part of its mass lies outside the simplex, so the additive decomposition and an expected cross-entropy do not exist.
    """

    def __init__(self, mean: Float[Tensor, "nodes classes"], variance: Float[Tensor, "nodes classes"]) -> None:
        self._mean, self.variance = mean, variance

    @property
    def mean(self) -> Tensor:
        return self._mean

    def __getitem__(self, nodes: Int[Tensor, " chosen"]) -> GaussianSimplex:
        return GaussianSimplex(self._mean[nodes], self.variance[nodes])

    def au(self) -> Float[Tensor, " nodes"]:
        """The entropy of the mean, which the paper takes as a proxy: the same as TU."""
        return self.tu()

    def eu_so(self) -> Float[Tensor, " nodes"]:
        """Trace of the covariance, the paper's proxy for the differential entropy."""
        return self.variance.double().sum(dim=-1)
