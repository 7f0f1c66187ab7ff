"""Matern-GGP: kernel, robust-max integral, bound and fit against independently derived values."""

import math
import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.linalg import expm
from scipy.stats import norm

from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Graph, Part
from lopgpn_exp.models import FitData, MaternGGP
from lopgpn_exp.models.gp import (
    MaternKernel,
    RobustMax,
    Softmax,
    VariationalGP,
    fit_full_batch,
    fit_minibatches,
    fit_plain_adam,
)
from lopgpn_exp.training import fit, load_module

NETWORK = nx.disjoint_union(nx.connected_watts_strogatz_graph(50, 4, 0.1, seed=0), nx.path_graph(4))


def graph_of(network: nx.Graph = NETWORK, *, num_classes: int = 3) -> Graph:
    """Return a graph with labels by position along the ring; every fifth node is a training node."""
    n = network.number_of_nodes()
    labels = torch.arange(n) * num_classes // n
    edges = torch.tensor(list(network.edges), dtype=torch.int64).T
    graph = Graph.build(features=torch.ones(n, 2), edge_index=edges, labels=labels, num_classes=num_classes)
    part = torch.full((n,), Part.TEST, dtype=torch.int8)
    part[::5] = Part.TRAIN
    return graph.replace(part=part)


def build_model(**options: object) -> MaternGGP:
    return MaternGGP(**{"num_features": 2, "num_classes": 3, "num_eigenpairs": 30, **options})  # type: ignore[arg-type]


def build_gp(graph: Graph, **options: object) -> VariationalGP:
    nodes = graph.nodes(Part.TRAIN)
    return build_model(**options).build_gp(FitData(graph, nodes, graph.labels[nodes]))


def perturb(gp: VariationalGP, seed: int = 0) -> VariationalGP:
    """Move the variational parameters away from their initial values."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in (gp.mean, gp.log_deviation):
            parameter += 0.5 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return gp


class TestKernel:
    values, vectors = np.linalg.eigh(nx.laplacian_matrix(NETWORK).toarray().astype(float))

    def covariance(self, nu: float, kappa: float, sigma_f: float) -> np.ndarray:
        eigenvalues = torch.from_numpy(self.values).clamp(min=0)
        kernel = MaternKernel(eigenvalues, 54, nu=nu, kappa=kappa, sigma_f=sigma_f)
        return self.vectors * kernel.density().detach().numpy() @ self.vectors.T

    def test_equals_the_matrix_function_with_the_given_mean_variance(self) -> None:
        laplacian = nx.laplacian_matrix(NETWORK).toarray()
        expected = np.linalg.matrix_power(np.linalg.inv(laplacian + 2 * 2 / 3.0**2 * np.eye(54)), 2)
        expected *= 54 * 1.7 / np.trace(expected)
        np.testing.assert_allclose(self.covariance(2.0, 3.0, 1.7), expected, atol=1e-10)

    def test_approaches_the_heat_kernel(self) -> None:
        expected = expm(-0.5 * 1.2**2 * nx.laplacian_matrix(NETWORK).toarray())
        expected *= 54 / np.trace(expected)
        np.testing.assert_allclose(self.covariance(1e6, 1.2, 1.0), expected, atol=1e-4)


class TestRobustMax:
    mean = torch.tensor([[0.3, -0.5, 0.1, 0.0], [2.0, 1.0, -1.0, 0.5]], dtype=torch.float64)
    variance = torch.tensor([[1.0, 0.5, 2.0, 0.3], [0.2, 1.5, 1.0, 0.7]], dtype=torch.float64)

    def test_integral_equals_monte_carlo(self) -> None:
        generator = torch.Generator().manual_seed(0)
        draws = torch.randn(400_000, 2, 4, generator=generator, dtype=torch.float64) * self.variance.sqrt() + self.mean
        frequency = torch.nn.functional.one_hot(draws.argmax(dim=2), 4).double().mean(dim=0)
        for label in range(4):
            probability = RobustMax().argmax_probability(self.mean, self.variance, torch.full((2,), label))
            torch.testing.assert_close(probability, frequency[:, label], atol=4e-3, rtol=0)  # five standard errors

    def test_integral_equals_adaptive_quadrature(self) -> None:
        mu, sigma = self.mean[0].numpy(), self.variance[0].sqrt().numpy()

        def integrand(x: float) -> float:
            others = np.prod([norm.cdf((x - mu[k]) / sigma[k]) for k in (0, 1, 3)])
            return norm.pdf(x, mu[2], sigma[2]) * others

        likelihood = RobustMax(quadrature_points=60)
        probability = likelihood.argmax_probability(self.mean[:1], self.variance[:1], torch.tensor([2]))
        assert probability.item() == pytest.approx(quad(integrand, -12, 12)[0], abs=1e-6)

    def test_equals_the_closed_form_for_two_classes(self) -> None:
        mean, variance = self.mean[:, :2], self.variance[:, :2]
        expected = norm.cdf((mean[:, 0] - mean[:, 1]).numpy() / variance.sum(dim=1).sqrt().numpy())
        probability = RobustMax().argmax_probability(mean, variance, torch.zeros(2, dtype=torch.int64))
        np.testing.assert_allclose(probability.numpy(), expected, atol=1e-3)

    def test_gradient_equals_finite_differences(self) -> None:
        labels = torch.tensor([1, 2])

        def log_probability(mean: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
            return RobustMax().expected_log(mean, variance, labels)

        inputs = (self.mean.clone().requires_grad_(), self.variance.clone().requires_grad_())
        assert torch.autograd.gradcheck(log_probability, inputs)

    def test_expected_log_averages_over_the_two_outcomes(self) -> None:
        labels = torch.tensor([0, 3])
        probability = RobustMax().argmax_probability(self.mean, self.variance, labels)
        expected = probability * math.log(0.99) + (1 - probability) * math.log(0.01 / 3)
        torch.testing.assert_close(RobustMax(epsilon=0.01).expected_log(self.mean, self.variance, labels), expected)

    def test_predictions_are_moments_of_class_indicators(self) -> None:
        mean, variance = RobustMax().predict(self.mean, self.variance)
        torch.testing.assert_close(mean.sum(dim=1), torch.ones(2, dtype=torch.float64))
        torch.testing.assert_close(variance, mean * (1 - mean))
        assert mean.min() > 1e-3 / 3

    def test_is_finite_for_distant_means_and_zero_variance(self) -> None:
        far = torch.tensor([[0.0, 1e3, -1e3]], dtype=torch.float64, requires_grad=True)
        value = RobustMax().expected_log(far, torch.full((1, 3), 1e-8, dtype=torch.float64), torch.tensor([0]))
        value.sum().backward()
        assert value.item() == pytest.approx(math.log(1e-3 / 2))
        assert torch.equal(far.grad, torch.zeros(1, 3, dtype=torch.float64))
        flat, _ = RobustMax().predict(torch.zeros(1, 3, dtype=torch.float64), torch.zeros(1, 3, dtype=torch.float64))
        torch.testing.assert_close(flat, torch.full((1, 3), 1 / 3, dtype=torch.float64))


@pytest.mark.parametrize("max_inducing", [2000, 0], ids=["inducing_points", "weight_space"])
class TestBound:
    def test_gradient_equals_finite_differences(self, max_inducing: int) -> None:
        gp = perturb(build_gp(graph_of(), max_inducing=max_inducing, num_eigenpairs=54))
        names = [name for name, _ in gp.named_parameters()]

        def bound(*values: torch.Tensor) -> torch.Tensor:
            return torch.func.functional_call(gp, dict(zip(names, values, strict=True)), (None,))

        inputs = tuple(parameter.detach().clone().requires_grad_() for parameter in gp.parameters())
        assert torch.autograd.gradcheck(bound, inputs, atol=1e-5)

    def test_initial_moments_are_those_of_the_prior(self, max_inducing: int) -> None:
        """With m = 0 and s = 1 every node, training node or not, has the variance of the kernel."""
        graph = graph_of()
        gp = build_gp(graph, max_inducing=max_inducing)
        mean, variance = gp.moments(torch.arange(54))
        prior = gp.vectors.square() @ gp.kernel.density()
        assert not mean.any()
        torch.testing.assert_close(variance, prior[:, None].expand(-1, 3), atol=2e-6, rtol=1e-6)
        assert gp.divergence().item() == 0

    def test_moments_and_train_moments_agree(self, max_inducing: int) -> None:
        gp = perturb(build_gp(graph_of(), max_inducing=max_inducing))
        for special, general in zip(gp.train_moments(None), gp.moments(gp.nodes), strict=True):
            torch.testing.assert_close(special, general, atol=1e-4, rtol=1e-4)

    def test_is_below_the_evidence(self, max_inducing: int) -> None:
        """Compare with log p(y) from Monte Carlo over the prior, for three nodes of a path."""
        graph = graph_of(nx.path_graph(12))
        part = torch.full((12,), Part.TEST, dtype=torch.int8)
        part[torch.tensor([1, 5, 10])] = Part.TRAIN
        gp = build_gp(graph.replace(part=part), num_eigenpairs=12, max_inducing=max_inducing, epsilon=0.05)
        result = fit_full_batch(gp, tolerance=1e-6, max_steps=300)
        features = (gp.vectors[gp.nodes] * gp.kernel.density().sqrt()).detach()
        generator = torch.Generator().manual_seed(0)
        f = features @ torch.randn(200_000, 12, 3, generator=generator, dtype=torch.float64)
        is_correct = f.argmax(dim=2) == gp.labels
        likelihood = torch.where(is_correct, 1 - 0.05, 0.05 / 2).prod(dim=1)
        evidence = likelihood.mean().log().item()
        assert result.bound < evidence < result.bound + 1.5

    def test_the_average_over_batches_is_the_full_bound(self, max_inducing: int) -> None:
        gp = perturb(build_gp(graph_of(), max_inducing=max_inducing))
        batches = torch.arange(len(gp.nodes)).reshape(-1, 1)
        estimates = torch.stack([gp(batch) for batch in batches])
        torch.testing.assert_close(estimates.mean(), gp())


def test_lbfgs_reaches_the_bound_of_a_long_adam_run() -> None:
    adam_gp, lbfgs_gp = build_gp(graph_of()), build_gp(graph_of())
    adam = fit_plain_adam(adam_gp, steps=1500, learning_rate=1e-2)
    lbfgs = fit_full_batch(lbfgs_gp, tolerance=1e-5, max_steps=2000)
    assert lbfgs.bound > adam.bound - 1e-3 * abs(adam.bound)
    assert lbfgs.bound == pytest.approx(lbfgs_gp().item(), rel=1e-12)
    assert adam.bound == pytest.approx(adam_gp().item(), rel=1e-12)


def test_the_bound_does_not_depend_on_the_scale() -> None:
    """Robust-max does not, and the jitter must not: otherwise a fit could shrink sigma_f to turn it into noise."""
    graph = graph_of()
    bounds = [perturb(build_gp(graph, sigma_f=sigma_f))().item() for sigma_f in (1e-4, 1.0, 1e4)]
    assert bounds == pytest.approx([bounds[0]] * 3, rel=1e-9)


def test_minibatches_reach_the_bound_of_full_batches() -> None:
    graph = graph_of(nx.connected_watts_strogatz_graph(400, 6, 0.05, seed=1))
    full, batched = (build_gp(graph, max_inducing=0) for _ in range(2))
    full_result = fit_full_batch(full, tolerance=1e-5, max_steps=2000)
    result = fit_minibatches(batched, epochs=150, batch_size=20, learning_rate=0.05, seed=0)
    assert result.bound > full_result.bound - 0.03 * abs(full_result.bound)


def test_learns_the_ring_and_is_uncertain_in_another_component() -> None:
    """Every fifth node is a training node: the label of the nearest one is right at 54 of the 60 nodes."""
    graph = graph_of(nx.disjoint_union(nx.cycle_graph(60), nx.cycle_graph(9)))
    part = graph.part.clone()
    part[60:] = Part.TEST  # a component without training nodes
    graph = graph.replace(part=part, labels=torch.cat([torch.arange(60) // 20, torch.zeros(9, dtype=torch.int64)]))
    model = build_model()
    model.fit(graph)
    posterior = model.predict(graph)
    ring = torch.arange(60)
    assert (posterior.mean[ring].argmax(dim=1) == graph.labels[ring]).sum() >= 54
    torch.testing.assert_close(posterior.mean[60:], torch.full((9, 3), 1 / 3, dtype=torch.float64), atol=1e-6, rtol=0)
    assert posterior.measures == ("tu", "au", "eu_so", "lconf")
    assert posterior.eu_so()[60:].min() > posterior.eu_so()[ring].max() - 1e-6


@pytest.mark.parametrize("max_inducing", [2000, 0], ids=["inducing_points", "weight_space"])
def test_only_training_labels_are_read_and_fits_are_reproducible(max_inducing: int, tmp_path: Path) -> None:
    graph = graph_of()
    labels = graph.labels.clone()
    labels[graph.nodes(Part.TEST)] = 0
    options = {"num_features": 2, "num_classes": 3, "num_eigenpairs": 30, "max_inducing": max_inducing, "epochs": 3}
    path = tmp_path / "model.ckpt"
    models = [
        fit(
            version,
            model_class="lopgpn_exp.models.MaternGGP",
            model_options=options,
            seed=3,
            checkpoint_path=path,
            progress=False,
        ).module.model
        for version in (graph, graph.replace(labels=labels, features=torch.zeros(54, 2)))
    ]
    loaded = load_module(path, model_class="lopgpn_exp.models.MaternGGP").model
    first, second, third = (model.predict(graph) for model in (*models, loaded))
    for other in (second, third):
        assert torch.equal(first.mean, other.mean)
        assert torch.equal(first.variance, other.variance)
    assert loaded.fitted["form"] == ("InducingPoints" if max_inducing else "WeightSpace")
    assert loaded.iterations > 0


def test_warns_when_the_weight_space_form_is_used(caplog: pytest.LogCaptureFixture) -> None:
    build_gp(graph_of(), max_inducing=10)
    assert "11 training nodes, but max_inducing is 10" in caplog.text


def test_more_eigenpairs_than_nodes_are_refused() -> None:
    with pytest.raises(InputError, match="num_eigenpairs is 55"):
        build_model(num_eigenpairs=55).fit(graph_of())


@pytest.mark.parametrize("option", [{"epsilon": 0.0}, {"num_eigenpairs": 0}, {"nu": -1.0}, {"batch_size": 0}])
def test_options_out_of_range_are_refused(option: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(option))) as raised:
        build_model(**option)
    assert raised.value.parameter in option


def test_softmax_without_gpytorch_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gpytorch.likelihoods", None)
    with pytest.raises(InputError, match="gpytorch"):
        build_model(likelihood="softmax")


def test_softmax_expectations_equal_monte_carlo() -> None:
    pytest.importorskip("gpytorch")
    mean, variance = TestRobustMax.mean, TestRobustMax.variance
    likelihood = Softmax(num_classes=4, num_samples=20_000)
    generator = torch.Generator().manual_seed(1)
    draws = torch.randn(200_000, 2, 4, generator=generator, dtype=torch.float64) * variance.sqrt() + mean
    probabilities = draws.softmax(dim=2)
    predicted_mean, predicted_variance = likelihood.predict(mean, variance)
    torch.testing.assert_close(predicted_mean, probabilities.mean(dim=0), atol=5e-3, rtol=0)
    torch.testing.assert_close(predicted_variance, probabilities.var(dim=0), atol=5e-3, rtol=0)
    expected = draws.log_softmax(dim=2)[:, torch.arange(2), torch.tensor([1, 0])].mean(dim=0)
    expected_log = likelihood.expected_log(mean, variance, torch.tensor([1, 0]))
    torch.testing.assert_close(expected_log, expected, atol=2e-2, rtol=0)


def test_a_model_with_softmax_learns_the_ring() -> None:
    pytest.importorskip("gpytorch")
    graph = graph_of(nx.cycle_graph(60))
    model = build_model(likelihood="softmax")
    model.fit(graph)
    assert (model.predict(graph).mean.argmax(dim=1) == graph.labels).double().mean() > 0.85
