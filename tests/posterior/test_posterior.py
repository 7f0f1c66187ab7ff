"""Means, measures and losses of all posteriors, compared with mpmath, Monte Carlo and values by hand."""

import math

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import DenseMatrix, SparseMatrix
from lopgpn_exp.posterior import Categorical, Dirichlet, DirichletMixture, GaussianSimplex
from lopgpn_exp.posterior.special import SERIES_FROM, entropy_core, log_gap

ALPHAS = [
    [1.0, 1.0, 1.0],
    [0.3, 2.0, 7.5],
    [1.0, 1.0, 1e6],
    [23.99, 24.01, 100.0],
    [1e4, 2e4, 3e4],
    [1e13, 2e13, 5.0],
    [1e-3, 1e-3, 1.0],
]


def exact(alpha: list[float]) -> dict[str, float]:
    """Return the measures of a Dirichlet from the textbook formulas, computed with 60 digits."""
    with mpmath.workdps(60):
        a = [mpmath.mpf(x) for x in alpha]
        a0 = mpmath.fsum(a)
        log_beta = mpmath.fsum(map(mpmath.loggamma, a)) - mpmath.loggamma(a0)
        entropy = log_beta + (a0 - len(a)) * mpmath.digamma(a0) - mpmath.fsum((x - 1) * mpmath.digamma(x) for x in a)
        au = mpmath.digamma(a0 + 1) - mpmath.fsum(x / a0 * mpmath.digamma(x + 1) for x in a)
        tu = -mpmath.fsum(x / a0 * mpmath.log(x / a0) for x in a)
        return {"eu_so": float(entropy), "au": float(au), "tu": float(tu), "eu": float(tu - au)}


@pytest.mark.parametrize("alpha", ALPHAS)
def test_dirichlet_measures_equal_mpmath(alpha):
    dirichlet = Dirichlet(torch.tensor([alpha], dtype=torch.float64))
    for name, value in exact(alpha).items():
        assert dirichlet.measure(name).item() == pytest.approx(value, rel=1e-11, abs=1e-13), name
    assert dirichlet.eu_pc().item() == pytest.approx(-sum(alpha))


@pytest.mark.parametrize("alpha", ALPHAS)
def test_entropy_is_accurate_in_float32(alpha):
    """In float32, the first digit of the textbook formula is wrong at alpha_0 = 1e7."""
    value = Dirichlet(torch.tensor([alpha], dtype=torch.float32)).entropy().item()
    assert value == pytest.approx(exact(np.float32(alpha).tolist())["eu_so"], rel=2e-6, abs=2e-5)


def test_series_and_plain_formula_agree_where_they_meet():
    below = torch.tensor([SERIES_FROM], dtype=torch.float64)
    above = torch.nextafter(below, torch.tensor(math.inf, dtype=torch.float64))
    for function in (entropy_core, log_gap):
        assert function(above).item() == pytest.approx(function(below).item(), abs=2e-14)


def test_entropy_gradient_equals_finite_differences():
    alpha = torch.tensor([[0.7, 3.0, 23.9], [24.1, 400.0, 1e5]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a: Dirichlet(a).entropy(), alpha, eps=1e-5, atol=1e-6)


@given(
    alpha=st.lists(st.floats(1e-2, 1e9), min_size=2, max_size=6).map(lambda x: [x]),
)
@settings(max_examples=200, deadline=None)
def test_total_uncertainty_of_a_dirichlet_is_aleatoric_plus_epistemic(alpha):
    d = Dirichlet(torch.tensor(alpha, dtype=torch.float64))
    tu, au, eu = d.tu().item(), d.au().item(), d.eu().item()
    assert eu > 0
    assert -1e-12 <= au <= tu <= math.log(len(alpha[0])) + 1e-12
    assert tu == pytest.approx(au + eu, abs=1e-12)


def mixture(weights, alpha):
    sparse = SparseMatrix(sp.csr_array(np.array(weights, dtype=float)), torch.float64)
    return DirichletMixture(sparse, torch.tensor(alpha, dtype=torch.float64))


ALPHA = [[100.0, 10.0], [10.0, 100.0], [1.0, 1.0]]


def test_mixture_of_one_component_equals_its_dirichlet():
    alpha = torch.tensor(ALPHA, dtype=torch.float64)
    mixed, plain = mixture(np.eye(3), ALPHA), Dirichlet(alpha)
    assert mixed.measures == plain.measures
    for name in plain.measures:
        torch.testing.assert_close(mixed.measure(name), plain.measure(name), msg=name)
    labels = torch.tensor([0, 1, 1])
    torch.testing.assert_close(mixed.expected_cross_entropy(labels), plain.expected_cross_entropy(labels))


def test_aleatoric_uncertainty_and_loss_of_a_mixture_are_linear():
    """Paper: Eq. (12)."""
    weights = np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
    alpha = torch.tensor(ALPHA, dtype=torch.float64)
    parts = Dirichlet(alpha)
    mixed = DirichletMixture(DenseMatrix(torch.from_numpy(weights)), alpha)
    np.testing.assert_allclose(mixed.au(), weights @ parts.au().numpy(), rtol=1e-12)
    np.testing.assert_allclose(mixed.eu_pc(), -weights @ alpha.sum(1).numpy())
    labels = torch.tensor([0, 1])
    by_hand = [
        sum(weights[i, j] * parts.expected_cross_entropy(labels[i].repeat(3))[j].item() for j in range(3))
        for i in range(2)
    ]
    np.testing.assert_allclose(mixed.expected_cross_entropy(labels), by_hand)


@pytest.mark.parametrize("weights", [[0.5, 0.5, 0.0], [0.1, 0.2, 0.7], [0.98, 0.01, 0.01]])
def test_mixture_entropy_lies_between_the_bounds(weights):
    alpha = torch.tensor([[9.0, 2.0, 1.5], [2.0, 8.0, 3.0], [1.0, 1.0, 1.0]], dtype=torch.float64)
    share = torch.distributions.Categorical(torch.tensor(weights, dtype=torch.float64))
    q = torch.distributions.MixtureSameFamily(share, torch.distributions.Dirichlet(alpha))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        log_density = q.log_prob(q.sample((200_000,)))
    entropy, error = -log_density.mean().item(), log_density.std().item() / math.sqrt(200_000)
    mixed = mixture([weights], alpha.tolist())
    assert mixed.entropy_lower().item() <= entropy + 4 * error
    assert mixed.entropy_upper().item() >= entropy - 4 * error
    assert mixed.eu_so().item() == pytest.approx(mixed.entropy_upper().item())
    gap = -sum(w * math.log(w) for w in weights if w)
    assert mixed.entropy_upper().item() - mixed.entropy_lower().item() == pytest.approx(gap)


def test_uncertain_cross_entropy_equals_monte_carlo():
    alpha = torch.tensor([[3.0, 1.5, 7.0]], dtype=torch.float64)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        sample = -torch.distributions.Dirichlet(alpha).sample((200_000,))[:, 0, 1].log()
    expected = Dirichlet(alpha).expected_cross_entropy(torch.tensor([1])).item()
    assert expected == pytest.approx(sample.mean().item(), abs=4 * sample.std().item() / math.sqrt(200_000))


def test_dense_and_sparse_weights_give_the_same_mixture():
    weights = np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
    alpha = torch.tensor(ALPHA, dtype=torch.float64)
    dense = DirichletMixture(DenseMatrix(torch.from_numpy(weights)), alpha)
    sparse = DirichletMixture(SparseMatrix(sp.csr_array(weights), torch.float64), alpha)
    for name in dense.measures:
        torch.testing.assert_close(dense.measure(name), sparse.measure(name))


def posteriors():
    alpha = torch.tensor([[3.0, 1.0], [2.0, 5.0], [1.0, 1.0]], dtype=torch.float64)
    return [
        Categorical(torch.log_softmax(alpha, dim=1)),
        Dirichlet(alpha),
        DirichletMixture(DenseMatrix(torch.tensor([[0.5, 0.5, 0], [0, 1, 0], [0.1, 0.1, 0.8]]).double()), alpha),
        GaussianSimplex(alpha / alpha.sum(1, keepdim=True), alpha / 10),
    ]


@pytest.mark.parametrize("posterior", posteriors(), ids=lambda posterior: type(posterior).__name__)
def test_indexing_by_node_commutes_with_mean_and_measures(posterior):
    nodes = torch.tensor([2, 0])
    subset = posterior[nodes]
    assert type(subset) is type(posterior)
    assert subset.num_nodes == 2
    torch.testing.assert_close(subset.mean, posterior.mean[nodes])
    torch.testing.assert_close(subset.mean.sum(1), torch.ones(2, dtype=torch.float64))
    for name in posterior.measures:
        torch.testing.assert_close(subset.measure(name), posterior.measure(name)[nodes])
    torch.testing.assert_close(
        subset.cross_entropy(torch.tensor([1, 0])), -torch.log(posterior.mean[nodes, torch.tensor([1, 0])])
    )


@pytest.mark.parametrize(
    ("posterior", "measures"),
    zip(
        posteriors(),
        [
            ("tu", "lconf"),
            ("tu", "au", "eu", "eu_pc", "eu_so", "lconf"),
            ("tu", "au", "eu", "eu_pc", "eu_so", "lconf"),
            ("tu", "au", "eu_so", "lconf"),
        ],
        strict=True,
    ),
)
def test_each_distribution_lists_exactly_its_measures(posterior, measures):
    assert posterior.measures == measures
    for missing in {"eu", "eu_pc", "au"} - set(measures):
        with pytest.raises(InputError, match=f"no measure '{missing}'"):
            posterior.measure(missing)


class DirichletWithVacuity(Dirichlet):
    extra_measures = ("vacuity",)

    def vacuity(self):
        return self.alpha.shape[1] / self.alpha_0.double()


def test_extra_measures_of_a_subclass_are_listed_last_and_survive_indexing():
    posterior = DirichletWithVacuity(torch.tensor([[3.0, 1.0], [2.0, 6.0]]))
    assert posterior.measures == ("tu", "au", "eu", "eu_pc", "eu_so", "lconf", "vacuity")
    assert posterior.measure("vacuity").tolist() == [0.5, 0.25]
    nodes = torch.tensor([1])
    assert posterior[nodes].measures == posterior.measures
    assert posterior[nodes].measure("vacuity").tolist() == [0.25]
    assert "vacuity" not in Dirichlet(posterior.alpha).measures
    with pytest.raises(InputError, match="expected: one of tu, au, eu, eu_pc, eu_so, lconf, vacuity"):
        posterior.measure("surprise")


@pytest.mark.parametrize("kind", [Categorical, DirichletMixture, GaussianSimplex])
def test_indexing_keeps_the_subclass(kind):
    posterior = next(posterior for posterior in posteriors() if type(posterior) is kind)
    posterior.__class__ = type("Subclass", (kind,), {"extra_measures": ("half_tu",), "half_tu": lambda p: p.tu() / 2})
    nodes = torch.tensor([2, 0])
    assert posterior.measures[-1] == "half_tu"
    torch.testing.assert_close(posterior[nodes].measure("half_tu"), posterior.tu()[nodes] / 2)


def test_extra_measure_without_a_method_is_rejected():
    with pytest.raises(TypeError, match=r"Typo.extra_measures names 'vacuty'"):
        type("Typo", (Dirichlet,), {"extra_measures": ("vacuty",)})


def test_gaussian_measures_match_values_by_hand():
    posterior = GaussianSimplex(torch.tensor([[0.5, 0.5]]), torch.tensor([[0.1, 0.3]]))
    assert posterior.tu().item() == pytest.approx(math.log(2))
    assert posterior.au().item() == posterior.tu().item()
    assert posterior.eu_so().item() == pytest.approx(0.4)
    assert posterior.lconf().item() == pytest.approx(0.5)


def test_cross_entropy_of_extreme_logits_is_finite():
    posterior = Categorical(torch.log_softmax(torch.tensor([[500.0, 0.0]]), dim=1))
    assert posterior.mean[0, 1] == 0
    assert posterior.cross_entropy(torch.tensor([1])).item() == pytest.approx(500)
