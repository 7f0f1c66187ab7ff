"""GKDE against its definition, and that skipping distant hops changes nothing."""

import math
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from scipy.sparse.csgraph import connected_components

from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Graph, Part, adjacency_matrix
from lopgpn_exp.models import GKDE
from lopgpn_exp.models import gkde as module
from lopgpn_exp.models.gkde import class_evidence, kernel
from lopgpn_exp.training import fit, load_module


def graph_of(network: nx.Graph, *, num_classes: int = 3, train: int = 9, seed: int = 0) -> Graph:
    """Return a graph with random labels and `train` random training nodes; all others are test nodes."""
    n = network.number_of_nodes()
    rng = np.random.default_rng(seed)
    edges = torch.tensor(list(network.edges), dtype=torch.int64).reshape(-1, 2).T
    order = rng.permutation(n)
    labels = torch.from_numpy(rng.integers(num_classes, size=n))
    labels[order[:num_classes]] = torch.arange(num_classes)
    graph = Graph.build(features=torch.ones(n, 1), edge_index=edges, labels=labels, num_classes=num_classes)
    part = torch.full((n,), Part.TEST, dtype=torch.int8)
    part[order[:train]] = Part.TRAIN
    return graph.replace(part=part)


def fit_gkde(graph: Graph, **options: int) -> GKDE:
    model = GKDE(num_features=1, num_classes=graph.num_classes, **options)
    model.fit(graph)
    return model


@pytest.mark.parametrize("max_hops", [1, 10])
def test_alpha_equals_the_definition_with_distances_of_networkx(max_hops: int) -> None:
    network = nx.disjoint_union_all([nx.gnm_random_graph(40, 55, seed=3), nx.path_graph(16), nx.empty_graph(2)])
    network.add_edges_from((node, node) for node in range(5))
    graph = graph_of(network, train=25)
    alpha = np.ones((graph.num_nodes, 3))
    for t in graph.nodes(Part.TRAIN).tolist():
        for v, d in nx.single_source_shortest_path_length(network, t, cutoff=max_hops).items():
            alpha[v, graph.labels[t]] += math.exp(-(d**2) / 2) / math.sqrt(2 * math.pi)
    posterior = fit_gkde(graph, max_hops=max_hops).predict(graph)
    torch.testing.assert_close(posterior.alpha.double(), torch.from_numpy(alpha), rtol=1e-7, atol=0)


def test_the_evidence_of_an_isolated_training_node_is_the_kernel_at_distance_zero() -> None:
    graph = graph_of(nx.empty_graph(6), train=3)
    alpha = fit_gkde(graph).predict(graph).alpha
    nodes = graph.nodes(Part.TRAIN)
    assert torch.allclose(alpha[nodes, graph.labels[nodes]], torch.tensor(1 + 0.3989422804), atol=1e-7)
    assert torch.equal(alpha[graph.nodes(Part.TEST)], torch.ones(3, 3))


def evidence(graph: Graph, sources: np.ndarray, negligible_after: int) -> np.ndarray:
    adjacency = adjacency_matrix(graph)
    _, component = connected_components(adjacency, directed=False)
    return class_evidence(adjacency, component, sources, max_hops=10, negligible_after=negligible_after)


def alpha_bits(values: np.ndarray) -> np.ndarray:
    return (1 + values).astype(np.float32).view(np.uint32)


@pytest.mark.parametrize(
    "network", [nx.path_graph(400), nx.gnm_random_graph(900, 1000, seed=0)], ids=["path", "random"]
)
def test_skipping_far_hops_changes_no_bit(network: nx.Graph) -> None:
    graph = graph_of(network)
    sources = np.random.default_rng(0).permutation(graph.num_nodes)[: graph.num_nodes // 2]
    full = evidence(graph, sources, negligible_after=10)
    for hops in range(11):  # if this is too early, the check of the remaining evidence must notice
        assert np.array_equal(alpha_bits(evidence(graph, sources, negligible_after=hops)), alpha_bits(full))


def test_many_distant_training_nodes_are_not_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand training nodes at six hops add 6e-6; a single one would change nothing."""
    network = nx.path_graph(6)
    network.add_edges_from((5, leaf) for leaf in range(6, 1006))
    graph = graph_of(network)
    sources = np.arange(6, 1006)
    zero = alpha_bits(np.zeros(1))[0]
    complete = evidence(graph, sources, negligible_after=5)
    assert alpha_bits(complete)[0] == alpha_bits(np.array([1000 * kernel(np.array(6))]))[0] != zero
    monkeypatch.setattr(module, "_is_final", lambda *_, **__: True)
    assert alpha_bits(evidence(graph, sources, negligible_after=5))[0] == zero


def test_the_default_rarely_needs_the_full_search() -> None:
    """In a graph of small diameter all nodes are within seven hops, and one search is enough."""
    graph = graph_of(nx.gnm_random_graph(500, 3000, seed=1))
    answers: list[bool] = []
    original = module._is_final
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_is_final", lambda *a, **k: answers.append(original(*a, **k)) or answers[-1])
        evidence(graph, np.arange(200), negligible_after=module.NEGLIGIBLE_AFTER)
    assert answers == [True]


def test_only_training_labels_are_read() -> None:
    graph = graph_of(nx.gnm_random_graph(60, 90, seed=5), train=20)
    labels = graph.labels.clone()
    labels[graph.nodes(Part.TEST)] = 0
    wrong = graph.replace(labels=labels)
    assert torch.equal(fit_gkde(graph).predict(graph).alpha, fit_gkde(wrong).predict(graph).alpha)


def test_features_have_no_effect_and_other_edges_are_refused() -> None:
    graph = graph_of(nx.cycle_graph(20))
    model = fit_gkde(graph)
    noisy = graph.replace(features=torch.randn(20, 1, generator=torch.Generator().manual_seed(0)))
    assert torch.equal(model.predict(noisy).alpha, model.predict(graph).alpha)
    with pytest.raises(InputError, match="other edges"):
        model.predict(graph_of(nx.path_graph(20)))
    with pytest.raises(InputError, match="no graph yet"):
        GKDE(num_features=1, num_classes=3).predict(graph)


def test_a_class_without_training_nodes_is_refused() -> None:
    graph = graph_of(nx.cycle_graph(20))
    labels = graph.labels.clone()
    labels[(labels == 1) & (graph.part == Part.TRAIN)] = 0
    with pytest.raises(InputError, match="class 1 has no training node"):
        fit_gkde(graph.replace(labels=labels))


def test_a_checkpoint_gives_the_same_posterior(tmp_path: Path) -> None:
    graph = graph_of(nx.gnm_random_graph(60, 90, seed=5), train=20)
    options = {"num_features": 1, "num_classes": 3}
    path = tmp_path / "model.ckpt"
    result = fit(
        graph, model_class="lopgpn_exp.models.GKDE", model_options=options, seed=0, checkpoint_path=path, progress=False
    )
    loaded = load_module(path, model_class="lopgpn_exp.models.GKDE").model
    assert torch.equal(loaded.predict(graph).alpha, result.module.model.predict(graph).alpha)
    assert torch.equal(result.module.model.predict(graph).alpha, fit_gkde(graph).predict(graph).alpha)
