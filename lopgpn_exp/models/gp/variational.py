r"""Mean-field variational posteriors of one Gaussian process a class, in two forms.

Both write the functions as :math:`f = A u` (plus what is left of the prior), :math:`u \sim \mathcal N(0, I)`, and
approximate the posterior of u by :math:`\mathcal N(m_c, \mathrm{diag}(s_c^2))` for each class c. They differ in A.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from lopgpn_exp.models.gp.kernel import MaternKernel
from lopgpn_exp.models.gp.likelihood import Likelihood


class VariationalGP(nn.Module, ABC):
    """What the two forms share: parameters, bound.

    Args:
        vectors: eigenvectors of all nodes.
        nodes: the training nodes.
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
        """Mean and variance of f at some of the training nodes (positions among them; None: all)."""

    @abstractmethod
    def moments(
        self, nodes: Int[Tensor, " chosen"]
    ) -> tuple[Float[Tensor, "chosen classes"], Float[Tensor, "chosen classes"]]:
        """Mean and variance of f at any nodes."""

    def divergence(self) -> Float[Tensor, ""]:
        """KL divergence of the approximation from the white prior, summed over classes."""
        return 0.5 * (self.mean.square() + (2 * self.log_deviation).exp() - 1 - 2 * self.log_deviation).sum()

    def forward(self, batch: Int[Tensor, " batch"] | None = None) -> Float[Tensor, ""]:
        """Evidence lower bound; of a batch, an unbiased estimate of it."""
        labels = self.labels if batch is None else self.labels[batch]
        mean, variance = self.train_moments(batch)
        share = len(self.labels) / len(labels)
        return share * self.likelihood.expected_log(mean, variance, labels).sum() - self.divergence()


class InducingPoints(VariationalGP):
    r"""Inducing points at the training nodes Z, whitened by the Cholesky factor of the kernel there: GPflow's `SVGP`.

    .. math:: A_X = K_{XZ} L^{-\top}, \quad L L^\top = K_{ZZ} + 10^{-6} \sigma_f I, \quad
       \mathrm{var} f = A^2 s^2 + \mathrm{diag}(K_{XX}) - A^2 1

    At the training nodes A is L. Deviation: GPflow's jitter is 1e-6 for any sigma_f and left out of K_XZ. Robust-max
    does not see the scale of f, so a fit could shrink sigma_f until such a jitter is a noise term of the model.
    """

    JITTER = 1e-6

    @property
    def num_latent(self) -> int:
        return len(self.nodes)

    @cached_property
    def train_vectors(self) -> Float[Tensor, "train pairs"]:
        return self.vectors[self.nodes]

    def _factor(self, density: Tensor) -> Float[Tensor, "train train"]:
        covariance = (self.train_vectors * density) @ self.train_vectors.T
        jitter = self.JITTER * density.sum() / self.kernel.num_nodes  # the density sums to N sigma_f
        return torch.linalg.cholesky(covariance + jitter * torch.eye(len(covariance), dtype=covariance.dtype))

    def train_moments(self, batch: Int[Tensor, " batch"] | None) -> tuple[Tensor, Tensor]:
        factor = self._factor(self.kernel.density())
        rows = factor if batch is None else factor[batch]
        return rows @ self.mean, rows.square() @ (2 * self.log_deviation).exp()

    def moments(self, nodes: Int[Tensor, " chosen"]) -> tuple[Tensor, Tensor]:
        density = self.kernel.density()
        vectors = self.vectors[nodes]
        cross = (self.train_vectors * density) @ vectors.T
        weights = torch.linalg.solve_triangular(self._factor(density), cross, upper=False).T
        left = vectors.square() @ density - weights.square().sum(dim=1)
        spread = weights.square() @ (2 * self.log_deviation).exp()
        return weights @ self.mean, spread + left.clamp(min=0)[:, None]  # rounding may leave -1e-16


class WeightSpace(VariationalGP):
    r"""The kernel's own weights, one an eigenpair: :math:`A = \Phi S^{1/2}`, and nothing is left of the prior.

    Its cost is linear in the training nodes, of which any batch will do. Another family than `InducingPoints`, with
    another bound: independent along eigenvectors rather than along whitened training nodes.
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
