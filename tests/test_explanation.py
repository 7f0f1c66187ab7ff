"""Why a node is as uncertain as it is: parts that add up to the whole."""

import numpy as np
import pytest
import torch

from lopgpn_exp.errors import InputError
from lopgpn_exp.evaluation.explanation import eu_parts, explain, hops_from, shares
from lopgpn_exp.graph import DenseMatrix
from lopgpn_exp.models import APPNP, GKDE, GPN, LOPGPN
from lopgpn_exp.models.seeding import seeded
from lopgpn_exp.posterior import Categorical, Dirichlet, DirichletMixture

MODELS = {
    "lop_gpn": lambda: LOPGPN(num_features=12, num_classes=3),
    "lop_gpn_dense": lambda: LOPGPN(num_features=12, num_classes=3, prune_threshold=0.0),
    "gpn_sym": lambda: GPN(num_features=12, num_classes=3),
    "gpn_rw": lambda: GPN(num_features=12, num_classes=3, normalization="column_stochastic"),
    "gpn_power": lambda: GPN(num_features=12, num_classes=3, dispersion="power"),
    "appnp": lambda: APPNP(num_features=12, num_classes=3),
    "appnp_probabilities": lambda: APPNP(num_features=12, num_classes=3, disperse_what="probabilities"),
}


def explained(model, graph, node, **options):
    found = model.opinions(graph, node)
    posterior = model.predict(graph)
    return (
        found,
        posterior,
        explain(
            graph, node, posterior=posterior, weights=found.weights, alone=found.alone, pooled=found.pooled, **options
        ),
    )


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("node", [0, 5, 250])
def test_pooling_the_opinions_by_their_weights_gives_the_models_posterior(name, node, small_graph):
    """Each model's own rule, written down again from the opinions."""
    with seeded(0):
        model = MODELS[name]()
    found = model.opinions(small_graph, node)
    ours = model.predict(small_graph).mean[node].double()
    weights, alone = found.weights.double(), found.alone
    if found.pooled == "beliefs":
        pooled = weights @ alone.mean.double()
    elif found.pooled == "evidence":
        pooled = 1 + weights @ (alone.alpha.double() - 1)
    elif found.pooled == "logits":
        pooled = torch.softmax(weights @ alone.log_mean.double(), dim=0)
    else:
        pooled = weights @ alone.mean.double()
    torch.testing.assert_close(pooled / pooled.sum(), ours, rtol=1e-4, atol=1e-6)


def test_disagreement_and_ignorance_by_hand():
    """Two sure opposite opinions: all disagreement. Two equal vague ones: all ignorance."""
    sure = DirichletMixture(DenseMatrix(torch.tensor([[0.5, 0.5]]).double()), torch.tensor([[1e9, 1.0], [1.0, 1e9]]))
    disagreement, ignorance = eu_parts(sure)
    assert disagreement == pytest.approx(np.log(2), abs=1e-6)
    assert ignorance == pytest.approx(0, abs=1e-6)
    vague = DirichletMixture(DenseMatrix(torch.tensor([[0.5, 0.5]]).double()), torch.ones(2, 2))
    disagreement, ignorance = eu_parts(vague)
    assert disagreement == pytest.approx(0, abs=1e-12)
    assert ignorance == pytest.approx(np.log(2) - 0.5)  # entropy 1/2 is expected of the uniform


def test_an_explanation_adds_up(small_graph):
    with seeded(0):
        model = MODELS["lop_gpn"]()
    found, posterior, told = explained(model, small_graph, 7, most=6)
    assert len(told.neighbours) == 6
    assert told.neighbours["share"].is_monotonic_decreasing
    assert told.neighbours["share"].sum() + told.rest == pytest.approx(1)
    assert told.votes.sum() == pytest.approx(1)
    eu = float(posterior.eu()[7])
    assert told.disagreement + told.ignorance == pytest.approx(eu)
    measures = told.measures.set_index("measure")
    assert measures.loc["eu", "pooled"] == pytest.approx(eu)
    assert measures.loc["eu", "alone"] == pytest.approx(float(found.alone.eu()[7]))
    np.testing.assert_allclose(told.pooled, posterior.mean[7])
    np.testing.assert_allclose(told.alone, found.alone.mean[7])
    first = told.neighbours.iloc[0]
    assert first["share"] == pytest.approx(float(found.weights.max()))
    assert first["eu_so"] == pytest.approx(float(found.alone.eu_so()[int(first["node"])]))


def test_an_isolated_node_is_explained_by_itself(small_graph):
    with seeded(0):
        model = MODELS["lop_gpn"]()
    _, _, told = explained(model, small_graph, 5)
    assert told.neighbours["node"].tolist() == [5]
    assert told.disagreement == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(told.pooled, told.alone)


def test_evidence_counts_by_its_amount():
    alone = Dirichlet(torch.tensor([[1.0, 1.0], [4.0, 1.0], [1.0, 10.0]]))
    weights = torch.tensor([0.5, 0.2, 0.1])
    np.testing.assert_allclose(shares(weights, alone, "evidence"), np.array([0, 0.6, 0.9]) / 1.5, rtol=1e-6)
    np.testing.assert_allclose(
        shares(weights, Categorical(torch.zeros(3, 2)), "logits"), np.array([5, 2, 1]) / 8, rtol=1e-6
    )


def test_where_nobody_has_evidence_all_count_by_their_weight():
    np.testing.assert_allclose(shares(torch.tensor([3.0, 1.0]), Dirichlet(torch.ones(2, 2)), "evidence"), [0.75, 0.25])


def test_labels_that_the_model_was_not_given_are_not_shown(small_graph):
    with seeded(0):
        model = MODELS["lop_gpn_dense"]()
    _, _, told = explained(model, small_graph, 0, most=300)
    train = told.neighbours["part"] == "train"
    assert (told.neighbours.loc[~train, "label"] == -1).all()
    nodes = told.neighbours.loc[train, "node"].to_numpy()
    assert (told.neighbours.loc[train, "label"] == small_graph.labels.numpy()[nodes]).all()


def test_who_says_nothing_votes_for_nothing(build_graph):
    """Three nodes pooled alike: one sure of each class, and one that has no evidence."""
    graph = build_graph([(0, 1), (1, 2), (0, 2)], [[1.0]] * 3, [0, 1, -1])
    alone = Dirichlet(torch.tensor([[9.0, 1.0], [1.0, 9.0], [1.0, 1.0]]))
    weights = torch.full((3,), 1 / 3, dtype=torch.float64)
    mixture = DirichletMixture(DenseMatrix(weights.repeat(3, 1)), alone.alpha.double())
    told = explain(graph, 2, posterior=mixture, weights=weights, alone=alone, pooled="beliefs")
    assert sorted(told.neighbours["predicted"]) == [-1, 0, 1]
    np.testing.assert_allclose(told.votes, 1 / 3)


def test_hops_are_networkxs(small_graph):
    import networkx as nx

    theirs = nx.Graph(small_graph.edge_index.T.tolist())
    lengths = nx.single_source_shortest_path_length(theirs, 7)
    ours = hops_from(small_graph, 7)
    assert {node: hops for node, hops in enumerate(ours.tolist()) if hops >= 0} == lengths


def test_a_model_that_pools_nothing_says_so(small_graph):
    with pytest.raises(InputError, match="GKDE does not pool"):
        GKDE(num_features=12, num_classes=3).opinions(small_graph, 0)
