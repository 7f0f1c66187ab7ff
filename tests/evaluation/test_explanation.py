"""Explanations of a node's uncertainty: the parts add up to the whole."""

import networkx as nx
import numpy as np
import pytest
import torch

from lopgpn_exp.errors import InputError
from lopgpn_exp.evaluation.explanation import compute_hops, compute_shares, explain, split_eu
from lopgpn_exp.graph import DenseMatrix
from lopgpn_exp.models import APPNP, GKDE, GPN, LOPGPN
from lopgpn_exp.posterior import Categorical, Dirichlet, DirichletMixture
from lopgpn_exp.seeds import seeded

MODELS = {
    "lop_gpn": lambda: LOPGPN(num_features=12, num_classes=3),
    "lop_gpn_dense": lambda: LOPGPN(num_features=12, num_classes=3, prune_threshold=0.0),
    "gpn_sym": lambda: GPN(num_features=12, num_classes=3),
    "gpn_rw": lambda: GPN(num_features=12, num_classes=3, normalization="column_stochastic"),
    "gpn_power": lambda: GPN(num_features=12, num_classes=3, dispersion="power"),
    "appnp": lambda: APPNP(num_features=12, num_classes=3),
    "appnp_probabilities": lambda: APPNP(num_features=12, num_classes=3, disperse_what="probabilities"),
}


def create_model(name):
    with seeded(0):
        return MODELS[name]()


def explain_node(model, graph, node, **options):
    opinions, posterior = model.opinions(graph, node), model.predict(graph)
    pool = {"weights": opinions.weights, "alone": opinions.alone, "pooled": opinions.pooled}
    return opinions, posterior, explain(graph, node, posterior=posterior, **pool, **options)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("node", [0, 5, 250])
def test_pooling_the_opinions_by_their_weights_gives_the_posterior_of_the_model(name, node, small_graph):
    """The pooling rule of each model, applied again to the opinions."""
    model = create_model(name)
    opinions = model.opinions(small_graph, node)
    expected = model.predict(small_graph).mean[node].double()
    weights, alone = opinions.weights.double(), opinions.alone
    if opinions.pooled == "beliefs":
        pooled = weights @ alone.mean.double()
    elif opinions.pooled == "evidence":
        pooled = 1 + weights @ (alone.alpha.double() - 1)
    elif opinions.pooled == "logits":
        pooled = torch.softmax(weights @ alone.log_mean.double(), dim=0)
    else:
        pooled = weights @ alone.mean.double()
    torch.testing.assert_close(pooled / pooled.sum(), expected, rtol=1e-4, atol=1e-6)


def test_disagreement_and_ignorance_by_hand():
    """Two certain, opposite opinions: all disagreement. Two equal, vague ones: all ignorance."""
    certain = DirichletMixture(DenseMatrix(torch.tensor([[0.5, 0.5]]).double()), torch.tensor([[1e9, 1.0], [1.0, 1e9]]))
    disagreement, ignorance = split_eu(certain)
    assert disagreement == pytest.approx(np.log(2), abs=1e-6)
    assert ignorance == pytest.approx(0, abs=1e-6)
    vague = DirichletMixture(DenseMatrix(torch.tensor([[0.5, 0.5]]).double()), torch.ones(2, 2))
    disagreement, ignorance = split_eu(vague)
    assert disagreement == pytest.approx(0, abs=1e-12)
    assert ignorance == pytest.approx(np.log(2) - 0.5)  # the expected entropy under the uniform is 1/2


def test_the_parts_of_an_explanation_add_up(small_graph):
    opinions, posterior, explanation = explain_node(create_model("lop_gpn"), small_graph, 7, max_neighbours=6)
    assert len(explanation.neighbours) == 6
    assert explanation.neighbours["share"].is_monotonic_decreasing
    assert explanation.neighbours["share"].sum() + explanation.other_share == pytest.approx(1)
    assert explanation.votes.sum() == pytest.approx(1)
    eu = float(posterior.eu()[7])
    assert explanation.disagreement + explanation.ignorance == pytest.approx(eu)
    measures = explanation.measures.set_index("measure")
    assert measures.loc["eu", "pooled"] == pytest.approx(eu)
    assert measures.loc["eu", "alone"] == pytest.approx(float(opinions.alone.eu()[7]))
    np.testing.assert_allclose(explanation.pooled, posterior.mean[7])
    np.testing.assert_allclose(explanation.alone, opinions.alone.mean[7])
    first = explanation.neighbours.iloc[0]
    assert first["share"] == pytest.approx(float(opinions.weights.max()))
    assert first["eu_so"] == pytest.approx(float(opinions.alone.eu_so()[int(first["node"])]))


def test_an_isolated_node_is_explained_by_itself(small_graph):
    _, _, explanation = explain_node(create_model("lop_gpn"), small_graph, 5)
    assert explanation.neighbours["node"].tolist() == [5]
    assert explanation.disagreement == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(explanation.pooled, explanation.alone)


def test_shares_are_proportional_to_the_pooled_evidence():
    alone = Dirichlet(torch.tensor([[1.0, 1.0], [4.0, 1.0], [1.0, 10.0]]))
    weights = torch.tensor([0.5, 0.2, 0.1])
    np.testing.assert_allclose(compute_shares(weights, alone, "evidence"), np.array([0, 0.6, 0.9]) / 1.5, rtol=1e-6)
    np.testing.assert_allclose(
        compute_shares(weights, Categorical(torch.zeros(3, 2)), "logits"), np.array([5, 2, 1]) / 8, rtol=1e-6
    )


def test_shares_are_the_weights_if_no_node_has_evidence():
    shares = compute_shares(torch.tensor([3.0, 1.0]), Dirichlet(torch.ones(2, 2)), "evidence")
    np.testing.assert_allclose(shares, [0.75, 0.25])


def test_labels_that_the_model_has_not_seen_are_hidden(small_graph):
    _, _, explanation = explain_node(create_model("lop_gpn_dense"), small_graph, 0, max_neighbours=300)
    train = explanation.neighbours["part"] == "train"
    assert (explanation.neighbours.loc[~train, "label"] == -1).all()
    nodes = explanation.neighbours.loc[train, "node"].to_numpy()
    assert (explanation.neighbours.loc[train, "label"] == small_graph.labels.numpy()[nodes]).all()


def test_a_node_without_evidence_votes_for_no_class(build_graph):
    """Three nodes of equal weight: one certain of each class, and one that has no evidence."""
    graph = build_graph([(0, 1), (1, 2), (0, 2)], [[1.0]] * 3, [0, 1, -1])
    alone = Dirichlet(torch.tensor([[9.0, 1.0], [1.0, 9.0], [1.0, 1.0]]))
    weights = torch.full((3,), 1 / 3, dtype=torch.float64)
    mixture = DirichletMixture(DenseMatrix(weights.repeat(3, 1)), alone.alpha.double())
    explanation = explain(graph, 2, posterior=mixture, weights=weights, alone=alone, pooled="beliefs")
    assert sorted(explanation.neighbours["predicted"]) == [-1, 0, 1]
    np.testing.assert_allclose(explanation.votes, 1 / 3)


def test_hops_are_those_of_networkx(small_graph):
    expected = nx.single_source_shortest_path_length(nx.Graph(small_graph.edge_index.T.tolist()), 7)
    hops = compute_hops(small_graph, 7)
    assert {node: distance for node, distance in enumerate(hops.tolist()) if distance >= 0} == expected


def test_a_model_that_does_not_pool_is_refused(small_graph):
    with pytest.raises(InputError, match="GKDE does not pool"):
        GKDE(num_features=12, num_classes=3).opinions(small_graph, 0)
