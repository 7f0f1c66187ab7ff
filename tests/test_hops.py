"""Bit-parallel hop counts against networkx, one search at a time."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from lopgpn_exp.graph.hops import WORDS, hop_counts


def graphs() -> dict[str, nx.Graph]:
    several = nx.disjoint_union_all([nx.cycle_graph(9), nx.path_graph(14), nx.star_graph(5), nx.empty_graph(3)])
    loops = nx.gnm_random_graph(30, 40, seed=1)
    loops.add_edges_from((node, node) for node in range(0, 30, 3))
    return {
        "components_and_isolated": several,
        "self_loops": loops,
        "sparse_random": nx.gnm_random_graph(80, 90, seed=2),
        "dense_random": nx.gnm_random_graph(50, 400, seed=3),
        "no_edges": nx.empty_graph(4),
    }


def by_networkx(graph: nx.Graph, sources: np.ndarray, max_hops: int) -> np.ndarray:
    counts = np.zeros((max_hops + 1, graph.number_of_nodes()), dtype=int)
    for source in sources:
        for node, hops in nx.single_source_shortest_path_length(graph, int(source), cutoff=max_hops).items():
            counts[hops, node] += 1
    return counts


@pytest.mark.parametrize("name", graphs())
@pytest.mark.parametrize("max_hops", [0, 1, 3, 10])
def test_equals_networkx(name: str, max_hops: int) -> None:
    graph = graphs()[name]
    n = graph.number_of_nodes()
    sources = np.random.default_rng(0).permutation(n)[: max(1, n // 2)]
    adjacency = sp.csr_array(nx.to_scipy_sparse_array(graph, nodelist=range(n)))
    assert np.array_equal(hop_counts(adjacency, sources, max_hops=max_hops), by_networkx(graph, sources, max_hops))


def test_more_sources_than_one_block_holds() -> None:
    graph = nx.gnm_random_graph(64 * WORDS + 200, 2000, seed=4)
    sources = np.random.default_rng(1).permutation(64 * WORDS + 200)[: 64 * WORDS + 70]
    adjacency = sp.csr_array(nx.to_scipy_sparse_array(graph, nodelist=range(64 * WORDS + 200)))
    assert np.array_equal(hop_counts(adjacency, sources, max_hops=4), by_networkx(graph, sources, 4))


def test_no_source_gives_no_count() -> None:
    adjacency = sp.csr_array(nx.to_scipy_sparse_array(nx.path_graph(5)))
    assert not hop_counts(adjacency, np.array([], dtype=int), max_hops=3).any()
