"""Monte Carlo entropy of a mixture: compared with quadrature and limits, and the validity of its standard error."""

import math
from itertools import pairwise

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from scipy.special import betaln, logit

from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import DenseMatrix, SparseMatrix
from lopgpn_exp.posterior import Dirichlet, DirichletMixture
from lopgpn_exp.posterior.monte_carlo import TEXTBOOK_LIMIT, LogDensities, sample_log_dirichlet


def mixture(weights, alpha, *, copies=1):
    """Return `copies` nodes with the same mixture; their estimates are independent repetitions."""
    rows = np.repeat(np.atleast_2d(np.array(weights, dtype=float)), copies, axis=0)
    return DirichletMixture(SparseMatrix(sp.csr_array(rows), torch.float64), torch.tensor(alpha, dtype=torch.float64))


def beta_mixture_entropy(weights, alpha):
    """Integrate -q log q for two classes piecewise by adaptive quadrature over t, theta = 1 / (1 + exp(-t))."""

    def integrand(t):
        log_theta = -np.logaddexp(0, -t), -np.logaddexp(0, t)
        terms = [
            math.log(w) + (a - 1) * log_theta[0] + (b - 1) * log_theta[1] - betaln(a, b)
            for w, (a, b) in zip(weights, alpha, strict=True)
        ]
        log_q = np.logaddexp.reduce(terms)
        return -log_q * math.exp(log_q + sum(log_theta))

    quantiles = (1e-12, 1e-6, 1e-3, 0.1, 0.5, 0.9, 0.999, 1 - 1e-6, 1 - 1e-12)
    cuts = sorted({float(logit(stats.beta.ppf(p, *counts))) for counts in alpha for p in quantiles})
    return sum(integrate.quad(integrand, a, b, limit=200)[0] for a, b in pairwise(cuts))


BETAS = [
    ([0.5, 0.5], [(9.0, 2.0), (2.0, 8.0)]),
    ([0.1, 0.2, 0.7], [(9.0, 2.0), (2.0, 8.0), (1.0, 1.0)]),
    ([0.9, 0.1], [(20.0, 20.0), (22.0, 20.0)]),
    ([0.5, 0.3, 0.2], [(1000.0, 2000.0), (10.0, 20.0), (5.0, 2.0)]),
    ([0.6, 0.4], [(0.5, 0.7), (3.0, 0.4)]),
    ([0.5, 0.5], [(3e8, 1e8), (3.0001e8, 1e8)]),
]


@pytest.mark.parametrize(("weights", "alpha"), BETAS)
def test_estimate_equals_quadrature(weights, alpha):
    estimate = mixture(weights, alpha).entropy_exact(num_draws=100_000, seed=1)
    error = estimate.standard_error.item()
    assert 0 < error < 2e-3
    assert estimate.value.item() == pytest.approx(beta_mixture_entropy(weights, alpha), abs=4 * error)


@pytest.mark.parametrize(("weights", "alpha"), BETAS)
def test_standard_error_equals_the_spread_and_covers_the_truth(weights, alpha):
    """With 400 repetitions, the standard error of the spread is 1 / sqrt(800) = 3.5 %, that of the coverage 1.1 points.

    Four standard errors are allowed, and for the coverage half as much again, because the estimated error is biased if
    overlaps are rare.
    """
    estimate = mixture(weights, alpha, copies=400).entropy_exact(num_draws=1000, seed=2)
    values, errors = estimate.value.numpy(), estimate.standard_error.numpy()
    assert values.std() == pytest.approx(np.sqrt(np.mean(np.square(errors))), rel=0.14)
    truth = beta_mixture_entropy(weights, alpha)
    assert values.mean() == pytest.approx(truth, abs=4 * values.std() / 20)  # no bias
    assert 0.95 - 0.066 <= np.mean(np.abs(values - truth) < 1.96 * errors) <= 1


def test_four_times_as_many_draws_halve_the_error():
    weights, alpha = [0.2, 0.3, 0.5], [[9.0, 2.0, 1.5], [2.0, 8.0, 3.0], [1.0, 1.0, 1.0]]
    few, many = (
        mixture(weights, alpha, copies=50).entropy_exact(num_draws=draws).standard_error.mean() for draws in (500, 2000)
    )
    assert float(few / many) == pytest.approx(2, rel=0.05)


def test_grouping_of_small_components_into_strata_is_unbiased():
    """60 components and 20 draws give strata of several components; compared with the mean of 100,000 torch draws."""
    generator = np.random.default_rng(0)
    weights, alpha = generator.dirichlet(np.full(60, 0.5)), 1 + 20 * generator.random((60, 3))
    share = torch.distributions.Categorical(torch.from_numpy(weights))
    q = torch.distributions.MixtureSameFamily(share, torch.distributions.Dirichlet(torch.from_numpy(alpha)))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        density = q.log_prob(q.sample((100_000,)))
    estimate = mixture(weights, alpha, copies=1500).entropy_exact(num_draws=20)
    spread = math.hypot(estimate.value.std().item() / math.sqrt(1500), density.std().item() / math.sqrt(100_000))
    assert estimate.value.mean().item() == pytest.approx(-density.mean().item(), abs=4 * spread)
    mean_square = estimate.standard_error.square().mean().sqrt().item()
    assert estimate.value.std().item() == pytest.approx(mean_square, rel=0.1)


@pytest.mark.parametrize("alpha", [[1.0, 1.0, 1.0], [0.01, 3.0, 700.0], [1e13, 1.0, 2e13]])
def test_single_component_gives_the_closed_form_without_error(alpha):
    estimate = mixture([0.0, 1.0], [[5.0, 5.0, 5.0], alpha]).entropy_exact(num_draws=2)
    assert estimate.value.item() == Dirichlet(torch.tensor([alpha], dtype=torch.float64)).entropy().item()
    assert estimate.standard_error.item() == 0


@pytest.mark.parametrize("counts", [[3.0, 1.0, 8.0], [1e13, 1.3, 40.0]])
def test_equal_components_attain_the_lower_bound(counts):
    mixed = mixture([0.2, 0.3, 0.5], [counts] * 3)
    estimate = mixed.entropy_exact(num_draws=50)
    assert estimate.value.item() == pytest.approx(mixed.entropy_lower().item(), abs=1e-12)
    assert estimate.standard_error.item() < 1e-12


def test_distant_components_attain_the_upper_bound():
    mixed = mixture([0.2, 0.3, 0.5], [[1e6, 1.0, 1.0], [1.0, 1e6, 1.0], [1.0, 1.0, 1e6]])
    estimate = mixed.entropy_exact(num_draws=50)
    assert estimate.value.item() == pytest.approx(mixed.entropy_upper().item(), abs=1e-12)
    assert estimate.standard_error.item() < 1e-12


@given(
    alpha=st.lists(st.lists(st.floats(1e-3, 1e13), min_size=3, max_size=3), min_size=1, max_size=5),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=100, deadline=None)
def test_estimate_is_finite_and_within_the_bounds(alpha, seed):
    """Paper: Eq. (14)."""
    mixed = mixture(np.arange(1, len(alpha) + 1) / sum(range(1, len(alpha) + 1)), alpha)
    estimate = mixed.entropy_exact(num_draws=20, seed=seed)
    assert math.isfinite(estimate.standard_error.item())
    slack = 1e-9 * (1 + abs(mixed.entropy_lower().item()))
    assert mixed.entropy_lower().item() - slack <= estimate.value.item() <= mixed.entropy_upper().item() + slack


def textbook(log_theta, alpha):
    """Return log Dir(theta; alpha) + sum log theta, computed with 60 digits."""
    with mpmath.workdps(60):
        a = [mpmath.mpf(x) for x in alpha]
        log_beta = mpmath.fsum(map(mpmath.loggamma, a)) - mpmath.loggamma(mpmath.fsum(a))
        terms = [
            mpmath.exp(mpmath.mpf(x)) for x in log_theta
        ]  # normalised below, because rounded terms do not sum to 1
        return float(
            mpmath.fsum(x * mpmath.log(t / mpmath.fsum(terms)) for x, t in zip(a, terms, strict=True)) - log_beta
        )


@pytest.mark.parametrize(
    "alpha",
    [
        [2.0, 0.3, 7.0],
        [0.4 * TEXTBOOK_LIMIT, 0.6 * TEXTBOOK_LIMIT - 1, 1.0],  # the largest count for which the matrix product is used
        [0.4 * TEXTBOOK_LIMIT, 0.6 * TEXTBOOK_LIMIT, 1.0],
        [1e13, 2e13, 3e13],
        [1.07e13, 1.3, 2.5],
    ],
)
def test_log_densities_are_accurate(alpha):
    """Tested at draws of the component itself; far away from it the density is negligible."""
    generator = np.random.default_rng(0)
    log_theta = sample_log_dirichlet(np.array([alpha] * 20), generator)
    log_density = LogDensities.from_alpha(torch.tensor([alpha], dtype=torch.float64))(log_theta)[:, 0]
    np.testing.assert_allclose(log_density, [textbook(row, alpha) for row in log_theta.tolist()], atol=2e-6)


@pytest.mark.parametrize("alpha", [[0.7, 4.0, 30.0], [1.0, 1.0, 1.0], [1e-3, 2e-3, 5e-3], [1e13, 3e13, 2.0]])
def test_draws_have_the_moments_of_a_dirichlet(alpha):
    """E[log theta_c] = psi(alpha_c) - psi(alpha_0); its variance is psi'(alpha_c) - psi'(alpha_0)."""
    draws = sample_log_dirichlet(np.array([alpha] * 40_000), np.random.default_rng(0))
    assert np.isfinite(draws).all()
    np.testing.assert_allclose(np.logaddexp.reduce(draws, axis=1), 0, atol=1e-12)
    for column, count in zip(draws.T, alpha, strict=True):
        mean = float(mpmath.digamma(count) - mpmath.digamma(sum(alpha)))
        variance = float(mpmath.psi(1, count) - mpmath.psi(1, sum(alpha)))
        assert column.mean() == pytest.approx(mean, abs=4 * math.sqrt(variance / 40_000) + 1e-14)
        assert column.var() == pytest.approx(variance, rel=0.1)


def test_equal_seeds_give_equal_bits_and_other_seeds_do_not():
    weights, alpha = [0.2, 0.3, 0.5], [[9.0, 2.0, 1.5], [2.0, 8.0, 3.0], [1.0, 1.0, 1.0]]
    first, second, other = (mixture(weights, alpha).entropy_exact(num_draws=100, seed=seed).value for seed in (3, 3, 4))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_order_of_components_and_storage_of_weights_do_not_matter():
    """Components are sorted by weight, so that even the draws are the same."""
    weights = np.array([[0.1, 0.2, 0.7, 0.0], [0.0, 0.55, 0.15, 0.3]])
    alpha = np.array([[9.0, 2.0, 1.5], [2.0, 8.0, 3.0], [1.0, 1.0, 1.0], [4.0, 4.0, 5.0]])
    order = [2, 0, 3, 1]
    dense = DirichletMixture(DenseMatrix(torch.from_numpy(weights)), torch.from_numpy(alpha))
    expected = mixture(weights, alpha).entropy_exact(seed=5)
    stored = sp.csr_array(np.maximum(weights, 1e-9))
    stored.data[stored.data < 1e-8] = 0  # explicitly stored zeros are components without weight
    zeros = DirichletMixture(SparseMatrix(stored, torch.float64), torch.from_numpy(alpha))
    for other in (mixture(weights[:, order], alpha[order]), dense, zeros):
        torch.testing.assert_close(other.entropy_exact(seed=5).value, expected.value, rtol=0, atol=1e-12)


def test_block_size_does_not_matter(monkeypatch):
    weights, alpha = [0.2, 0.3, 0.5], [[9.0, 2.0, 1.5], [2.0, 8.0, 3.0], [1.0, 1.0, 1.0]]
    whole = mixture(weights, alpha).entropy_exact(num_draws=100)
    monkeypatch.setattr("lopgpn_exp.posterior.monte_carlo.MAX_CELLS", 30)
    blocks = mixture(weights, alpha).entropy_exact(num_draws=100)
    torch.testing.assert_close(blocks.value, whole.value, rtol=0, atol=1e-13)
    torch.testing.assert_close(blocks.standard_error, whole.standard_error, rtol=0, atol=1e-13)


def test_float32_input_is_computed_in_float64():
    alpha = torch.tensor([[9.0, 2.0], [2.0, 8.0]])
    mixed = DirichletMixture(DenseMatrix(torch.tensor([[0.5, 0.5]])), alpha.requires_grad_())
    estimate = mixed.entropy_exact(num_draws=100)
    assert estimate.value.dtype == estimate.standard_error.dtype == torch.float64
    assert not estimate.value.requires_grad


@pytest.mark.parametrize("num_draws", [1, 0, -3])
def test_too_few_draws_are_rejected(num_draws):
    with pytest.raises(InputError, match=f"num_draws is {num_draws}"):
        mixture([0.5, 0.5], [[1.0, 2.0], [2.0, 1.0]]).entropy_exact(num_draws=num_draws)
