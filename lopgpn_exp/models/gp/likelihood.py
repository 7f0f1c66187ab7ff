"""From latent functions, one a class, to class probabilities."""

from __future__ import annotations

import math
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import one_hot

from lopgpn_exp.errors import InputError

# A latent variance of exactly zero (a node on which no eigenvector lives) divides by zero; this is far below any other.
LEAST_VARIANCE = 1e-12


@runtime_checkable
class Likelihood(Protocol):
    """p(y | f) of independent Gaussian f_1, ..., f_K at each node."""

    def expected_log(
        self,
        mean: Float[Tensor, "nodes classes"],
        variance: Float[Tensor, "nodes classes"],
        labels: Int[Tensor, " nodes"],
    ) -> Float[Tensor, " nodes"]:
        """E[log p(y | f)] of each node."""
        ...

    def predict(
        self, mean: Float[Tensor, "nodes classes"], variance: Float[Tensor, "nodes classes"]
    ) -> tuple[Float[Tensor, "nodes classes"], Float[Tensor, "nodes classes"]]:
        """Mean and variance of the class probabilities (of the label's indicator, where p(y | f) is that)."""
        ...


class RobustMax:
    r"""The class with the largest function, up to label noise. Source: Girolami & Rogers (2006), GPflow's `MultiClass`.

    .. math:: p(y \mid f) = 1 - \epsilon \text{ if } y = \arg\max_k f_k, \text{ else } \tfrac{\epsilon}{K-1}

    The probability that class c has the largest function is a one-dimensional integral over :math:`f_c`,

    .. math:: P_c = \int \mathcal N(x; \mu_c, \sigma_c^2) \prod_{k \ne c} \Phi\big((x - \mu_k)/\sigma_k\big)\, dx,

    by Gauss-Hermite quadrature. The label's indicator has mean p and variance p - p^2.

    Deviation: GPflow squeezes each factor into [1e-4, 1 - 1e-4], which the integral does not need; predicted
    probabilities are divided by their sum, from which quadrature alone keeps them by up to a few percent.
    """

    def __init__(self, *, epsilon: float = 1e-3, quadrature_points: int = 20) -> None:
        self.epsilon = epsilon
        points, weights = np.polynomial.hermite.hermgauss(quadrature_points)
        self.points = torch.from_numpy(points * math.sqrt(2))
        self.weights = torch.from_numpy(weights / math.sqrt(math.pi))

    def largest(self, mean: Tensor, variance: Tensor, labels: Tensor) -> Float[Tensor, " nodes"]:
        """Probability that the function of the label's class is the largest."""
        deviation = variance.clamp(min=LEAST_VARIANCE).sqrt()
        return _ProbabilityOfLargest.apply(mean, deviation, labels, self.points, self.weights)

    def expected_log(self, mean: Tensor, variance: Tensor, labels: Tensor) -> Tensor:
        largest = self.largest(mean, variance, labels)
        right, wrong = math.log1p(-self.epsilon), math.log(self.epsilon / (mean.shape[1] - 1))
        return wrong + (right - wrong) * largest

    def predict(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        num_classes = mean.shape[1]
        classes = torch.arange(num_classes)[:, None].expand(-1, len(mean))
        largest = torch.stack([self.largest(mean, variance, labels) for labels in classes], dim=1)
        largest = largest / largest.sum(dim=1, keepdim=True)
        other = self.epsilon / (num_classes - 1)
        probabilities = other + (1 - self.epsilon - other) * largest
        return probabilities, probabilities - probabilities.square()


class _ProbabilityOfLargest(torch.autograd.Function):
    """The quadrature of `RobustMax`, with its gradient written out: autograd's takes ten times as long."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, deviation: Tensor, labels: Tensor, points: Tensor, weights: Tensor) -> Tensor:
        own = labels[:, None]
        x = mean.gather(1, own) + points * deviation.gather(1, own)
        z = (x[:, :, None] - mean[:, None, :]) / deviation[:, None, :]
        factors = torch.special.erfc(z * -math.sqrt(0.5)).mul_(0.5)
        factors.masked_fill_(one_hot(labels, mean.shape[1]).bool()[:, None, :], 1.0)
        product = factors.prod(dim=2)
        ctx.save_for_backward(z, factors, product, deviation, labels, points, weights)
        return product @ weights

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        z, factors, product, deviation, labels, points, weights = ctx.saved_tensors
        # Slope of the product along x - mu_k; a factor of 0 has a density of 0, so the quotient's guard adds nothing.
        slope = torch.exp(-0.5 * z.square()).div_(math.sqrt(2 * math.pi)).div_(factors.clamp(min=1e-300))
        slope.masked_fill_(one_hot(labels, z.shape[2]).bool()[:, None, :], 0.0)
        slope *= (product * weights * grads[0][:, None])[:, :, None] / deviation[:, None, :]
        by_mean, by_deviation = -slope.sum(dim=1), -(slope * z).sum(dim=1)
        along_x = slope.sum(dim=2)
        own = labels[:, None]
        by_mean.scatter_add_(1, own, along_x.sum(dim=1, keepdim=True))
        by_deviation.scatter_add_(1, own, (along_x * points).sum(dim=1, keepdim=True))
        return by_mean, by_deviation, None, None, None


class Softmax(nn.Module):
    """gpytorch's softmax likelihood, its expectations over a fixed draw of normal numbers.

    The draw is fixed so that the bound is a function, not a random number: an optimiser can then search along a line.
    It is drawn in pairs of opposite sign, and shared by all nodes.

    Deviation: not the paper's; the paper's numbers were made with `RobustMax`.
    """

    def __init__(self, *, num_classes: int, num_samples: int = 128, seed: int = 0) -> None:
        super().__init__()
        try:
            from gpytorch.likelihoods import SoftmaxLikelihood
        except ImportError:
            raise InputError(
                "model.likelihood is softmax, which needs gpytorch",
                expected="gpytorch installed, or the default likelihood",
                hint="pip install 'lopgpn_exp[gp]', or model.likelihood=robust_max",
            ) from None
        self.likelihood = SoftmaxLikelihood(num_classes=num_classes, mixing_weights=False)
        generator = torch.Generator().manual_seed(seed)
        half = torch.randn(num_samples // 2, 1, num_classes, generator=generator, dtype=torch.float64)
        self.draw = torch.cat([half, -half])

    def _conditional(self, mean: Tensor, variance: Tensor) -> Any:
        return self.likelihood(mean + self.draw * variance.clamp(min=LEAST_VARIANCE).sqrt())

    def expected_log(self, mean: Tensor, variance: Tensor, labels: Tensor) -> Tensor:
        return self._conditional(mean, variance).log_prob(labels).mean(dim=0)

    def predict(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        probabilities = self._conditional(mean, variance).probs
        return probabilities.mean(dim=0), probabilities.var(dim=0, correction=0)
