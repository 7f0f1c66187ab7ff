r"""The part of a mixture's differential entropy that has no closed form, by Monte Carlo with its standard error.

With J the component that theta was drawn from, the entropy of a mixture of Dirichlets is

.. math:: H(Q) = \sum_j w_j H(\mathrm{Dir}(\alpha_j)) + H(\mathrm{Cat}(w)) - \mathrm E[H(J \mid \theta)],

the upper bound of the paper's Eq. (14) minus how uncertain one is, seeing theta, whose opinion it is. Only this last
term is estimated. Components that do not overlap make it 0 at every draw, equal components H(Cat(w)): the bounds
are met without an error, and so is a single component.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lopgpn_exp.errors import InputError
from lopgpn_exp.posterior.special import entropy_core, log_gap

CELLS = 2**18  # draws x components at once: 2 MiB an array, of which at most four are alive
NOTHING = -700.0  # a logarithm of odds from which on exp is slow, and gives nothing that adds to 1
# Up to this total count the textbook's log-density has seven digits after the point; beyond it runs out of them.
TEXTBOOK_UP_TO = 1e7


@dataclass(frozen=True)
class Estimate:
    """A value a node, and its standard error."""

    value: Float[Tensor, " nodes"]
    standard_error: Float[Tensor, " nodes"]


def overlap(
    weights: sp.csr_array, alpha: Float[Tensor, "components classes"], *, num_draws: int, seed: int
) -> Estimate:
    """E[H(J | theta)] of the mixture that each row of `weights` makes of Dir(alpha): from 0 to the row's entropy.

    Each node has draws of its own, at least `num_draws`, so that errors of nodes are independent. It costs as many
    exponentials as draws x components of its row. Where components hardly overlap, few draws see that they do,
    and the standard error is too small more often than it says.
    """
    if num_draws < 2:
        raise InputError(f"num_draws is {num_draws}", expected="2 or more: a single draw has no error", hint="1000")
    generator = np.random.default_rng(seed)
    densities = LogDensities.of(alpha)
    found = np.zeros((2, weights.shape[0]))
    for node in range(weights.shape[0]):
        row = slice(weights.indptr[node], weights.indptr[node + 1])
        chosen, share = weights.indices[row], weights.data[row]
        order = np.argsort(-share, kind="stable")[: np.count_nonzero(share)]
        found[:, node] = _of_one(share[order] / share.sum(), densities[chosen[order]], num_draws, generator)
    return Estimate(*torch.from_numpy(found))


def _of_one(
    weights: Float[np.ndarray, " components"],
    densities: LogDensities,
    num_draws: int,
    generator: np.random.Generator,
) -> tuple[float, float]:
    """Value and standard error for one mixture, the largest weight first.

    Stratified by component, draws in proportion to the weights and at least two of each; components of less weight than
    one draw share strata of the weight of two.
    """
    upto = np.cumsum(weights)
    slices = np.floor((upto - weights / 2) * num_draws / 2)
    first = np.flatnonzero((weights * num_draws >= 1) | (np.diff(slices, prepend=-1) > 0))  # component of each stratum
    share = np.add.reduceat(weights, first)
    size = np.maximum(2, np.ceil(share * num_draws)).astype(int)
    at = np.repeat(upto[first] - weights[first], size) + np.repeat(share, size) * generator.random(size.sum())
    log_theta = log_draws(densities.alpha[np.searchsorted(upto[:-1], at, side="right")], generator)
    block = max(1, CELLS // len(weights))
    log_weights = np.log(weights)
    entropy = np.concatenate(
        [
            _softmax_entropy(densities(log_theta[start : start + block]) + log_weights)
            for start in range(0, len(log_theta), block)
        ]
    )
    offsets = np.cumsum(size) - size
    mean = np.add.reduceat(entropy, offsets) / size
    variance = np.add.reduceat(np.square(entropy - np.repeat(mean, size)), offsets) / (size - 1)
    return float(share @ mean), float(np.sqrt(np.square(share) @ (variance / size)))


def _softmax_entropy(logits: Float[np.ndarray, "draws components"]) -> Float[np.ndarray, " draws"]:
    logits = np.maximum(logits - logits.max(axis=1, keepdims=True), NOTHING)
    odds = np.exp(logits)
    total = odds.sum(axis=1)
    return np.log(total) - np.einsum("sk,sk->s", odds, logits) / total


@dataclass(frozen=True)
class LogDensities:
    r"""log Dir(theta; alpha_k) + sum_c log theta_c of components k: up to what all of them share at a draw.

    The textbook's :math:`\alpha\cdot\log\theta - \log B(\alpha)` is one product of matrices, but at alpha = e^30 its
    first digit after the point is wrong. Components with so large a count are written around their mean m, as
    :math:`\sum_c \alpha_c (d_c - (e^{d_c} - 1))` with :math:`d_c = \log\theta_c - \log m_c`, plus its value at m.
    What is subtracted adds up to 0, as theta and m both add up to 1; without it the terms are large.
    """

    alpha: Float[np.ndarray, "components classes"]
    log_mean: Float[np.ndarray, "components classes"]
    at_mean: Float[np.ndarray, " components"]

    @staticmethod
    def of(alpha: Float[Tensor, "components classes"]) -> LogDensities:
        alpha_0 = alpha.sum(dim=1)
        log_mean = torch.log(alpha) - torch.log(alpha_0)[:, None]
        at_mean = _at_mean_core(alpha).sum(dim=1) - _at_mean_core(alpha_0)
        return LogDensities(alpha.numpy(), log_mean.numpy(), at_mean.numpy())

    def __getitem__(self, chosen: Int[np.ndarray, " chosen"]) -> LogDensities:
        return LogDensities(self.alpha[chosen], self.log_mean[chosen], self.at_mean[chosen])

    def __call__(self, log_theta: Float[np.ndarray, "draws classes"]) -> Float[np.ndarray, "draws components"]:
        by_class, log_mean = np.ascontiguousarray(self.alpha.T), self.log_mean.T
        result = np.einsum("sc,ck->sk", log_theta, by_class)  # not by BLAS, whose threads get in each other's way
        result += self.at_mean - np.einsum("ck,ck->k", by_class, log_mean)
        large = np.flatnonzero(by_class.sum(axis=0) > TEXTBOOK_UP_TO)
        if len(large):
            around = np.broadcast_to(self.at_mean[large], (len(log_theta), len(large))).copy()
            for theta, counts, mean in zip(log_theta.T, by_class[:, large], log_mean[:, large], strict=True):
                distance = theta[:, None] - mean
                around += counts * (distance - np.expm1(distance))
            result[:, large] = around
        return result


def _at_mean_core(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    r""":math:`x\log x - x - \log\Gamma(x)`, which grows like :math:`\tfrac12\log x`, without its large parts.

    Summed over the classes, minus that of their sum, it is :math:`\alpha\cdot\log m - \log B(\alpha)`.
    """
    return torch.log(x) - entropy_core(x) - (x - 1) * (log_gap(x) - 1 / x)


def log_draws(
    alpha: Float[np.ndarray, "draws classes"], generator: np.random.Generator
) -> Float[np.ndarray, "draws classes"]:
    """log theta of a draw from each Dir(alpha).

    Gamma(a) is Gamma(a + 1) U^(1/a), of which the logarithm stays finite at an a for which the variate itself is 0.
    """
    log_gamma = np.log(generator.standard_gamma(alpha + 1)) - generator.standard_exponential(alpha.shape) / alpha
    return log_gamma - np.logaddexp.reduce(log_gamma, axis=1, keepdims=True)
