"""Samples of predictions, draws from posteriors, and posteriors with added measures."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from lopgpn_exp import posterior as posteriors
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import DenseMatrix
from lopgpn_exp.measures import Measure, find_measure, measure_names, register_measure, sort_measures
from lopgpn_exp.posterior import (
    Categorical,
    Dirichlet,
    DirichletMixture,
    EvidentialDirichlet,
    GaussianSimplex,
    RefinedPosterior,
    Samples,
)


def draw_logits(*shape, seed=0, scale=2.0):
    return scale * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def make(name):
    alpha = 1 + draw_logits(6, 3).exp()
    weights = DenseMatrix(torch.softmax(draw_logits(6, 6), dim=1))
    return {
        "Categorical": Categorical.from_logits(draw_logits(6, 3)),
        "Dirichlet": Dirichlet(alpha),
        "EvidentialDirichlet": EvidentialDirichlet(alpha),
        "DirichletMixture": DirichletMixture(weights, alpha),
        "GaussianSimplex": GaussianSimplex(torch.softmax(draw_logits(6, 3), dim=1), torch.rand(6, 3)),
        "Samples": Samples(torch.log_softmax(draw_logits(4, 6, 3), dim=-1)),
    }[name]


CLASSES = ["Categorical", "Dirichlet", "EvidentialDirichlet", "DirichletMixture", "GaussianSimplex", "Samples"]


@pytest.mark.parametrize("name", CLASSES)
def test_the_registry_says_which_posterior_has_which_measure(name):
    registered = [m for m in measure_names() if name in find_measure(m).posteriors]
    assert list(make(name).measures) == registered
    assert type(make(name)) is getattr(posteriors, name)


def test_registered_measures_have_distinct_symbols_and_colours():
    measures = [find_measure(name) for name in measure_names()]
    for field in ("name", "symbol", "color", "formula"):
        values = [getattr(measure, field) for measure in measures]
        assert len(set(values)) == len(values), field
    assert sort_measures(["mine", "eu", "tu", "mine"]) == ["tu", "eu", "mine"]


def test_a_registered_measure_cannot_be_redefined():
    with pytest.raises(ValueError, match="already a measure 'tu'"):
        register_measure(Measure("tu", "other", "total", "", (), "#000000"))


@given(st.integers(1, 5), st.integers(2, 6), st.integers(0, 99))
def test_uncertainty_of_samples_is_total_minus_expected_entropy(num_draws, num_classes, seed):
    log_p = torch.log_softmax(draw_logits(num_draws, 7, num_classes, seed=seed), dim=-1)
    posterior = Samples(log_p)
    p = log_p.double().exp().numpy()
    mean = p.mean(axis=0)
    assert_close(posterior.mean.double().numpy(), mean, atol=1e-6, rtol=1e-5)
    total = -(mean * np.log(mean)).sum(axis=-1)
    expected = -(p * np.log(p)).sum(axis=-1).mean(axis=0)
    assert_close(posterior.tu().numpy(), total, atol=1e-9, rtol=1e-6)
    assert_close(posterior.au().numpy(), expected, atol=1e-9, rtol=1e-6)
    assert_close(posterior.eu().numpy(), total - expected, atol=1e-8, rtol=1e-6)
    assert (posterior.eu() >= 0).all()
    assert_close(posterior.credal_width().numpy(), (p.max(axis=0) - p.min(axis=0)).sum(axis=-1))


def test_one_member_or_equal_members_have_no_epistemic_uncertainty():
    log_p = torch.log_softmax(draw_logits(1, 9, 4), dim=-1)
    for posterior in (Samples(log_p), Samples(log_p.expand(5, -1, -1))):
        assert posterior.eu().max() < 1e-12
        assert posterior.credal_width().max() == 0
        assert_close(posterior.au(), posterior.tu())


def test_certain_and_contradicting_members():
    """Two members that are certain of different classes: no aleatoric uncertainty, log 2 of epistemic."""
    log_p = torch.log_softmax(torch.tensor([[[500.0, 0.0]], [[0.0, 500.0]]]), dim=-1)
    posterior = Samples(log_p)
    assert posterior.au().item() < 1e-200
    assert posterior.eu().item() == pytest.approx(np.log(2))
    assert posterior.credal_width().item() == 2
    assert torch.isfinite(posterior.cross_entropy(torch.tensor([0]))).all()
    assert_close(posterior.expected_cross_entropy(torch.tensor([1])), torch.tensor([250.0]))


@pytest.mark.parametrize("name", ["Dirichlet", "DirichletMixture", "Samples", "Categorical"])
def test_draws_have_the_mean_of_the_posterior(name):
    """The mean of 20,000 draws is within 5 standard errors, and the same seed gives the same draws."""
    posterior = make(name)
    draws = posterior.sample(20_000, seed=1).double()
    assert draws.shape == (20_000, 6, 3)
    assert_close(draws.sum(dim=-1), torch.ones(20_000, 6).double(), atol=1e-6, rtol=0)
    error = 5 * draws.std(dim=0) / 20_000**0.5 + 1e-6
    assert ((draws.mean(dim=0) - posterior.mean.double()).abs() <= error).all()
    assert torch.equal(posterior.sample(5, seed=2), posterior.sample(5, seed=2))
    if name != "Categorical":
        assert not torch.equal(posterior.sample(5, seed=2), posterior.sample(5, seed=3))
    with pytest.raises(InputError, match="num_draws is 0"):
        posterior.sample(0, seed=1)


def test_draws_of_a_mixture_have_its_variance():
    """The variance of a mixture is the mean variance of its components plus the variance of their means."""
    alpha = torch.tensor([[20.0, 1.0], [1.0, 20.0]])
    mixture = DirichletMixture(DenseMatrix(torch.tensor([[0.5, 0.5]])), alpha)
    draws = mixture.sample(50_000, seed=0)[:, 0, 0]
    component = torch.distributions.Dirichlet(alpha.double())
    expected = component.variance[:, 0].mean() + component.mean[:, 0].var(correction=0)
    assert draws.var().item() == pytest.approx(expected.item(), rel=0.02)


def test_gaussians_have_no_draws():
    assert not hasattr(make("GaussianSimplex"), "sample")


def test_energy_is_minus_the_logarithm_of_the_sum_of_exponentials():
    logits = draw_logits(30, 5, scale=100.0)
    expected = -torch.log(torch.exp(logits.double()).sum(dim=1))
    assert_close(Categorical.from_logits(logits).energy(), expected)
    without = Categorical(torch.log_softmax(logits, dim=1))
    assert "energy" not in without.measures
    with pytest.raises(InputError, match="no measure 'energy'"):
        without.measure("energy")


def test_added_measures_follow_the_nodes():
    original = make("EvidentialDirichlet")
    scores = torch.arange(6).double()
    refined = RefinedPosterior(RefinedPosterior(original, {"mine": scores}), {"other": -scores})
    assert refined.measures == (*original.measures, "mine", "other")
    nodes = torch.tensor([4, 1])
    assert_close(refined[nodes].measure("mine"), scores[nodes])
    assert_close(refined[nodes].measure("vacuity"), original.vacuity()[nodes])
    assert_close(refined[nodes].mean, original.mean[nodes])
    assert torch.equal(refined.alpha, original.alpha)
    assert refined.prediction_sets is None
    with pytest.raises(AttributeError):
        refined.logits  # noqa: B018
