"""Likelihoods: from latent functions, one per class, to class probabilities."""

from __future__ import annotations

import math
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import one_hot

from lopgpn_exp.errors import InputError

# Avoids a division by zero at nodes where all eigenvectors, and thus the latent variance, are zero.
MIN_VARIANCE = 1e-12


@runtime_checkable
class Likelihood(Protocol):
    """p(y | f) for independent Gaussian f_1, ..., f_K at each node."""

    def expected_log(
        self,
        mean: Float[Tensor, "nodes classes"],
        variance: Float[Tensor, "nodes classes"],
        labels: Int[Tensor, " nodes"],
    ) -> Float[Tensor, " nodes"]:
        """Return E[log p(y | f)] for each node."""
        ...

    def predict(
        self, mean: Float[Tensor, "nodes classes"], variance: Float[Tensor, "nodes classes"]
    ) -> tuple[Float[Tensor, "nodes classes"], Float[Tensor, "nodes classes"]]:
        """Return mean and variance of the class probabilities (for `RobustMax`, of the class indicators)."""
        ...


class RobustMax:
    r"""The label is the class with the largest function value, up to label noise.

    Source: Girolami & Rogers (2006); `MultiClass` in GPflow.

    .. math:: p(y \mid f) = 1 - \epsilon \text{ if } y = \arg\max_k f_k, \text{ else } \tfrac{\epsilon}{K-1}

    The probability that class c has the largest value is a one-dimensional integral over :math:`f_c`,

    .. math:: P_c = \int \mathcal N(x; \mu_c, \sigma_c^2) \prod_{k \ne c} \Phi\big((x - \mu_k)/\sigma_k\big)\, dx,

    computed by Gauss-Hermite quadrature. The indicator of a class has mean p and variance p - p^2.

    Deviation: GPflow restricts each factor to [1e-4, 1 - 1e-4], which is not necessary. Predicted probabilities are
    divided by their sum, which the quadrature leaves up to a few percent away from 1.
    """

    def __init__(self, *, epsilon: float = 1e-3, quadrature_points: int = 20) -> None:
        self.epsilon = epsilon
        points, weights = np.polynomial.hermite.hermgauss(quadrature_points)
        self.points = torch.from_numpy(points * math.sqrt(2))
        self.weights = torch.from_numpy(weights / math.sqrt(math.pi))

    def argmax_probability(self, mean: Tensor, variance: Tensor, labels: Tensor) -> Float[Tensor, " nodes"]:
        """Return the probability that the labelled class has the largest function value."""
        deviation = variance.clamp(min=MIN_VARIANCE).sqrt()
        return _ArgmaxProbability.apply(mean, deviation, labels, self.points, self.weights)

    def expected_log(self, mean: Tensor, variance: Tensor, labels: Tensor) -> Tensor:
        probability = self.argmax_probability(mean, variance, labels)
        log_correct, log_wrong = math.log1p(-self.epsilon), math.log(self.epsilon / (mean.shape[1] - 1))
        return log_wrong + (log_correct - log_wrong) * probability

    def predict(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        num_classes = mean.shape[1]
        classes = torch.arange(num_classes)[:, None].expand(-1, len(mean))
        argmax = torch.stack([self.argmax_probability(mean, variance, labels) for labels in classes], dim=1)
        argmax = argmax / argmax.sum(dim=1, keepdim=True)
        noise = self.epsilon / (num_classes - 1)
        probabilities = noise + (1 - self.epsilon - noise) * argmax
        return probabilities, probabilities - probabilities.square()


class _ArgmaxProbability(torch.autograd.Function):
    """The quadrature of `RobustMax`, with a hand-written gradient that is ten times faster than autograd."""

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
        # Derivative of the product by x - mu_k. Where a factor is 0 so is its density: the clamp changes no result.
        derivative = torch.exp(-0.5 * z.square()).div_(math.sqrt(2 * math.pi)).div_(factors.clamp(min=1e-300))
        derivative.masked_fill_(one_hot(labels, z.shape[2]).bool()[:, None, :], 0.0)
        derivative *= (product * weights * grads[0][:, None])[:, :, None] / deviation[:, None, :]
        d_mean, d_deviation = -derivative.sum(dim=1), -(derivative * z).sum(dim=1)
        d_x = derivative.sum(dim=2)
        own = labels[:, None]
        d_mean.scatter_add_(1, own, d_x.sum(dim=1, keepdim=True))
        d_deviation.scatter_add_(1, own, (d_x * points).sum(dim=1, keepdim=True))
        return d_mean, d_deviation, None, None, None


class Softmax(nn.Module):
    """The softmax likelihood of gpytorch, with expectations over a fixed sample of standard normal numbers.

    The sample is fixed because line searches need a deterministic bound. It consists of pairs of opposite sign and is
    shared by all nodes.

    Deviation: not in the paper, whose numbers were computed with `RobustMax`.
    """

    def __init__(self, *, num_classes: int, num_samples: int = 128) -> None:
        super().__init__()
        try:
            from gpytorch.likelihoods import SoftmaxLikelihood
        except ImportError:
            raise InputError(
                "likelihood is softmax, which needs gpytorch",
                expected="gpytorch (pip install 'lopgpn_exp[gp]'), or the default likelihood",
                parameter="likelihood",
                suggestion="robust_max",
            ) from None
        self.likelihood = SoftmaxLikelihood(num_classes=num_classes, mixing_weights=False)
        generator = torch.Generator().manual_seed(0)
        half = torch.randn(num_samples // 2, 1, num_classes, generator=generator, dtype=torch.float64)
        self.samples = torch.cat([half, -half])

    def _conditional(self, mean: Tensor, variance: Tensor) -> Any:
        return self.likelihood(mean + self.samples * variance.clamp(min=MIN_VARIANCE).sqrt())

    def expected_log(self, mean: Tensor, variance: Tensor, labels: Tensor) -> Tensor:
        return self._conditional(mean, variance).log_prob(labels).mean(dim=0)

    def predict(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        probabilities = self._conditional(mean, variance).probs
        return probabilities.mean(dim=0), probabilities.var(dim=0, correction=0)
