"""Structural splits: who is in-distribution, how many nodes each part has, and agreement with PyG."""

from functools import partial

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data
from torch_geometric.transforms import NodePropertySplit

from lopgpn_exp.data.datasets.pyg import citation_full
from lopgpn_exp.data.structural_splits import density_split, locality_split, popularity_split
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Graph, Part
from lopgpn_exp.graph.centrality import clustering, pagerank
from tests.conftest import make_graph
from tests.support.random_graphs import random_graphs

SPLITS = {"popularity": popularity_split, "locality": locality_split, "density": density_split}


def find_values(name: str, graph: Graph) -> torch.Tensor:
    """Return the property that a split orders the nodes by, in float32 as the split does."""
    if name == "density":
        return torch.tensor(clustering(graph), dtype=torch.float32)
    start = int(pagerank(graph).argmax()) if name == "locality" else None
    return torch.tensor(pagerank(graph, start=start), dtype=torch.float32)


def test_centralities_are_those_of_networkx(small_graph):
    graph = nx.Graph()
    graph.add_nodes_from(range(small_graph.num_nodes))
    graph.add_edges_from(small_graph.edge_index.T.tolist())
    expected = nx.pagerank(graph, tol=1e-14, max_iter=1000)
    assert pagerank(small_graph).tolist() == pytest.approx(list(expected.values()), abs=1e-11)
    personal = nx.pagerank(graph, personalization={7: 1}, tol=1e-14, max_iter=1000)
    assert pagerank(small_graph, start=7).tolist() == pytest.approx(list(personal.values()), abs=1e-11)
    assert clustering(small_graph).tolist() == pytest.approx(list(nx.clustering(graph).values()))


@pytest.mark.parametrize("name", SPLITS)
def test_the_sides_are_those_of_pyg(real_data, monkeypatch, name):
    """PyG calls the order `ascending` in which large values come first."""
    monkeypatch.setattr(nx.algorithms, "pagerank", partial(nx.pagerank, tol=1e-14, max_iter=1000))  # until it converges
    graph = citation_full(root=real_data, collection_name="Cora_ML")
    ours = SPLITS[name](graph, index=0)
    data = Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes)
    theirs = NodePropertySplit(name, [0.3, 0.1, 0.1, 0.1, 0.4], ascending=True)(data)
    is_ood = theirs.ood_val_mask | theirs.ood_test_mask
    is_test = ours.part == Part.TEST
    masks = (ours.part == Part.TRAIN, ours.part == Part.VAL, is_test & ~ours.is_ood, is_test & ours.is_ood)
    expected = (theirs.id_train_mask, theirs.id_val_mask, theirs.id_test_mask, theirs.ood_test_mask)
    for mask, theirs_mask in zip(masks, expected, strict=True):
        assert int(mask.sum()) == pytest.approx(int(theirs_mask.sum()), abs=1)  # PyG rounds in float32
    # The same nodes, except for ties, which both break at random.
    num_different = int((ours.is_ood != is_ood).sum())
    values = find_values(name, graph)
    num_tied = int((values == values[ours.is_ood].max()).sum())
    assert num_different <= num_tied + 2


@pytest.mark.parametrize("name", SPLITS)
def test_shares_seeds_and_the_order_of_nodes(small_graph, name):
    split = SPLITS[name]
    first, second = split(small_graph, index=0), split(small_graph, index=1)
    counts = [int((first.part == part).sum()) for part in (Part.NONE, Part.TRAIN, Part.VAL, Part.TEST)]
    assert counts == [30, 90, 30, 30 + 120]
    assert int(first.is_ood.sum()) == 150
    assert not first.is_ood[(first.part == Part.TRAIN) | (first.part == Part.VAL)].any()
    assert first.is_ood[first.part == Part.NONE].all()
    assert torch.equal(split(small_graph, index=0).part, first.part)
    assert not torch.equal(first.part, second.part)
    for field in ("features", "labels", "edge_index"):
        assert torch.equal(getattr(first, field), getattr(small_graph, field))
    # Nodes with values above the border are on the same side, whatever the numbers of the nodes are.
    order = torch.randperm(300, generator=torch.Generator().manual_seed(0))
    number = order.argsort()
    permuted = small_graph.replace(
        features=small_graph.features[order],
        labels=small_graph.labels[order],
        edge_index=number[small_graph.edge_index],
    )
    values = find_values(name, small_graph)
    is_untied = values != values[first.is_ood].max()
    again = split(permuted, index=0).is_ood[number]
    assert torch.equal(again[is_untied], first.is_ood[is_untied])


def test_popularity_by_hand():
    """The ten nodes of a star are popular; ten isolated nodes are not."""
    edges = [(0, node) for node in range(1, 10)]
    graph = make_graph(edges, [[1.0]] * 20, [0, 1] * 10)
    split = popularity_split(graph, index=0)
    assert not split.is_ood[:10].any()
    assert split.is_ood[10:].all()


def test_locality_by_hand():
    """A star and a path that starts there come first; another star cannot be reached from them."""
    edges = [(0, node) for node in range(1, 8)] + [(7, 8), (8, 9)] + [(10, node) for node in range(11, 16)]
    split = locality_split(make_graph(edges, [[1.0]] * 20, [0, 1] * 10), index=0)
    assert not split.is_ood[:10].any()
    assert split.is_ood[10:].all()


def test_density_by_hand():
    """All neighbours of a node in a complete graph are neighbours; in a star none are."""
    edges = [(a, b) for a in range(10) for b in range(a)] + [(10, node) for node in range(11, 20)]
    split = density_split(make_graph(edges, [[1.0]] * 20, [0, 1] * 10), index=0)
    assert not split.is_ood[:10].any()
    assert split.is_ood[10:].all()


@pytest.mark.parametrize("name", SPLITS)
@given(graph=random_graphs(min_nodes=10), index=st.integers(0, 9))
@settings(max_examples=25, deadline=None)
def test_structural_splits_of_random_graphs(name, graph, index):
    graph = graph.replace(labels=graph.labels.clamp(min=0))
    split = SPLITS[name](graph, index=index)
    sizes = [round(share * graph.num_nodes) for share in (0.3, 0.1, 0.1, 0.1)]
    is_test = split.part == Part.TEST
    masks = (split.part == Part.TRAIN, split.part == Part.VAL, is_test & ~split.is_ood, split.part == Part.NONE)
    assert [int(mask.sum()) for mask in masks] == sizes
    assert int((is_test & split.is_ood).sum()) == graph.num_nodes - sum(sizes)
    values = find_values(name, graph)
    assert values[~split.is_ood].min() >= values[split.is_ood].max()
    for field in ("features", "labels", "edge_index"):
        assert torch.equal(getattr(split, field), getattr(graph, field))


@pytest.mark.parametrize("name", SPLITS)
def test_a_graph_without_edges_or_with_few_nodes_is_an_error(name):
    with pytest.raises(InputError, match="no edges"):
        SPLITS[name](make_graph([], [[1.0]] * 20, [0, 1] * 10), index=0)
    with pytest.raises(InputError, match="4 labelled nodes"):
        SPLITS[name](make_graph([(0, 1)], [[1.0]] * 4, [0, 1] * 2), index=0)
