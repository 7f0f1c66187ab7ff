r"""Monte Carlo estimate, with its standard error, of the part of a mixture's entropy that has no closed form.

If J is the component that theta was drawn from, the differential entropy of a mixture of Dirichlets is

.. math:: H(Q) = \sum_j w_j H(\mathrm{Dir}(\alpha_j)) + H(\mathrm{Cat}(w)) - \mathrm E[H(J \mid \theta)],

the upper bound of the paper's Eq. (14) minus the expected uncertainty about the component given theta. Only this last
term, the overlap, is estimated. It is 0 if components do not overlap, and H(Cat(w)) if they are equal: in these cases
the estimate is exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lopgpn_exp.errors import check_parameter
from lopgpn_exp.posterior.special import entropy_core, log_gap

MAX_CELLS = 2**18  # draws x components at once: 2 MiB per array, of which at most four exist at a time
MIN_LOG_ODDS = -700.0  # below it, exp is slow and its result negligible
# Up to this total count the textbook log-density is accurate to seven decimal places; for larger counts it is not.
TEXTBOOK_LIMIT = 1e7


@dataclass(frozen=True)
class Estimate:
    """A value per node, and its standard error."""

    value: Float[Tensor, " nodes"]
    standard_error: Float[Tensor, " nodes"]


def estimate_overlap(
    weights: sp.csr_array, alpha: Float[Tensor, "components classes"], *, num_draws: int, seed: int
) -> Estimate:
    """Estimate E[H(J | theta)] of the mixture in each row of `weights`: between 0 and the entropy of the row.

    Each node has at least `num_draws` draws of its own, so the errors of nodes are independent. The cost per node is
    its draws times the components of its row. If components hardly overlap, few draws fall where they do, and the
    standard error tends to be too small.
    """
    expected = "2 or more, because a single draw has no standard error; at most 100,000,000 for each node"
    check_parameter("num_draws", num_draws, 2 <= num_draws <= 100_000_000, expected=expected, suggestion=1000)
    generator = np.random.default_rng(seed)
    densities = LogDensities.from_alpha(alpha)
    estimates = np.zeros((2, weights.shape[0]))
    for node in range(weights.shape[0]):
        row = slice(weights.indptr[node], weights.indptr[node + 1])
        components, shares = weights.indices[row], weights.data[row]
        order = np.argsort(-shares, kind="stable")[: np.count_nonzero(shares)]
        estimates[:, node] = _estimate_node(
            shares[order] / shares.sum(), densities[components[order]], num_draws, generator
        )
    return Estimate(*torch.from_numpy(estimates))


def _estimate_node(
    weights: Float[np.ndarray, " components"], densities: LogDensities, num_draws: int, generator: np.random.Generator
) -> tuple[float, float]:
    """Return value and standard error for one mixture, whose weights are in descending order.

    Draws are stratified by component, in proportion to the weights and at least two per stratum. Components whose
    weight is less than that of one draw are grouped into strata with the weight of two draws.
    """
    cumulative = np.cumsum(weights)
    slices = np.floor((cumulative - weights / 2) * num_draws / 2)
    first = np.flatnonzero((weights * num_draws >= 1) | (np.diff(slices, prepend=-1) > 0))  # of each stratum
    share = np.add.reduceat(weights, first)
    size = np.maximum(2, np.ceil(share * num_draws)).astype(int)
    start = np.repeat(cumulative[first] - weights[first], size)
    position = start + np.repeat(share, size) * generator.random(size.sum())
    component = np.searchsorted(cumulative[:-1], position, side="right")
    log_theta = sample_log_dirichlet(densities.alpha[component], generator)
    block = max(1, MAX_CELLS // len(weights))
    log_weights = np.log(weights)
    entropy = np.concatenate(
        [
            _softmax_entropy(densities(log_theta[offset : offset + block]) + log_weights)
            for offset in range(0, len(log_theta), block)
        ]
    )
    offsets = np.cumsum(size) - size
    mean = np.add.reduceat(entropy, offsets) / size
    variance = np.add.reduceat(np.square(entropy - np.repeat(mean, size)), offsets) / (size - 1)
    return float(share @ mean), float(np.sqrt(np.square(share) @ (variance / size)))


def _softmax_entropy(logits: Float[np.ndarray, "draws components"]) -> Float[np.ndarray, " draws"]:
    logits = np.maximum(logits - logits.max(axis=1, keepdims=True), MIN_LOG_ODDS)
    odds = np.exp(logits)
    total = odds.sum(axis=1)
    return np.log(total) - np.einsum("sk,sk->s", odds, logits) / total


@dataclass(frozen=True)
class LogDensities:
    r"""log Dir(theta; alpha_k) + sum_c log theta_c of components k. The second term does not depend on k.

    The textbook formula :math:`\alpha\cdot\log\theta - \log B(\alpha)` is a single matrix product, but at
    alpha = e^30 even its first decimal place is wrong. Components with large counts are expanded around their mean m,
    as :math:`\sum_c \alpha_c (d_c - (e^{d_c} - 1))` with :math:`d_c = \log\theta_c - \log m_c`, plus the value at m.
    The subtracted terms sum to 0, because theta and m both sum to 1, and keep each summand small.
    """

    alpha: Float[np.ndarray, "components classes"]
    log_mean: Float[np.ndarray, "components classes"]
    at_mean: Float[np.ndarray, " components"]

    @staticmethod
    def from_alpha(alpha: Float[Tensor, "components classes"]) -> LogDensities:
        alpha_0 = alpha.sum(dim=1)
        log_mean = torch.log(alpha) - torch.log(alpha_0)[:, None]
        at_mean = _log_density_core(alpha).sum(dim=1) - _log_density_core(alpha_0)
        return LogDensities(alpha.numpy(), log_mean.numpy(), at_mean.numpy())

    def __getitem__(self, components: Int[np.ndarray, " chosen"]) -> LogDensities:
        return LogDensities(self.alpha[components], self.log_mean[components], self.at_mean[components])

    def __call__(self, log_theta: Float[np.ndarray, "draws classes"]) -> Float[np.ndarray, "draws components"]:
        by_class, log_mean = np.ascontiguousarray(self.alpha.T), self.log_mean.T
        result = np.einsum("sc,ck->sk", log_theta, by_class)  # not BLAS, whose threads compete
        result += self.at_mean - np.einsum("ck,ck->k", by_class, log_mean)
        large = np.flatnonzero(by_class.sum(axis=0) > TEXTBOOK_LIMIT)
        if len(large):
            expansion = np.broadcast_to(self.at_mean[large], (len(log_theta), len(large))).copy()
            for theta, counts, mean in zip(log_theta.T, by_class[:, large], log_mean[:, large], strict=True):
                distance = theta[:, None] - mean
                expansion += counts * (distance - np.expm1(distance))
            result[:, large] = expansion
        return result


def _log_density_core(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    r"""Return :math:`x\log x - x - \log\Gamma(x)`, which grows like :math:`\tfrac12\log x`, without cancellation.

    Its sum over the classes minus its value at alpha_0 is :math:`\alpha\cdot\log m - \log B(\alpha)`.
    """
    return torch.log(x) - entropy_core(x) - (x - 1) * (log_gap(x) - 1 / x)


def sample_log_dirichlet(
    alpha: Float[np.ndarray, "draws classes"], generator: np.random.Generator
) -> Float[np.ndarray, "draws classes"]:
    """Return log theta of one draw from each Dir(alpha).

    Gamma(a) is distributed as Gamma(a + 1) U^(1/a), whose logarithm is finite even if a is so small that the variate
    itself underflows to 0.
    """
    log_gamma = np.log(generator.standard_gamma(alpha + 1)) - generator.standard_exponential(alpha.shape) / alpha
    return log_gamma - np.logaddexp.reduce(log_gamma, axis=1, keepdims=True)
