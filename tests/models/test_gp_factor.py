"""The hand-written gradient through the Cholesky factor against autograd, which differentiates the definition."""

import numpy as np
import pytest
import torch
from torch import Tensor

from lopgpn_exp.models.gp.factor import BLOCK, FactorMoments, factor_covariance


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def plain_moments(
    density: Tensor, mean: Tensor, variance: Tensor, vectors: Tensor, jitter: float
) -> tuple[Tensor, Tensor]:
    covariance = vectors @ torch.diag(density) @ vectors.T
    covariance = covariance + jitter * density.sum() * torch.eye(len(vectors), dtype=torch.float64)
    factor = torch.linalg.cholesky(covariance)
    return factor @ mean, factor.square() @ variance


def assert_equal_to_autograd(density: Tensor, vectors: Tensor, *, jitter: float) -> None:
    n, num_classes = len(vectors), 3
    mean, variance = draw(n, num_classes, seed=1), draw(n, num_classes, seed=2).exp()
    upstream = draw(2, n, num_classes, seed=3)
    results = []
    for function in (plain_moments, FactorMoments.apply):
        inputs = [tensor.clone().requires_grad_() for tensor in (density, mean, variance)]
        moments = torch.stack(function(*inputs, vectors, jitter))
        results.append([moments.detach(), *torch.autograd.grad(moments, inputs, upstream)])
    for expected, result in zip(*results, strict=True):
        scale = expected.abs().max().item()
        torch.testing.assert_close(result, expected, rtol=0, atol=1e-9 * scale)


@pytest.mark.parametrize(
    ("num_nodes", "num_pairs"),
    [(1, 1), (1, 5), (7, 20), (40, 12), (BLOCK, 120), (BLOCK + 1, 60), (2 * BLOCK + 30, 300)],
)
def test_gradient_equals_autograd(num_nodes: int, num_pairs: int) -> None:
    """Also with fewer eigenpairs than nodes, where the matrix is regular because of the jitter alone."""
    assert_equal_to_autograd(draw(num_pairs).exp(), draw(num_nodes, num_pairs, seed=4), jitter=1e-4)


def test_gradient_equals_autograd_where_the_density_is_zero() -> None:
    """A smooth kernel gives no variance to large eigenvalues; the gradient by their density is not zero."""
    density = torch.cat([draw(10).exp(), torch.zeros(30, dtype=torch.float64)])
    assert_equal_to_autograd(density, draw(20, 40, seed=4), jitter=1e-4)


def test_gradient_equals_autograd_for_nodes_with_equal_rows() -> None:
    """Two leaves of one node can have the same entries in all eigenvectors that are used."""
    vectors = draw(20, 30, seed=4)
    vectors[5:9] = vectors[4]
    assert_equal_to_autograd(draw(30).exp(), vectors, jitter=1e-4)


def test_gradient_by_the_variational_parameters_alone() -> None:
    density, vectors = draw(12).exp(), draw(8, 12, seed=4)
    mean, variance = draw(8, 2, seed=1).requires_grad_(), draw(8, 2, seed=2).exp().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda *inputs: FactorMoments.apply(density, *inputs, vectors, 1e-6), (mean, variance)
    )


def test_a_matrix_that_is_not_positive_definite_raises_an_error() -> None:
    with pytest.raises(np.linalg.LinAlgError, match="leading minor of order 2"):
        factor_covariance(np.ones((3, 1)), np.ones(1), jitter=0.0)
