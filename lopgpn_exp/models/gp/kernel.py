"""The graph Matern kernel, defined by its spectral density."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn


class MaternKernel(nn.Module):
    r""":math:`K = \Phi\, \mathrm{diag}(S)\, \Phi^\top`. Source: Borovitskiy et al. (2021), Eq. (15).

    .. math:: S_j \propto \left(\frac{2\nu}{\kappa^2} + \lambda_j\right)^{-\nu}, \qquad \sum_j S_j = N \sigma_f

    - :math:`\lambda_j, \Phi`: smallest eigenpairs of the Laplacian; :math:`N`: number of nodes.
    - The variance of f, averaged over the nodes, is :math:`\sigma_f`.
    - :math:`\nu, \kappa, \sigma_f` are positive; their logarithms are trained.

    For large nu, S approaches the heat kernel :math:`e^{-\kappa^2 \lambda / 2}`. To be accurate in this limit, log S is
    computed relative to its value at eigenvalue 0.
    """

    def __init__(
        self, eigenvalues: Float[Tensor, " pairs"], num_nodes: int, *, nu: float, kappa: float, sigma_f: float
    ) -> None:
        super().__init__()
        self.eigenvalues, self.num_nodes = eigenvalues, num_nodes
        self.log_values = nn.Parameter(torch.tensor([nu, kappa, sigma_f], dtype=torch.float64).log())

    def density(self) -> Float[Tensor, " pairs"]:
        """Return S, the variance along each eigenvector."""
        nu, kappa, sigma_f = self.log_values.exp()
        relative = -nu * torch.log1p(self.eigenvalues * kappa.square() / (2 * nu))
        return torch.softmax(relative, dim=0) * (self.num_nodes * sigma_f)

    def values(self) -> dict[str, float]:
        """Return the current nu, kappa and sigma_f."""
        return dict(zip(("nu", "kappa", "sigma_f"), map(math.exp, self.log_values.tolist()), strict=True))
