"""The encoder and its compiled kernel for bias, ReLU and dropout."""

import math

import pytest
import torch

from lopgpn_exp.graph import DenseMatrix
from lopgpn_exp.models.layers.encoder import Encoder
from lopgpn_exp.models.layers.relu_dropout import ReluDropout


@pytest.fixture
def values():
    return torch.randn(5000, 40, generator=torch.Generator().manual_seed(0))


def relu_dropout(values, dropout, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return ReluDropout.apply(values.clone(), torch.full((values.shape[1],), 0.5), dropout)


def test_without_dropout_the_result_equals_relu_of_torch(values):
    assert torch.equal(relu_dropout(values, 0.0), (values + 0.5).relu())


@pytest.mark.parametrize("dropout", [0.1, 0.5, 0.8])
def test_elements_are_dropped_independently_with_the_given_probability(values, dropout):
    """Fractions of all elements, per column, per row and of adjacent pairs are within 5 standard errors."""
    kept = relu_dropout(values.abs(), dropout) != 0
    probability = 1 - dropout

    def assert_close(fractions, expected, count):
        assert (fractions - expected).abs().max() < 5 * math.sqrt(expected * (1 - expected) / count)

    assert_close(kept.double().mean(), probability, kept.numel())
    assert_close(kept.double().mean(dim=0), probability, len(kept))
    assert_close(kept.double().mean(dim=1), probability, kept.shape[1])
    assert_close((kept[:, 1:] & kept[:, :-1]).double().mean(), probability**2, kept.numel())
    assert_close((kept[1:] & kept[:-1]).double().mean(), probability**2, kept.numel())


def test_kept_elements_and_their_gradients_are_scaled(values):
    values = values.requires_grad_()
    bias = torch.full((40,), 0.5, requires_grad=True)
    result = ReluDropout.apply(values.clone(), bias, 0.75)
    kept = result != 0
    torch.testing.assert_close(result, torch.where(kept, 4 * (values + 0.5).relu(), 0.0))
    upstream = torch.randn(5000, 40, generator=torch.Generator().manual_seed(1))
    result.backward(upstream)
    torch.testing.assert_close(values.grad, torch.where(kept, 4 * upstream, 0.0))
    torch.testing.assert_close(bias.grad, torch.where(kept, 4 * upstream, 0.0).sum(dim=0))


def test_the_seed_determines_the_draws_and_calls_draw_independently(values):
    assert torch.equal(relu_dropout(values, 0.5), relu_dropout(values, 0.5))
    assert not torch.equal(relu_dropout(values, 0.5), relu_dropout(values, 0.5, seed=1))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        first, second = (ReluDropout.apply(values.abs(), torch.zeros(40), 0.5) != 0 for _ in range(2))
    assert (first & second).double().mean() == pytest.approx(0.25, abs=5 * math.sqrt(0.25 * 0.75 / values.numel()))


def test_everything_can_be_dropped_and_nan_stays_visible(values):
    assert not relu_dropout(values, 1.0).any()
    values[3, 7] = math.nan
    assert torch.nonzero(relu_dropout(values, 0.0).isnan()).tolist() == [[3, 7]]


def test_the_encoder_gives_the_same_result_with_and_without_the_kernel():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        single = Encoder(6, 8, 3, dropout=0.5).eval()
        double = Encoder(6, 8, 3, dropout=0.5).double().eval()
        double.load_state_dict(single.state_dict())
        features = torch.randn(30, 6)
    torch.testing.assert_close(
        single(DenseMatrix(features)), double(DenseMatrix(features.double())).float(), atol=1e-6, rtol=1e-5
    )


def test_a_training_step_reuses_the_product_of_the_preceding_validation():
    """Values and gradients are the same with one product less; changed weights or features prevent the reuse."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder, reference = Encoder(6, 8, 3, dropout=0.0), Encoder(6, 8, 3, dropout=0.0)
        reference.load_state_dict(encoder.state_dict())
        features, others = CountingMatrix(torch.randn(30, 6)), DenseMatrix(torch.randn(30, 6))

    def train_step(module, matrix):
        module.train()
        module.zero_grad()
        output = module(matrix)
        output.square().sum().backward()
        return output.detach(), module.hidden.weight.grad.clone()

    def validate():
        encoder.eval()
        with torch.no_grad():
            encoder(features)

    def assert_same_step(matrix):
        pairs = zip(train_step(encoder, matrix), train_step(reference, matrix), strict=True)
        assert all(torch.equal(first, second) for first, second in pairs)

    train_step(encoder, features)
    validate()
    before = features.products
    result = train_step(encoder, features)
    assert features.products == before
    assert all(torch.equal(a, b) for a, b in zip(result, train_step(reference, features), strict=True))
    for change in ("weights", "features"):
        validate()
        if change == "weights":
            with torch.no_grad():
                for module in (encoder, reference):
                    module.hidden.weight[0, 0] += 1
        assert_same_step(others if change == "features" else features)


class CountingMatrix(DenseMatrix):
    """Counts its products."""

    products = 0

    def product(self, right):
        self.products += 1
        return super().product(right)
