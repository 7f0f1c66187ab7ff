"""Bit-parallel hop counts, compared with single searches by networkx."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from lopgpn_exp.graph.hops import NUM_WORDS, count_hops


def graphs() -> dict[str, nx.Graph]:
    components = nx.disjoint_union_all([nx.cycle_graph(9), nx.path_graph(14), nx.star_graph(5), nx.empty_graph(3)])
    loops = nx.gnm_random_graph(30, 40, seed=1)
    loops.add_edges_from((node, node) for node in range(0, 30, 3))
    return {
        "components_and_isolated": components,
        "self_loops": loops,
        "sparse_random": nx.gnm_random_graph(80, 90, seed=2),
        "dense_random": nx.gnm_random_graph(50, 400, seed=3),
        "no_edges": nx.empty_graph(4),
    }


def count_with_networkx(graph: nx.Graph, sources: np.ndarray, max_hops: int) -> np.ndarray:
    counts = np.zeros((max_hops + 1, graph.number_of_nodes()), dtype=int)
    for source in sources:
        for node, hops in nx.single_source_shortest_path_length(graph, int(source), cutoff=max_hops).items():
            counts[hops, node] += 1
    return counts


@pytest.mark.parametrize("name", graphs())
@pytest.mark.parametrize("max_hops", [0, 1, 3, 10])
def test_counts_equal_networkx(name: str, max_hops: int) -> None:
    graph = graphs()[name]
    n = graph.number_of_nodes()
    sources = np.random.default_rng(0).permutation(n)[: max(1, n // 2)]
    adjacency = sp.csr_array(nx.to_scipy_sparse_array(graph, nodelist=range(n)))
    assert np.array_equal(
        count_hops(adjacency, sources, max_hops=max_hops), count_with_networkx(graph, sources, max_hops)
    )


def test_counts_are_exact_with_more_sources_than_a_block_holds() -> None:
    graph = nx.gnm_random_graph(64 * NUM_WORDS + 200, 2000, seed=4)
    sources = np.random.default_rng(1).permutation(64 * NUM_WORDS + 200)[: 64 * NUM_WORDS + 70]
    adjacency = sp.csr_array(nx.to_scipy_sparse_array(graph, nodelist=range(64 * NUM_WORDS + 200)))
    assert np.array_equal(count_hops(adjacency, sources, max_hops=4), count_with_networkx(graph, sources, 4))


def test_counts_are_zero_without_sources() -> None:
    adjacency = sp.csr_array(nx.to_scipy_sparse_array(nx.path_graph(5)))
    assert not count_hops(adjacency, np.array([], dtype=int), max_hops=3).any()
