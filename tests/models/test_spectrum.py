"""Laplacian eigenpairs against dense LAPACK: values, residuals, and eigenspaces (signs are arbitrary)."""

from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch

from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Graph
from lopgpn_exp.models.gp import eigensolver, laplacian_spectrum, spectrum


def graph_of(network: nx.Graph) -> Graph:
    n = network.number_of_nodes()
    edges = torch.tensor(list(network.edges), dtype=torch.int64).reshape(-1, 2).T
    return Graph.build(features=torch.ones(n, 1), edge_index=edges, labels=torch.arange(n) % 2)


def dense_eigenpairs(network: nx.Graph) -> tuple[np.ndarray, np.ndarray]:
    return np.linalg.eigh(
        nx.laplacian_matrix(network, nodelist=range(network.number_of_nodes())).toarray().astype(float)
    )


def several_components() -> nx.Graph:
    parts = [nx.gnm_random_graph(150, 300, seed=1), nx.star_graph(60), nx.cycle_graph(40), nx.path_graph(2)]
    return nx.disjoint_union_all([*parts, nx.empty_graph(4)])


def twin_leaves() -> nx.Graph:
    """Many leaves on few hubs: eigenvalue 1 has a multiplicity far larger than a block."""
    network = nx.cycle_graph(10)
    network.add_edges_from((leaf % 10, leaf) for leaf in range(10, 210))
    return network


NETWORKS = {
    "connected": nx.connected_watts_strogatz_graph(260, 4, 0.2, seed=0),
    "several_components": several_components(),
    "twin_leaves": twin_leaves(),
    "grid": nx.convert_node_labels_to_integers(nx.grid_2d_graph(15, 15)),
}


@pytest.fixture(params=["dense", "factorisation", "conjugate_gradients"])
def method(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Select one of the three methods regardless of the size of the graph."""
    if request.param != "dense":
        monkeypatch.setattr(spectrum, "DENSE_UP_TO", 0)
        monkeypatch.setattr(eigensolver, "BLOCK", 8)
        monkeypatch.setattr(eigensolver, "MIN_BASIS", 0)
    if request.param == "conjugate_gradients":
        monkeypatch.setattr(eigensolver, "FACTORISE_UP_TO", 0)
    return request.param


@pytest.mark.parametrize("name", NETWORKS)
def test_eigenpairs_equal_those_of_lapack(name: str, method: str) -> None:
    network, count = NETWORKS[name], 45
    result = laplacian_spectrum(graph_of(network), num_eigenpairs=count, eigen_tolerance=1e-7)
    values, vectors = dense_eigenpairs(network)
    np.testing.assert_allclose(result.values, values[:count], atol=1e-8)
    np.testing.assert_allclose(result.vectors.T @ result.vectors, np.eye(count), atol=1e-9)
    laplacian = sp.csr_array(nx.laplacian_matrix(network, nodelist=range(len(network))).astype(float))
    residuals = np.linalg.norm(laplacian @ result.vectors - result.vectors * result.values, axis=0)
    assert residuals.max() < 2e-7
    # Each computed vector lies in the space of the true eigenvalues near its own.
    for j in range(count):
        near = np.abs(values - result.values[j]) < 1e-4
        assert np.linalg.norm(vectors[:, near].T @ result.vectors[:, j]) > 1 - 1e-6


def test_there_is_one_zero_eigenvalue_per_component() -> None:
    zeros = nx.number_connected_components(several_components())
    result = laplacian_spectrum(graph_of(several_components()), num_eigenpairs=zeros + 5)
    assert (result.values[:zeros] == 0).all()
    assert result.values[zeros] > 1e-3
    # The projection onto the null space averages within each component, including isolated nodes.
    projection = result.vectors[:, :zeros] @ result.vectors[:, :zeros].T
    for nodes in nx.connected_components(several_components()):
        members = sorted(nodes)
        np.testing.assert_allclose(projection[np.ix_(members, members)], 1 / len(members), atol=1e-12)


def test_the_largest_components_are_used_if_there_are_more_than_pairs() -> None:
    result = laplacian_spectrum(graph_of(several_components()), num_eigenpairs=3)
    assert (result.values == 0).all()
    sizes = np.round(1 / result.vectors.max(axis=0) ** 2).astype(int).tolist()
    assert sizes == sorted((len(nodes) for nodes in nx.connected_components(several_components())), reverse=True)[:3]


def test_all_pairs_of_a_small_graph_can_be_computed() -> None:
    network = nx.disjoint_union(nx.path_graph(6), nx.cycle_graph(5))
    result = laplacian_spectrum(graph_of(network), num_eigenpairs=11)
    np.testing.assert_allclose(result.values, dense_eigenpairs(network)[0], atol=1e-12)


def test_a_path_graph_has_its_known_spectrum(method: str) -> None:
    result = laplacian_spectrum(graph_of(nx.path_graph(300)), num_eigenpairs=20, eigen_tolerance=1e-7)
    np.testing.assert_allclose(result.values, 2 - 2 * np.cos(np.pi * np.arange(20) / 300), atol=1e-9)


def test_all_copies_of_a_multiple_eigenvalue_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of width 4 find four copies of eigenvalue 1; the search in the complement finds the others."""
    monkeypatch.setattr(spectrum, "DENSE_UP_TO", 0)
    monkeypatch.setattr(eigensolver, "BLOCK", 4)
    result = laplacian_spectrum(graph_of(twin_leaves()), num_eigenpairs=30)
    np.testing.assert_allclose(result.values, dense_eigenpairs(twin_leaves())[0][:30], atol=1e-8)


def test_more_pairs_than_nodes_are_refused() -> None:
    with pytest.raises(InputError, match=r"num_eigenpairs is 12[\s\S]*from 1 to 11") as raised:
        laplacian_spectrum(graph_of(nx.path_graph(11)), num_eigenpairs=12)
    assert (raised.value.parameter, raised.value.suggestion) == ("num_eigenpairs", 11)


def test_a_solver_that_does_not_converge_raises_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spectrum, "DENSE_UP_TO", 0)
    monkeypatch.setattr(eigensolver, "BLOCK", 4)
    monkeypatch.setattr(eigensolver, "MAX_RESTARTS", 1)
    with pytest.raises(InputError, match=r"residual of \S+e[\s\S]*eigen_tolerance[\s\S]*num_eigenpairs") as raised:
        laplacian_spectrum(graph_of(NETWORKS["connected"]), num_eigenpairs=20, eigen_tolerance=1e-30)
    assert raised.value.parameter == "eigen_tolerance"
    assert raised.value.suggestion > 1e-30


def test_the_cache_depends_on_edges_only_and_survives_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of(NETWORKS["grid"])
    first = laplacian_spectrum(graph, num_eigenpairs=10, cache_dir=tmp_path)
    (file,) = tmp_path.glob("*.npz")
    with monkeypatch.context() as patch:
        patch.setattr(spectrum, "_compute", lambda *_: pytest.fail("computed again"))
        again = laplacian_spectrum(graph.replace(features=torch.zeros(225, 1)), num_eigenpairs=10, cache_dir=tmp_path)
    assert np.array_equal(first.vectors, again.vectors)
    file.write_bytes(file.read_bytes()[:100])
    repaired = laplacian_spectrum(graph, num_eigenpairs=10, cache_dir=tmp_path)
    assert np.array_equal(first.vectors, repaired.vectors)
    laplacian_spectrum(graph, num_eigenpairs=11, cache_dir=tmp_path)
    assert len(list(tmp_path.glob("*.npz"))) == 2
