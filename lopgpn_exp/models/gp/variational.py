r"""Mean-field variational posteriors with one Gaussian process per class, in two forms.

Both write the functions as :math:`f = A u` plus the part of the prior that u does not explain, with
:math:`u \sim \mathcal N(0, I)`, and approximate the posterior of u by :math:`\mathcal N(m_c, \mathrm{diag}(s_c^2))` for
each class c. They differ in A.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from lopgpn_exp.models.gp.factor import FactorMoments, factor_covariance
from lopgpn_exp.models.gp.kernel import MaternKernel
from lopgpn_exp.models.gp.likelihood import Likelihood


class VariationalGP(nn.Module, ABC):
    """Base class of the two forms: variational parameters and the bound.

    `vectors` are the eigenvectors of the Laplacian; `nodes` and `labels` are the training nodes and their classes.
    """

    def __init__(
        self,
        kernel: MaternKernel,
        likelihood: Likelihood,
        vectors: Float[Tensor, "nodes pairs"],
        nodes: Int[Tensor, " train"],
        labels: Int[Tensor, " train"],
        *,
        num_classes: int,
    ) -> None:
        super().__init__()
        self.kernel, self.likelihood = kernel, likelihood
        self.vectors, self.nodes, self.labels = vectors, nodes, labels
        self.mean = nn.Parameter(torch.zeros(self.num_latent, num_classes, dtype=torch.float64))
        self.log_deviation = nn.Parameter(torch.zeros(self.num_latent, num_classes, dtype=torch.float64))

    @property
    @abstractmethod
    def num_latent(self) -> int:
        """Length of u."""

    @abstractmethod
    def train_moments(self, batch: Int[Tensor, " batch"] | None) -> tuple[Tensor, Tensor]:
        """Return mean and variance of f at some training nodes, given as positions in `nodes` (None: all)."""

    @abstractmethod
    def moments(
        self, nodes: Int[Tensor, " chosen"]
    ) -> tuple[Float[Tensor, "chosen classes"], Float[Tensor, "chosen classes"]]:
        """Return mean and variance of f at any nodes."""

    def divergence(self) -> Float[Tensor, ""]:
        """Return the KL divergence of the approximation from the standard normal prior, summed over classes."""
        return 0.5 * (self.mean.square() + (2 * self.log_deviation).exp() - 1 - 2 * self.log_deviation).sum()

    def forward(self, batch: Int[Tensor, " batch"] | None = None) -> Float[Tensor, ""]:
        """Return the evidence lower bound, or an unbiased estimate of it from a batch."""
        labels = self.labels if batch is None else self.labels[batch]
        mean, variance = self.train_moments(batch)
        scale = len(self.labels) / len(labels)
        return scale * self.likelihood.expected_log(mean, variance, labels).sum() - self.divergence()


class InducingPoints(VariationalGP):
    r"""Inducing points at the training nodes Z, whitened by the Cholesky factor of their kernel: `SVGP` in GPflow.

    .. math:: A_X = K_{XZ} L^{-\top}, \quad L L^\top = K_{ZZ} + 10^{-6} \sigma_f I, \quad
       \mathrm{var} f = A^2 s^2 + \mathrm{diag}(K_{XX}) - A^2 1

    At the training nodes A is L. Deviation: in GPflow the jitter is 1e-6 for any sigma_f, and not part of K_XZ. Since
    robust-max does not depend on the scale of f, a fit could then shrink sigma_f until the jitter acts as noise.
    """

    JITTER = 1e-6

    @property
    def num_latent(self) -> int:
        return len(self.nodes)

    @cached_property
    def train_vectors(self) -> Float[Tensor, "train pairs"]:
        return self.vectors[self.nodes].T.contiguous().T  # column by column, as LAPACK expects them

    @property
    def _relative_jitter(self) -> float:
        return self.JITTER / self.kernel.num_nodes  # relative to the sum of the density, which is N sigma_f

    def train_moments(self, batch: Int[Tensor, " batch"] | None) -> tuple[Tensor, Tensor]:
        mean, variance = FactorMoments.apply(
            self.kernel.density(), self.mean, (2 * self.log_deviation).exp(), self.train_vectors, self._relative_jitter
        )
        return (mean, variance) if batch is None else (mean[batch], variance[batch])

    @torch.no_grad()
    def moments(self, nodes: Int[Tensor, " chosen"]) -> tuple[Tensor, Tensor]:
        density = self.kernel.density()
        vectors = self.vectors[nodes]
        factor = factor_covariance(self.train_vectors.numpy(), density.numpy(), jitter=self._relative_jitter)
        scaled = self.train_vectors * density
        weights = vectors @ torch.linalg.solve_triangular(torch.from_numpy(factor), scaled, upper=False).T
        conditional = vectors.square() @ density - weights.square().sum(dim=1)
        explained = weights.square() @ (2 * self.log_deviation).exp()
        return weights @ self.mean, explained + conditional.clamp(min=0)[:, None]  # rounding can give -1e-16


class WeightSpace(VariationalGP):
    r"""The weights of the kernel, one per eigenpair: :math:`A = \Phi S^{1/2}`, which explains all of the prior.

    The cost is linear in the number of training nodes, which can be processed in batches. The posterior is independent
    along eigenvectors, whereas that of `InducingPoints` is independent along training nodes: the bounds differ.
    """

    @property
    def num_latent(self) -> int:
        return self.vectors.shape[1]

    def train_moments(self, batch: Int[Tensor, " batch"] | None) -> tuple[Tensor, Tensor]:
        return self.moments(self.nodes if batch is None else self.nodes[batch])

    def moments(self, nodes: Int[Tensor, " chosen"]) -> tuple[Tensor, Tensor]:
        density = self.kernel.density()[:, None]
        vectors = self.vectors[nodes]
        return vectors @ (density.sqrt() * self.mean), vectors.square() @ (density * (2 * self.log_deviation).exp())
