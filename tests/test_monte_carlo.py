"""The entropy of a mixture by Monte Carlo: against quadrature, at its limits, and whether its error is one."""

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
from lopgpn_exp.posterior.monte_carlo import TEXTBOOK_UP_TO, LogDensities, log_draws


def mixture(weights, alpha, *, copies=1):
    """`copies` nodes that believe the same: their estimates are repetitions, each with draws of its own."""
    rows = np.repeat(np.atleast_2d(np.array(weights, dtype=float)), copies, axis=0)
    return DirichletMixture(SparseMatrix(sp.csr_array(rows), torch.float64), torch.tensor(alpha, dtype=torch.float64))


def beta_mixture_entropy(weights, alpha):
    """Two classes: the integral of -q log q by adaptive quadrature over t, theta = 1 / (1 + exp(-t)), in pieces."""

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
def test_against_quadrature(weights, alpha):
    estimate = mixture(weights, alpha).entropy_exact(num_draws=100_000, seed=1)
    error = estimate.standard_error.item()
    assert 0 < error < 2e-3
    assert estimate.value.item() == pytest.approx(beta_mixture_entropy(weights, alpha), abs=4 * error)


@pytest.mark.parametrize(("weights", "alpha"), BETAS)
def test_the_error_is_the_spread_and_covers(weights, alpha):
    """400 repetitions: their spread is known to 1 / sqrt(800) = 3.5 %, coverage of 95 % to 1.1 points; four of each,
    and half as much again for the error's own bias when an overlap is rare."""
    estimate = mixture(weights, alpha, copies=400).entropy_exact(num_draws=1000, seed=2)
    values, errors = estimate.value.numpy(), estimate.standard_error.numpy()
    assert values.std() == pytest.approx(np.sqrt(np.mean(np.square(errors))), rel=0.14)
    truth = beta_mixture_entropy(weights, alpha)
    assert values.mean() == pytest.approx(truth, abs=4 * values.std() / 20)  # no bias
    assert 0.95 - 0.066 <= np.mean(np.abs(values - truth) < 1.96 * errors) <= 1


def test_four_times_the_draws_halve_the_error():
    weights, alpha = [0.2, 0.3, 0.5], [[9.0, 2.0, 1.5], [2.0, 8.0, 3.0], [1.0, 1.0, 1.0]]
    few, many = (
        mixture(weights, alpha, copies=50).entropy_exact(num_draws=draws).standard_error.mean() for draws in (500, 2000)
    )
    assert float(few / many) == pytest.approx(2, rel=0.05)


def test_many_light_components_share_strata_without_a_bias():
    """60 components for 20 draws: strata of several components. Against the plain mean over 100,000 draws of torch."""
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
def test_one_component_is_the_closed_form_without_an_error(alpha):
    estimate = mixture([0.0, 1.0], [[5.0, 5.0, 5.0], alpha]).entropy_exact(num_draws=2)
    assert estimate.value.item() == Dirichlet(torch.tensor([alpha], dtype=torch.float64)).entropy().item()
    assert estimate.standard_error.item() == 0


@pytest.mark.parametrize("counts", [[3.0, 1.0, 8.0], [1e13, 1.3, 40.0]])
def test_equal_components_meet_the_lower_bound(counts):
    mixed = mixture([0.2, 0.3, 0.5], [counts] * 3)
    estimate = mixed.entropy_exact(num_draws=50)
    assert estimate.value.item() == pytest.approx(mixed.entropy_lower().item(), abs=1e-12)
    assert estimate.standard_error.item() < 1e-12


def test_components_far_apart_meet_the_upper_bound():
    mixed = mixture([0.2, 0.3, 0.5], [[1e6, 1.0, 1.0], [1.0, 1e6, 1.0], [1.0, 1.0, 1e6]])
    estimate = mixed.entropy_exact(num_draws=50)
    assert estimate.value.item() == pytest.approx(mixed.entropy_upper().item(), abs=1e-12)
    assert estimate.standard_error.item() < 1e-12


@given(
    alpha=st.lists(st.lists(st.floats(1e-3, 1e13), min_size=3, max_size=3), min_size=1, max_size=5),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=100, deadline=None)
def test_always_finite_and_within_the_bounds(alpha, seed):
    """Paper: Eq. (14)."""
    mixed = mixture(np.arange(1, len(alpha) + 1) / sum(range(1, len(alpha) + 1)), alpha)
    estimate = mixed.entropy_exact(num_draws=20, seed=seed)
    assert math.isfinite(estimate.standard_error.item())
    slack = 1e-9 * (1 + abs(mixed.entropy_lower().item()))
    assert mixed.entropy_lower().item() - slack <= estimate.value.item() <= mixed.entropy_upper().item() + slack


def textbook(log_theta, alpha):
    """log Dir(theta; alpha) + sum log theta with 60 digits."""
    with mpmath.workdps(60):
        a = [mpmath.mpf(x) for x in alpha]
        log_beta = mpmath.fsum(map(mpmath.loggamma, a)) - mpmath.loggamma(mpmath.fsum(a))
        terms = [mpmath.exp(mpmath.mpf(x)) for x in log_theta]  # rounded, they do not add up to 1: divide
        return float(
            mpmath.fsum(x * mpmath.log(t / mpmath.fsum(terms)) for x, t in zip(a, terms, strict=True)) - log_beta
        )


@pytest.mark.parametrize(
    "alpha",
    [
        [2.0, 0.3, 7.0],
        [0.4 * TEXTBOOK_UP_TO, 0.6 * TEXTBOOK_UP_TO - 1, 1.0],  # the last that a product of matrices gives
        [0.4 * TEXTBOOK_UP_TO, 0.6 * TEXTBOOK_UP_TO, 1.0],
        [1e13, 2e13, 3e13],
        [1.07e13, 1.3, 2.5],
    ],
)
def test_log_densities_keep_their_digits(alpha):
    """At draws of the component itself, where it matters: far away, all that counts is that the density is nothing."""
    generator = np.random.default_rng(0)
    log_theta = log_draws(np.array([alpha] * 20), generator)
    found = LogDensities.of(torch.tensor([alpha], dtype=torch.float64))(log_theta)[:, 0]
    np.testing.assert_allclose(found, [textbook(row, alpha) for row in log_theta.tolist()], atol=2e-6)


@pytest.mark.parametrize("alpha", [[0.7, 4.0, 30.0], [1.0, 1.0, 1.0], [1e-3, 2e-3, 5e-3], [1e13, 3e13, 2.0]])
def test_draws_have_the_moments_of_a_dirichlet(alpha):
    """E[log theta_c] = psi(alpha_c) - psi(alpha_0); its variance is psi'(alpha_c) - psi'(alpha_0)."""
    draws = log_draws(np.array([alpha] * 40_000), np.random.default_rng(0))
    assert np.isfinite(draws).all()
    np.testing.assert_allclose(np.logaddexp.reduce(draws, axis=1), 0, atol=1e-12)
    for column, count in zip(draws.T, alpha, strict=True):
        mean = float(mpmath.digamma(count) - mpmath.digamma(sum(alpha)))
        variance = float(mpmath.psi(1, count) - mpmath.psi(1, sum(alpha)))
        assert column.mean() == pytest.approx(mean, abs=4 * math.sqrt(variance / 40_000) + 1e-14)
        assert column.var() == pytest.approx(variance, rel=0.1)


def test_the_same_seed_gives_the_same_bits_and_another_one_others():
    weights, alpha = [0.2, 0.3, 0.5], [[9.0, 2.0, 1.5], [2.0, 8.0, 3.0], [1.0, 1.0, 1.0]]
    first, again, other = (mixture(weights, alpha).entropy_exact(num_draws=100, seed=seed).value for seed in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_neither_the_order_of_components_nor_the_form_of_the_weights_matters():
    """Components of different weights are taken in the order of the weights, so that not even the draws differ."""
    weights = np.array([[0.1, 0.2, 0.7, 0.0], [0.0, 0.55, 0.15, 0.3]])
    alpha = np.array([[9.0, 2.0, 1.5], [2.0, 8.0, 3.0], [1.0, 1.0, 1.0], [4.0, 4.0, 5.0]])
    order = [2, 0, 3, 1]
    dense = DirichletMixture(DenseMatrix(torch.from_numpy(weights)), torch.from_numpy(alpha))
    found = mixture(weights, alpha).entropy_exact(seed=5)
    stored = sp.csr_array(np.maximum(weights, 1e-9))
    stored.data[stored.data < 1e-8] = 0  # zeros that are stored are none the less components of no weight
    zeros = DirichletMixture(SparseMatrix(stored, torch.float64), torch.from_numpy(alpha))
    for other in (mixture(weights[:, order], alpha[order]), dense, zeros):
        torch.testing.assert_close(other.entropy_exact(seed=5).value, found.value, rtol=0, atol=1e-12)


def test_blocks_change_nothing(monkeypatch):
    weights, alpha = [0.2, 0.3, 0.5], [[9.0, 2.0, 1.5], [2.0, 8.0, 3.0], [1.0, 1.0, 1.0]]
    whole = mixture(weights, alpha).entropy_exact(num_draws=100)
    monkeypatch.setattr("lopgpn_exp.posterior.monte_carlo.CELLS", 30)
    parts = mixture(weights, alpha).entropy_exact(num_draws=100)
    torch.testing.assert_close(parts.value, whole.value, rtol=0, atol=1e-13)
    torch.testing.assert_close(parts.standard_error, whole.standard_error, rtol=0, atol=1e-13)


def test_float32_is_computed_in_float64():
    alpha = torch.tensor([[9.0, 2.0], [2.0, 8.0]])
    mixed = DirichletMixture(DenseMatrix(torch.tensor([[0.5, 0.5]])), alpha.requires_grad_())
    estimate = mixed.entropy_exact(num_draws=100)
    assert estimate.value.dtype == estimate.standard_error.dtype == torch.float64
    assert not estimate.value.requires_grad


@pytest.mark.parametrize("num_draws", [1, 0, -3])
def test_too_few_draws_are_refused(num_draws):
    with pytest.raises(InputError, match=f"num_draws is {num_draws}"):
        mixture([0.5, 0.5], [[1.0, 2.0], [2.0, 1.0]]).entropy_exact(num_draws=num_draws)
