r"""Functions of Dirichlet parameters that are accurate from 1e-6 to 1e15.

The textbook entropy of a Dirichlet subtracts numbers as large as alpha: float32 loses all digits at alpha_0 = 1e7,
float64 at 1e16. `entropy_core` and `log_gap` have the large part removed analytically, so their sums do not suffer from
cancellation.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

# Above this value the asymptotic series (eight terms) is exact in float64; below it the plain formula is accurate.
SERIES_FROM = 24.0
# Stirling's series of log Gamma and psi, combined by powers of 1/x; the last term is divided by LAST_DIVISOR.
SERIES_COEFFICIENTS, LAST_DIVISOR = (-1 / 3, -1 / 12, -1 / 90, 1 / 120, 1 / 210, -1 / 252, -1 / 210), 240


def entropy_core(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    r"""Return :math:`\log\Gamma(x) - (x-1)\psi(x) + x`, which grows like :math:`\tfrac12\log x`.

    The entropy of a Dirichlet is :math:`\sum_k f(\alpha_k) - f(\alpha_0) - (K-1)\psi(\alpha_0)`: the terms linear in
    alpha, added here as x, cancel exactly because the alpha_k sum to alpha_0.
    """
    large = x > SERIES_FROM
    small_x = torch.where(large, torch.ones_like(x), x)
    large_x = torch.where(large, x, torch.full_like(x, SERIES_FROM))
    plain = torch.lgamma(small_x) - (small_x - 1) * torch.digamma(small_x) + small_x
    y = 1 / large_x
    tail = y / LAST_DIVISOR
    for coefficient in reversed(SERIES_COEFFICIENTS):
        tail = y * (coefficient + tail)
    series = 0.5 * torch.log(large_x) + 0.5 * (1 + math.log(2 * math.pi)) + tail
    return torch.where(large, series, plain)


def dirichlet_entropy(alpha: Float[Tensor, "nodes classes"]) -> Float[Tensor, " nodes"]:
    """Return the differential entropy of each Dir(alpha). Paper: Eq. (5)."""
    alpha_0 = alpha.sum(dim=-1)
    extra = (alpha.shape[1] - 1) * torch.digamma(alpha_0)
    return entropy_core(alpha).sum(dim=-1) - entropy_core(alpha_0) - extra


def log_gap(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    r"""Return :math:`\psi(x+1) - \log x`, which is positive and falls like :math:`1/(2x)`.

    The mutual information of a Dirichlet is :math:`\sum_k \bar\theta_k g(\alpha_k) - g(\alpha_0)`.
    """
    large = x > SERIES_FROM
    small_x = torch.where(large, torch.ones_like(x), x)
    y = 1 / torch.where(large, x, torch.full_like(x, SERIES_FROM))
    y2 = y * y
    series = y * 0.5 - y2 * (1 / 12 - y2 * (1 / 120 - y2 * (1 / 252 - y2 * (1 / 240 - y2 / 132))))
    return torch.where(large, series, torch.digamma(small_x + 1) - torch.log(small_x))


def categorical_entropy(probabilities: Float[Tensor, "nodes classes"]) -> Float[Tensor, " nodes"]:
    """Return the Shannon entropy of each row (natural logarithm). Paper: Eq. (2)."""
    return -torch.xlogy(probabilities, probabilities).sum(dim=-1)
