"""A Gaussian with its mean on the simplex: the posterior of Matern-GGP."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor

from lopgpn_exp.posterior.posterior import Posterior


class GaussianSimplex(Posterior):
    """N(mean, diag(variance)) per node. Paper: Sec. 5.1.

    Part of its mass lies outside of the simplex: EU and the expected cross-entropy are undefined.
    """

    def __init__(self, mean: Float[Tensor, "nodes classes"], variance: Float[Tensor, "nodes classes"]) -> None:
        self._mean, self.variance = mean, variance

    @property
    def mean(self) -> Tensor:
        return self._mean

    def __getitem__(self, nodes: Int[Tensor, " chosen"]) -> GaussianSimplex:
        return type(self)(self._mean[nodes], self.variance[nodes])

    def au(self) -> Float[Tensor, " nodes"]:
        """The entropy of the mean, the paper's proxy: the same as TU."""
        return self.tu()

    def eu_so(self) -> Float[Tensor, " nodes"]:
        """Trace of the covariance, the paper's proxy for the differential entropy."""
        return self.variance.double().sum(dim=-1)
