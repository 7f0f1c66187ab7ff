import math

import pytest
import torch

from lopgpn_exp.graph import DenseMatrix
from lopgpn_exp.models.encoder import Encoder
from lopgpn_exp.models.relu_dropout import ReluDropout


@pytest.fixture
def values():
    return torch.randn(5000, 40, generator=torch.Generator().manual_seed(0))


def dropped(values, dropout, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return ReluDropout.apply(values.clone(), torch.full((values.shape[1],), 0.5), dropout)


def test_without_dropout_it_is_torchs_relu(values):
    assert torch.equal(dropped(values, 0.0), (values + 0.5).relu())


@pytest.mark.parametrize("dropout", [0.1, 0.5, 0.8])
def test_elements_are_dropped_independently_with_the_probability_asked_for(values, dropout):
    """By share: in all, by column, by row, and of neighbours in both directions; within 5 standard errors each."""
    kept = dropped(values.abs(), dropout) != 0
    share = 1 - dropout

    def close(found, expected, count):
        assert (found - expected).abs().max() < 5 * math.sqrt(expected * (1 - expected) / count)

    close(kept.double().mean(), share, kept.numel())
    close(kept.double().mean(dim=0), share, len(kept))
    close(kept.double().mean(dim=1), share, kept.shape[1])
    close((kept[:, 1:] & kept[:, :-1]).double().mean(), share**2, kept.numel())
    close((kept[1:] & kept[:-1]).double().mean(), share**2, kept.numel())


def test_what_is_kept_is_scaled_and_the_gradient_is_that_of_the_product(values):
    values = values.requires_grad_()
    bias = torch.full((40,), 0.5, requires_grad=True)
    result = ReluDropout.apply(values.clone(), bias, 0.75)
    kept = result != 0
    torch.testing.assert_close(result, torch.where(kept, 4 * (values + 0.5).relu(), 0.0))
    upstream = torch.randn(5000, 40, generator=torch.Generator().manual_seed(1))
    result.backward(upstream)
    torch.testing.assert_close(values.grad, torch.where(kept, 4 * upstream, 0.0))
    torch.testing.assert_close(bias.grad, torch.where(kept, 4 * upstream, 0.0).sum(dim=0))


def test_the_seed_decides_and_each_call_draws_anew(values):
    assert torch.equal(dropped(values, 0.5), dropped(values, 0.5))
    assert not torch.equal(dropped(values, 0.5), dropped(values, 0.5, seed=1))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        first, second = (ReluDropout.apply(values.abs(), torch.zeros(40), 0.5) != 0 for _ in range(2))
    assert (first & second).double().mean() == pytest.approx(0.25, abs=5 * math.sqrt(0.25 * 0.75 / values.numel()))


def test_everything_can_be_dropped_and_nan_is_not_hidden(values):
    assert not dropped(values, 1.0).any()
    values[3, 7] = math.nan
    assert torch.nonzero(dropped(values, 0.0).isnan()).tolist() == [[3, 7]]


def test_the_encoder_is_the_same_with_and_without_the_kernel():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        single = Encoder(6, 8, 3, dropout=0.5).eval()
        double = Encoder(6, 8, 3, dropout=0.5).double().eval()
        double.load_state_dict(single.state_dict())
        features = torch.randn(30, 6)
    torch.testing.assert_close(
        single(DenseMatrix(features)), double(DenseMatrix(features.double())).float(), atol=1e-6, rtol=1e-5
    )


def test_a_training_step_takes_over_the_product_of_the_validation_before_it():
    """Same values, same gradient, one product less; and not where weights or features have changed since."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder, fresh = Encoder(6, 8, 3, dropout=0.0), Encoder(6, 8, 3, dropout=0.0)
        fresh.load_state_dict(encoder.state_dict())
        features, others = CountingMatrix(torch.randn(30, 6)), DenseMatrix(torch.randn(30, 6))

    def step(which, matrix):
        which.train()
        which.zero_grad()
        output = which(matrix)
        output.square().sum().backward()
        return output.detach(), which.hidden.weight.grad.clone()

    def validate():
        encoder.eval()
        with torch.no_grad():
            encoder(features)

    step(encoder, features)
    validate()
    before = features.products
    found = step(encoder, features)
    assert features.products == before
    assert all(torch.equal(a, b) for a, b in zip(found, step(fresh, features), strict=True))
    for change in ("weights", "features"):
        validate()
        if change == "weights":
            for which in (encoder, fresh):
                which.hidden.weight.data[0, 0] += 1
        matrix = others if change == "features" else features
        assert all(torch.equal(a, b) for a, b in zip(step(encoder, matrix), step(fresh, matrix), strict=True))


class CountingMatrix(DenseMatrix):
    products = 0

    def product(self, right):
        self.products += 1
        return super().product(right)
