"""EPN: pseudo-counts and losses by hand, gradients by finite differences, and what the fit may and may not change."""

import numpy as np
import pytest
import torch
from scipy.special import digamma

from lopgpn_exp.errors import InputError
from lopgpn_exp.evaluation.metrics.detection import auroc
from lopgpn_exp.graph import Graph, Part, symmetric
from lopgpn_exp.models import Classifier
from lopgpn_exp.posterior import Categorical, EvidentialDirichlet
from lopgpn_exp.posthoc import probe as module
from lopgpn_exp.posthoc.pipeline import hide_labels
from lopgpn_exp.posthoc.probe import (
    MIN_PROBABILITY,
    EvidenceProbe,
    LabelledNodes,
    ProbeInput,
    ProbeLoss,
    choose_probe,
    error_auroc,
    ice_penalty,
    pcl_penalty,
)
from lopgpn_exp.posthoc.step import StepData
from lopgpn_exp.training import fit

PROBABILITIES = [[0.75, 0.25], [0.5, 0.5]]
HIDDEN = [[1.0, 0.0], [0.0, 2.0]]
WEIGHT, BIAS = [[0.0, 0.5], [1.0, 0.0]], [0.25, -1.0]


class FixedHidden:
    """Stands for a classifier with a given hidden layer."""

    def embed(self, graph: Graph) -> torch.Tensor:
        return torch.tensor(HIDDEN)


@pytest.fixture(scope="module")
def classifier(small_graph) -> Classifier:
    options = {"num_features": 12, "num_classes": 3, "hidden_dim": 8}
    settings = {"seed": 0, "max_epochs": 30, "progress": False}
    return fit(small_graph, model_class="lopgpn_exp.models.Classifier", model_options=options, **settings).module.model


def fit_probe(model: Classifier, graph: Graph, *, seed: int = 0, **options: float | None) -> EvidenceProbe:
    step = EvidenceProbe(**{"max_epochs": 40, **options})
    step.fitted = step.fit(StepData(hide_labels(graph), model, model.predict(graph), seed))
    return step


def apply_fixed(graph: Graph, probabilities: list[list[float]] = PROBABILITIES) -> EvidentialDirichlet:
    step = EvidenceProbe()
    step.fitted = {"weight": torch.tensor(WEIGHT), "bias": torch.tensor(BIAS)}
    return step.refine(Categorical(torch.tensor(probabilities).log()), FixedHidden(), graph)


def dense_input(*, num_nodes: int, num_classes: int, hidden_dim: int, seed: int = 0) -> ProbeInput:
    """Return a random input in float64, with a dense dispersion."""
    rng = np.random.default_rng(seed)
    hidden, matrix = rng.normal(size=(num_nodes, hidden_dim)), rng.dirichlet(np.ones(num_nodes), size=num_nodes)
    probabilities = rng.dirichlet(np.ones(num_classes), size=num_nodes)
    dispersion = torch.from_numpy(matrix)
    return ProbeInput(torch.from_numpy(hidden), torch.from_numpy(probabilities), lambda values: dispersion @ values)


def test_pseudo_counts_of_two_nodes_by_hand(build_graph):
    """With one edge, every entry of the operator is 1/2: the dispersion keeps the mean and a tenth of the rest."""
    evidence = [np.exp([0.25, 0.0]).sum(), np.exp([1.25, -1.0]).sum()]
    before = np.array([[(2 + e) * p for p in row] for e, row in zip(evidence, PROBABILITIES, strict=True)])
    features, labels = [[0.0], [0.0]], [0, 1]
    apart, joined = (apply_fixed(build_graph(edges, features, labels)) for edges in ([], [(0, 1)]))
    np.testing.assert_allclose(apart.alpha, before, rtol=1e-6)
    np.testing.assert_allclose(joined.alpha, before.mean(axis=0) + 0.1 * (before - before.mean(axis=0)), rtol=1e-6)


def test_without_edges_the_mean_is_that_of_the_classifier(small_graph, classifier):
    graph = small_graph.replace(edge_index=torch.empty(2, 0, dtype=torch.int64))
    posterior = classifier.predict(graph)
    result = fit_probe(classifier, graph, ice_weight=1e-3, pcl_weight=1e-4).refine(posterior, classifier, graph)
    torch.testing.assert_close(result.mean, posterior.mean, rtol=1e-5, atol=1e-6)
    assert (result.alpha_0 > graph.num_classes).all()


def test_pseudo_counts_of_a_graph_equal_the_dense_recursion(small_graph, classifier):
    step = fit_probe(classifier, small_graph)
    posterior, hidden = classifier.predict(small_graph), classifier.embed(small_graph).double().numpy()
    evidence = np.exp(hidden @ step.fitted["weight"].double().numpy().T + step.fitted["bias"].double().numpy())
    counts = (3 + evidence.sum(axis=1, keepdims=True)) * posterior.mean.double().numpy()
    operator, current = symmetric(small_graph).toarray(), counts
    for _ in range(10):
        current = 0.9 * operator @ current + 0.1 * counts
    np.testing.assert_allclose(step.refine(posterior, classifier, small_graph).alpha, current, rtol=1e-4)


def test_penalties_by_hand():
    evidence = torch.tensor([[3.0, 1.0], [150.0, 50.0], [0.0, 0.0]], dtype=torch.float64)
    probabilities = torch.tensor([[0.75, 0.25], [0.2, 0.8], [0.5, 0.5]], dtype=torch.float64)
    # (C + e) p: [4.5, 1.5], [40.4, 161.6], [1, 1]
    ice = [1.5**2 + 0.5**2, 109.6**2 + 111.6**2, 2.0]
    pcl = [96**2 + 4**2 / 3, 200**2 / 4, 100**2]
    np.testing.assert_allclose(ice_penalty(evidence, probabilities), ice, rtol=1e-12)
    np.testing.assert_allclose(pcl_penalty(evidence, probabilities), pcl, rtol=1e-12)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 1.0])
def test_pcl_is_smallest_where_the_evidence_is_a_hundred_times_the_confidence(confidence):
    totals = torch.arange(0.0, 200.0, 0.5).double()
    evidence = torch.stack([totals, torch.zeros_like(totals)], dim=1)
    penalty = pcl_penalty(evidence, torch.tensor([[confidence, 1 - confidence]]).double().expand_as(evidence))
    assert totals[penalty.argmin()].item() == 100 * confidence


def test_the_loss_is_the_mean_uce_of_a_part_plus_the_weighted_means_of_both_penalties_over_all_nodes():
    inputs = dense_input(num_nodes=5, num_classes=3, hidden_dim=2)
    weight, bias = (
        torch.tensor(values).double() for values in ([[0.5, -1.0], [1.5, 0.0], [0.25, 2.0]], [0.1, 0.0, -0.2])
    )
    nodes, labels = [4, 0], [2, 1]
    part = LabelledNodes(torch.tensor(nodes), torch.tensor(labels))
    q, p = np.exp(inputs.hidden.numpy() @ weight.numpy().T + bias.numpy()), inputs.probabilities.numpy()
    e, r = q.sum(axis=1), p.max(axis=1)
    counts = (3 + e)[:, None] * p
    alpha = inputs.disperse(torch.from_numpy(counts)).numpy()
    uce = np.mean(digamma(alpha.sum(axis=1)[nodes]) - digamma(alpha[nodes, labels]))
    ice = np.mean(np.sum((counts - q) ** 2, axis=1))
    pcl = np.mean(np.maximum(0, 100 - e) ** 2 + (1 - r) / r * np.maximum(0, e) ** 2)
    for ice_weight, pcl_weight in ((0.0, 0.0), (0.3, 0.0), (0.0, 0.01), (0.3, 0.01)):
        (value,) = ProbeLoss(inputs, ice_weight, pcl_weight)(weight, bias, [part])
        assert value.item() == pytest.approx(uce + ice_weight * ice + pcl_weight * pcl, rel=1e-12)


@pytest.mark.parametrize(("ice_weight", "pcl_weight"), [(0.0, 0.0), (1e-2, 1e-4)])
def test_the_gradient_equals_finite_differences(ice_weight, pcl_weight):
    inputs = dense_input(num_nodes=6, num_classes=3, hidden_dim=4)
    loss = ProbeLoss(inputs, ice_weight, pcl_weight)
    part = LabelledNodes(torch.tensor([0, 3, 5]), torch.tensor([2, 0, 1]))
    parameters = tuple(value.detach().requires_grad_() for value in inputs.draw_probe(1))
    assert torch.autograd.gradcheck(lambda weight, bias: loss(weight, bias, [part])[0], parameters)


def test_the_gradient_passes_through_the_dispersion_of_the_graph(small_graph, classifier):
    """The sparse dispersion in float32 has the gradient of a dense matrix in float64."""
    inputs = EvidenceProbe().prepare(classifier.predict(small_graph), classifier, small_graph)
    matrix = inputs.disperse(torch.eye(small_graph.num_nodes)).double()
    exact = ProbeInput(inputs.hidden.double(), inputs.probabilities.double(), lambda values: matrix @ values)
    nodes = small_graph.nodes(Part.TRAIN)
    part = LabelledNodes(nodes, small_graph.labels[nodes])
    weight, bias = inputs.draw_probe(0)
    gradients = []
    for used in (inputs, exact):
        values = [value.detach().to(used.hidden.dtype).requires_grad_() for value in (weight, bias)]
        gradients.append(torch.autograd.grad(ProbeLoss(used, 1e-3, 1e-4)(*values, [part])[0], values))
    for single, double in zip(*gradients, strict=True):
        torch.testing.assert_close(single.double(), double, rtol=1e-3, atol=1e-4)


def test_the_fit_lowers_the_loss_of_training_and_validation_nodes(small_graph, classifier):
    step = fit_probe(classifier, small_graph, max_epochs=300)
    inputs = step.prepare(classifier.predict(small_graph), classifier, small_graph)
    parts = [
        LabelledNodes(nodes, small_graph.labels[nodes]) for nodes in map(small_graph.nodes, (Part.TRAIN, Part.VAL))
    ]
    before, after = (
        ProbeLoss(inputs)(weight, bias, parts)
        for weight, bias in (inputs.draw_probe(0), (step.fitted["weight"], step.fitted["bias"]))
    )
    assert all(late < early - 0.01 for early, late in zip(before, after, strict=True))


def test_the_kept_probe_has_the_smallest_validation_loss_of_all_epochs(small_graph, classifier, monkeypatch):
    values = []

    class RecordingLoss(ProbeLoss):
        def __call__(self, weight, bias, parts):
            losses = super().__call__(weight, bias, parts)
            values.append(losses[1].item())
            return losses

    monkeypatch.setattr(module, "ProbeLoss", RecordingLoss)
    step = fit_probe(classifier, small_graph, learning_rate=0.5, patience=5, max_epochs=500)
    assert len(values) == int(np.argmin(values)) + 1 + 5 < 500  # patience
    inputs = step.prepare(classifier.predict(small_graph), classifier, small_graph)
    nodes = small_graph.nodes(Part.VAL)
    (kept,) = ProbeLoss(inputs)(
        step.fitted["weight"], step.fitted["bias"], [LabelledNodes(nodes, small_graph.labels[nodes])]
    )
    assert kept.item() == pytest.approx(min(values), rel=1e-6)


def test_the_seed_alone_determines_the_probe(small_graph, classifier):
    state = torch.random.get_rng_state()
    first, second, other = (fit_probe(classifier, small_graph, seed=seed, max_epochs=5) for seed in (3, 3, 4))
    assert torch.equal(first.fitted["weight"], second.fitted["weight"])
    assert torch.equal(first.fitted["bias"], second.fitted["bias"])
    assert not torch.equal(first.fitted["weight"], other.fitted["weight"])
    assert torch.equal(state, torch.random.get_rng_state())


def test_the_classifier_stays_as_it_was(small_graph, classifier):
    before = {name: value.clone() for name, value in classifier.state_dict().items()}
    classifier.zero_grad(set_to_none=True)
    is_training = classifier.training
    fit_probe(classifier, small_graph, ice_weight=1e-3, pcl_weight=1e-4)
    assert all(torch.equal(value, before[name]) for name, value in classifier.state_dict().items())
    assert all(parameter.grad is None for parameter in classifier.parameters())
    assert classifier.training == is_training


def test_labels_of_test_nodes_do_not_matter(small_graph, classifier):
    is_test = small_graph.part == Part.TEST
    relabelled = small_graph.replace(labels=torch.where(is_test, (small_graph.labels + 1) % 3, small_graph.labels))
    first, second = (
        fit_probe(classifier, graph, ice_weight=None, pcl_weight=None, max_epochs=5).fitted
        for graph in (small_graph, relabelled)
    )
    assert torch.equal(first["weight"], second["weight"])
    assert (first["ice_weight"], first["pcl_weight"]) == (second["ice_weight"], second["pcl_weight"])


def test_a_chosen_weight_gives_the_same_probe_as_a_fixed_one(small_graph, classifier):
    chosen = fit_probe(classifier, small_graph, ice_weight=None, pcl_weight=None, max_epochs=10).fitted
    assert chosen["ice_weight"] in module.ICE_WEIGHTS
    assert chosen["pcl_weight"] in module.PCL_WEIGHTS
    weights = {name: chosen[name] for name in ("ice_weight", "pcl_weight")}
    assert torch.equal(chosen["weight"], fit_probe(classifier, small_graph, **weights, max_epochs=10).fitted["weight"])


def val_posterior(rows: list[list[float]]) -> EvidentialDirichlet:
    return EvidentialDirichlet(torch.tensor(rows).double())


def test_weights_are_chosen_by_the_auroc_of_validation_errors_and_then_by_the_uce():
    labels = LabelledNodes(torch.arange(3), torch.tensor([0, 0, 0]))
    uncertain_error = val_posterior([[2.0, 1.0], [2.0, 1.0], [0.9, 1.0]])  # the wrong node is the least confident
    certain_error = val_posterior([[20.0, 10.0], [20.0, 10.0], [1.0, 10.0]])
    same_order = val_posterior([[20.0, 10.0], [20.0, 10.0], [9.0, 10.0]])  # with more evidence: a smaller UCE
    right, more_right = val_posterior([[2.0, 1.0]] * 3), val_posterior([[20.0, 1.0]] * 3)
    assert choose_probe([certain_error, uncertain_error], labels) == 1
    assert choose_probe([uncertain_error, same_order], labels) == 1
    assert choose_probe([right, more_right], labels) == 1  # no errors
    assert choose_probe([uncertain_error, more_right, certain_error], labels) == 1  # no errors of one of them


@pytest.mark.parametrize("levels", [4, 10**9])
def test_the_auroc_of_errors_equals_that_of_the_evaluation(levels):
    """With few levels there are many ties."""
    rng = np.random.default_rng(0)
    uncertainty, is_error = rng.integers(levels, size=200) / levels, rng.random(200) < 0.2
    value = error_auroc(torch.from_numpy(uncertainty), torch.from_numpy(is_error))
    assert value == pytest.approx(auroc(uncertainty, is_error), rel=1e-12)


def test_a_probability_of_zero_and_a_large_hidden_layer_stay_finite(build_graph):
    graph = build_graph([], [[0.0], [0.0]], [0, 1])
    posterior = apply_fixed(graph, [[1.0, 0.0], [0.5, 0.5]])
    assert posterior.alpha[0, 1] > 0
    assert posterior.mean[0, 1] == pytest.approx(MIN_PROBABILITY, rel=1e-5)
    assert posterior.expected_cross_entropy(torch.tensor([1, 1])).isfinite().all()
    inputs = ProbeInput(torch.tensor([[1e6], [-1e6]]), torch.full((2, 2), 0.5), lambda values: values)
    weight, bias = torch.ones(2, 1, requires_grad=True), torch.zeros(2, requires_grad=True)
    part = LabelledNodes(torch.tensor([0, 1]), torch.tensor([0, 1]))
    (loss,) = ProbeLoss(inputs, 1e-2, 1e-3)(weight, bias, [part])
    assert all(value.isfinite().all() for value in (loss, *torch.autograd.grad(loss, (weight, bias))))
    np.testing.assert_allclose(inputs.class_evidence(weight, bias).detach(), np.exp([[30, 30], [-30, -30]]), rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "value"), [("ice_weight", -1.0), ("pcl_weight", -1.0), ("patience", 0), ("teleport", 0)]
)
def test_options_out_of_range_are_refused(name, value):
    with pytest.raises(InputError, match=f"{name} is"):
        EvidenceProbe(**{name: value})
