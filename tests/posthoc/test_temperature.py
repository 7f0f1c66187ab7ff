"""Temperature scaling: calibrated logits keep their temperature, a known one is found, classes do not change."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from torch import Tensor

from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Part
from lopgpn_exp.models import APPNP
from lopgpn_exp.posterior import Categorical, Dirichlet, RefinedPosterior
from lopgpn_exp.posthoc.step import StepData
from lopgpn_exp.posthoc.temperature import TemperatureScaling, fit_temperature, logits_of

MODEL = APPNP(num_features=12, num_classes=3)  # which the step does not use


def calibrated_toy() -> tuple[Tensor, Tensor]:
    """Ten nodes with probabilities 0.7, 0.2, 0.1, of which exactly 7, 2 and 1 have each class."""
    logits = torch.log(torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64)).expand(10, 3)
    return logits, torch.tensor([0] * 7 + [1] * 2 + [2])


def random_logits(num_nodes: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(num_nodes, 4, generator=generator)
    labels = torch.multinomial(torch.softmax(logits, dim=1), 1, generator=generator).flatten()
    return logits, labels


def fitted_step(graph, posterior) -> TemperatureScaling:
    step = TemperatureScaling()
    step.fitted = step.fit(StepData(graph, MODEL, posterior, seed=0))
    return step


@pytest.mark.parametrize("temperature", [0.05, 0.5, 1.0, 3.0, 40.0])
def test_temperature_of_a_calibrated_toy_is_recovered(temperature):
    """The frequencies are the probabilities, so that cross-entropy has its minimum exactly where the scaling is undone.

    A minimum is found up to the square root of the machine precision, about 1e-8.
    """
    logits, labels = calibrated_toy()
    assert fit_temperature(temperature * logits, labels) == pytest.approx(temperature, rel=1e-6)


@given(st.integers(0, 10_000), st.floats(-2, 2))
@settings(max_examples=30, deadline=None)
def test_temperature_solves_the_equation_of_the_minimum(seed, log_scale):
    """At the minimum, the expected logit equals the mean logit of the labels: a root, found by another method."""
    logits, labels = random_logits(200, seed)
    logits = logits.double() * math.exp(log_scale)
    of_labels = logits[torch.arange(200), labels].mean()

    def slope(log_temperature: float) -> float:
        probabilities = torch.softmax(logits * math.exp(-log_temperature), dim=1)
        return float((probabilities * logits).sum(dim=1).mean() - of_labels)

    expected = math.exp(brentq(slope, -5, 5, xtol=1e-12))
    assert fit_temperature(logits, labels) == pytest.approx(expected, rel=1e-6)


def test_no_temperature_of_a_grid_is_better():
    logits, labels = random_logits(300, seed=5)
    losses = {
        t: float(torch.nn.functional.cross_entropy(3 * logits / t, labels)) for t in np.geomspace(0.01, 100, 2001)
    }
    best = min(losses, key=losses.get)
    assert abs(math.log(fit_temperature(3 * logits, labels) / best)) <= math.log(1e4) / 2000  # one step of the grid


def test_extremes_stay_within_the_bounds():
    """Separable nodes get a temperature at which their cross-entropy is 0, misleading logits the highest one."""
    labels = torch.tensor([0, 1])
    lowest = fit_temperature(torch.eye(2), labels)
    assert lowest >= math.exp(-5)
    assert torch.nn.functional.cross_entropy(torch.eye(2).double() / lowest, labels) == pytest.approx(0, abs=1e-12)
    assert fit_temperature(-torch.eye(2), labels) == pytest.approx(math.exp(5), rel=1e-6)


def test_the_step_uses_validation_nodes_only_and_keeps_classes_and_type(small_graph):
    logits, _ = random_logits(300, seed=1)
    logits = logits[:, :3]
    posterior = Categorical.from_logits(logits)
    step = fitted_step(small_graph, posterior)
    nodes = small_graph.nodes(Part.VAL)
    assert step.fitted == {"temperature": fit_temperature(logits[nodes], small_graph.labels[nodes])}
    other_labels = torch.where(small_graph.part == Part.TEST, 0, small_graph.labels)
    assert fitted_step(small_graph.replace(labels=other_labels), posterior).fitted == step.fitted
    scaled = step.refine(posterior, MODEL, small_graph)
    assert scaled.mean.dtype == torch.float32
    assert torch.equal(scaled.mean.argmax(dim=1), posterior.mean.argmax(dim=1))
    torch.testing.assert_close(scaled.mean, torch.softmax(logits / step.fitted["temperature"], dim=1))
    before, after = (p[nodes].cross_entropy(small_graph.labels[nodes]).mean() for p in (posterior, scaled))
    assert after < before


def test_logits_are_used_if_there_are_any_and_else_the_mean():
    logits = torch.tensor([[1.0, 3.0], [2.0, -1.0]])
    posterior = Categorical.from_logits(logits)
    assert torch.equal(logits_of(posterior), logits)
    assert torch.equal(logits_of(RefinedPosterior(posterior, {"own": torch.zeros(2)})), logits)
    without = Categorical(posterior.log_probabilities)
    assert torch.equal(logits_of(without), posterior.log_probabilities)
    counts = Dirichlet(torch.tensor([[1.0, 3.0], [2.0, 6.0]]))
    torch.testing.assert_close(logits_of(counts), torch.tensor([[0.25, 0.75]]).log().expand(2, 2))
    labels = torch.tensor([1, 1])  # logits and logarithms of the mean differ by a constant per node
    assert fit_temperature(logits_of(without), labels) == pytest.approx(fit_temperature(logits, labels), rel=1e-6)


def test_a_mean_of_zero_leaves_the_cross_entropy_finite():
    posterior = Categorical(torch.log(torch.tensor([[1.0, 0.0], [0.4, 0.6]])))
    logits = logits_of(posterior)
    assert logits[0].tolist() == pytest.approx([0, math.log(torch.finfo(torch.float32).tiny)])
    assert math.isfinite(fit_temperature(logits, torch.tensor([1, 1])))
    assert logits_of(Categorical(torch.tensor([[float("nan"), 0.0]]))).isnan().any()  # other defects are not hidden


def test_a_split_without_validation_nodes_is_refused(small_graph):
    TemperatureScaling().check_graph(small_graph)
    graph = small_graph.replace(part=small_graph.part.masked_fill(small_graph.part == Part.VAL, Part.NONE))
    with pytest.raises(InputError, match="no validation nodes") as info:
        TemperatureScaling().check_graph(graph)
    assert (info.value.parameter, info.value.suggestion) == ("split", "random")
