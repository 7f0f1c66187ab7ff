"""GEBM against its definition, term by term, in numpy; and what it may and may not depend on."""

import numpy as np
import pytest
import torch

from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Graph, Part, row_stochastic
from lopgpn_exp.models import Classifier
from lopgpn_exp.posterior import RefinedPosterior
from lopgpn_exp.posthoc.gebm import GEBM, MIN_VARIANCE, class_gaussians, energy_terms, fit_rescaling, squared_distances
from lopgpn_exp.posthoc.pipeline import hide_labels
from lopgpn_exp.posthoc.step import StepData
from lopgpn_exp.training import fit

EDGES = [(0, 1), (1, 2), (2, 3), (0, 2)]  # node 4 has no edge
EVIDENCE = np.array([[2.0, -1.0], [0.5, 0.25], [-3.0, 4.0], [1.0, 1.5], [-2.0, -0.5]])


@pytest.fixture(scope="module")
def classifier(small_graph) -> Classifier:
    options = {"num_features": 12, "num_classes": 3, "hidden_dim": 8}
    settings = {"seed": 0, "max_epochs": 30, "progress": False}
    return fit(small_graph, model_class="lopgpn_exp.models.Classifier", model_options=options, **settings).module.model


def fit_gebm(model: Classifier, graph: Graph, **options: float) -> GEBM:
    step = GEBM(**options)
    step.fitted = step.fit(StepData(hide_labels(graph), model, model.predict(graph), seed=0))
    return step


def scores(model: Classifier, graph: Graph, step: GEBM) -> torch.Tensor:
    return step.refine(model.predict(graph), model, graph).measure("gebm")


def lazy_walk(graph: Graph, num_steps: int, gamma: float) -> np.ndarray:
    """Return P as a dense matrix, from the edges."""
    matrix = np.eye(graph.num_nodes)
    matrix[tuple(graph.edge_index.numpy())] = 1
    walk = matrix / matrix.sum(axis=1, keepdims=True)
    return np.linalg.matrix_power(gamma * np.eye(graph.num_nodes) + (1 - gamma) * walk, num_steps)


def log_sum_exp(values: np.ndarray) -> np.ndarray:
    return np.log(np.exp(values).sum(axis=1))


@pytest.mark.parametrize(("num_steps", "gamma"), [(1, 0.5), (3, 0.2), (10, 0.5)])
def test_each_energy_equals_its_definition(build_graph, num_steps, gamma):
    graph = build_graph(EDGES, [[0.0]] * 5, [0, 1, 0, 1, 0])
    terms = energy_terms(torch.from_numpy(EVIDENCE), row_stochastic(graph), num_steps=num_steps, gamma=gamma)
    walk = lazy_walk(graph, num_steps, gamma)
    np.testing.assert_allclose(terms.node, -log_sum_exp(EVIDENCE), rtol=1e-13)
    np.testing.assert_allclose(terms.local, -log_sum_exp(walk @ EVIDENCE), rtol=1e-13)
    np.testing.assert_allclose(terms.group, walk @ -log_sum_exp(EVIDENCE), rtol=1e-13)
    assert len({round(term[2].item(), 6) for term in terms}) == 3  # they differ where there are edges
    assert terms.node[4] == terms.local[4] == terms.group[4]  # and not at a node without any


def test_without_steps_all_energies_are_that_of_the_node(build_graph):
    graph = build_graph(EDGES, [[0.0]] * 5, [0, 1, 0, 1, 0])
    terms = energy_terms(torch.from_numpy(EVIDENCE), row_stochastic(graph), num_steps=0, gamma=0.5)
    assert all(torch.equal(term, terms.node) for term in terms)


def test_conflicting_evidence_nearby_raises_the_local_energy_alone(build_graph):
    """The middle of a path has the same neighbours up to the order of the classes."""
    graph = build_graph([(0, 1), (1, 2)], [[0.0]] * 3, [0, 1, 0])
    agreeing, conflicting = ([[9.0, -9.0], [0.0, 0.0], end] for end in ([9.0, -9.0], [-9.0, 9.0]))
    first, second = (
        energy_terms(torch.tensor(e).double(), row_stochastic(graph), num_steps=1, gamma=0.5)
        for e in (agreeing, conflicting)
    )
    assert second.local[1].item() == pytest.approx(-np.log(2), rel=1e-14)  # the evidence cancels out
    assert first.local[1].item() == pytest.approx(-np.log(np.exp(3) + np.exp(-3)), rel=1e-14)
    assert second.node[1] == first.node[1]
    assert second.group[1] == pytest.approx(first.group[1].item(), rel=1e-14)


def test_the_step_equals_the_definition_from_logits_and_hidden_layer(small_graph, classifier):
    """All of it again in numpy, from a pass with edges at training nodes and a pass without edges everywhere."""
    step = fit_gebm(classifier, small_graph)
    train = small_graph.nodes(Part.TRAIN).numpy()
    labels = small_graph.labels.numpy()[train]
    bare = small_graph.replace(edge_index=torch.empty(2, 0, dtype=torch.int64))
    fitted_logits, fitted_hidden, logits, hidden = (
        values.double().numpy()
        for graph in (small_graph, bare)
        for values in (classifier.predict(graph).logits, classifier.embed(graph))
    )
    evidence = np.empty_like(logits)
    for c in range(3):
        members = fitted_hidden[train][labels == c]
        mean, variance = members.mean(axis=0), np.mean((members - members.mean(axis=0)) ** 2, axis=0)
        variance = variance + (1.11e-6 if variance.min() < 1e-8 else 0)
        assert variance.min() > MIN_VARIANCE
        fitted_distance, distance = (np.sum((h - mean) ** 2 / variance, axis=1) for h in (fitted_hidden[train], hidden))
        low, high = np.quantile(fitted_distance, [0.025, 0.975])
        low_logit, high_logit = np.quantile(fitted_logits[train, c], [0.025, 0.975])
        evidence[:, c] = logits[:, c] - (low_logit + (distance - low) / (high - low) * (high_logit - low_logit))
    walk = lazy_walk(small_graph, 10, 0.5)
    energy = -log_sum_exp(evidence)
    expected = -log_sum_exp(walk @ evidence) + walk @ energy + energy
    np.testing.assert_allclose(scores(classifier, small_graph, step), expected, rtol=1e-9)


def test_the_rescaling_maps_the_central_interval_of_distances_to_that_of_logits():
    generator = torch.Generator().manual_seed(0)
    distances, logits = (torch.randn(400, 3, generator=generator).double() for _ in range(2))
    distances = distances.abs() * 1e4
    shift, scale = fit_rescaling(distances, logits)
    for quantile in (0.025, 0.975):
        torch.testing.assert_close(
            (shift + scale * distances).quantile(quantile, dim=0), logits.quantile(quantile, dim=0)
        )


def test_equal_distances_are_only_shifted():
    shift, scale = fit_rescaling(torch.full((4, 1), 7.0).double(), torch.tensor([[0.0], [1.0], [2.0], [3.0]]).double())
    assert scale.item() == 1.0
    assert shift.item() == pytest.approx(0.075 - 7.0)


def test_variances_are_per_class_and_the_jitter_stops_once_they_are_large_enough():
    hidden = torch.tensor([[1.0, 5.0], [3.0, 5.0], [0.0, 0.0], [0.0, 2.0], [4.0, 1.0], [8.0, 7.0], [0.0, 1.0]]).double()
    mean, variance = class_gaussians(hidden, torch.tensor([0, 0, 1, 1, 2, 2, 3]), 4)
    assert mean.tolist() == [[2.0, 5.0], [0.0, 1.0], [6.0, 4.0], [0.0, 1.0]]
    expected = [[1 + 1.11e-6, 1.11e-6], [1.11e-6, 1 + 1.11e-6], [4.0, 9.0], [1.11e-6, 1.11e-6]]
    np.testing.assert_allclose(variance, expected, rtol=1e-12)
    for before, after in ((1.001e-6, 1.001e-6), (0.995e-6, 1.005e-6), (0.95e-6, 1.06e-6), (0.8e-6, 1.91e-6)):
        pair = torch.tensor([[0.0], [2 * before**0.5]], dtype=torch.float64)  # two values have a variance of `before`
        assert class_gaussians(pair, torch.tensor([0, 0]), 1)[1].item() == pytest.approx(after, rel=1e-9)


def test_distances_equal_torch_with_a_full_covariance():
    generator = torch.Generator().manual_seed(0)
    hidden, mean = (torch.randn(size, 4, generator=generator).double() for size in (6, 2))
    variance = torch.rand(2, 4, generator=generator).double() + 0.1
    for c, column in enumerate(squared_distances(hidden, mean, variance).T):
        gap = hidden - mean[c]
        torch.testing.assert_close(column, torch.einsum("nh,hk,nk->n", gap, torch.diag(variance[c]).inverse(), gap))


def test_features_far_away_are_more_uncertain_than_those_of_any_node(small_graph, classifier):
    step = fit_gebm(classifier, small_graph)
    features = small_graph.features.clone()
    features[[5, 40]] *= 1000  # node 5 has no edge, node 40 has
    before, after = (scores(classifier, graph, step) for graph in (small_graph, small_graph.replace(features=features)))
    assert (after[[5, 40]] > before.max()).all()
    assert after.isfinite().all()


def test_labels_of_test_nodes_do_not_matter(small_graph, classifier):
    is_test = small_graph.part == Part.TEST
    relabelled = small_graph.replace(labels=torch.where(is_test, (small_graph.labels + 1) % 3, small_graph.labels))
    first, second = (scores(classifier, graph, fit_gebm(classifier, graph)) for graph in (small_graph, relabelled))
    assert torch.equal(first, second)


def test_isolated_nodes_have_three_times_the_energy_of_the_node(small_graph, classifier):
    step = fit_gebm(classifier, small_graph)
    energy = -torch.logsumexp(step.evidence(classifier, small_graph), dim=-1)
    for node in (5, 17):
        assert scores(classifier, small_graph, step)[node].item() == pytest.approx(3 * energy[node].item(), rel=1e-12)


def test_everything_but_the_new_measure_stays_as_it_was(small_graph, classifier):
    posterior = classifier.predict(small_graph)
    refined = fit_gebm(classifier, small_graph).refine(posterior, classifier, small_graph)
    assert isinstance(refined, RefinedPosterior)
    assert refined.measures == (*posterior.measures, "gebm")
    assert torch.equal(refined.mean, posterior.mean)
    assert refined.measure("gebm").dtype == torch.float64


def test_a_class_without_training_nodes_is_refused_before_and_in_the_fit(small_graph, classifier):
    is_hidden = (small_graph.labels == 1) & (small_graph.part == Part.TRAIN)
    graph = small_graph.replace(part=torch.where(is_hidden, Part.NONE.value, small_graph.part.long()))
    with pytest.raises(InputError, match="class 1 has no training node"):
        GEBM().check_graph(graph)
    with pytest.raises(InputError, match="class 1 has no training node"):
        fit_gebm(classifier, graph)
    GEBM().check_graph(small_graph)
