"""The compiled loss terms of Dirichlet distributions, against autograd and against float64."""

import pytest
import torch
from torch.testing import assert_close

from lopgpn_exp.posterior import Dirichlet
from lopgpn_exp.posterior.loss_kernel import DirichletLossTerms
from lopgpn_exp.posterior.special import SERIES_FROM, dirichlet_entropy


def draw_alpha(num_nodes, num_classes, spread):
    generator = torch.Generator().manual_seed(0)
    alpha = torch.exp(spread * torch.randn(num_nodes, num_classes, generator=generator)) + 1e-3
    alpha[0, 0], alpha[1, 1] = SERIES_FROM, torch.nextafter(torch.tensor(SERIES_FROM), torch.tensor(99.0))
    return alpha.clamp(max=1e13)


def draw_upstream(alpha):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(shape, generator=generator) for shape in (alpha.shape, alpha.shape[:1])]


def differentiate(terms, alpha):
    """Return the loss terms of alpha, and the gradient of a random combination of them."""
    leaf = alpha.clone().requires_grad_()
    values = terms(leaf * 1)  # the gradients of a result are added in the order in which autograd reaches it
    upstream = [tensor.to(alpha.dtype) for tensor in draw_upstream(alpha)]
    return [value.detach() for value in values], torch.autograd.grad(values, leaf, upstream)[0]


def plain_terms(alpha):
    gaps = torch.digamma(alpha.sum(dim=-1))[:, None] - torch.digamma(alpha)
    return gaps, dirichlet_entropy(alpha)


@pytest.mark.parametrize(("num_classes", "spread"), [(2, 0.5), (7, 3.0), (40, 8.0)])
def test_terms_and_gradients_equal_autograd_to_the_bit(num_classes, spread):
    alpha = draw_alpha(501, num_classes, spread)
    terms, gradient = differentiate(DirichletLossTerms.apply, alpha)
    expected, expected_gradient = differentiate(plain_terms, alpha)
    assert all(torch.equal(*pair) for pair in zip(terms, expected, strict=True))
    assert torch.equal(gradient, expected_gradient)


@pytest.mark.parametrize(("num_classes", "spread"), [(2, 0.5), (7, 2.0)])
def test_terms_and_gradients_are_close_to_float64(num_classes, spread):
    alpha = 1 + draw_alpha(501, num_classes, spread)  # as in every model
    terms, gradient = differentiate(DirichletLossTerms.apply, alpha)
    expected, expected_gradient = differentiate(lambda leaf: Dirichlet(leaf).loss_terms, alpha.double())
    for value, exact in zip(terms, expected, strict=True):
        assert_close(value.double(), exact, rtol=1e-5, atol=1e-5)
    assert_close(gradient.double(), expected_gradient, rtol=1e-4, atol=1e-4)


def test_strided_parameters_and_no_nodes():
    alpha = draw_alpha(6, 4, 1.0)
    for strided, contiguous in zip(
        DirichletLossTerms.apply(alpha.T.contiguous().T), DirichletLossTerms.apply(alpha), strict=True
    ):
        assert torch.equal(strided, contiguous)
    gaps, entropy = DirichletLossTerms.apply(alpha[:0])
    assert (gaps.shape, entropy.shape) == ((0, 4), (0,))
