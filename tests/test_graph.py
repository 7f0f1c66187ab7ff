import numpy as np
import pytest
import scipy.sparse as sp
import torch

from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Graph, Part, SparseMatrix, column_stochastic, row_stochastic, symmetric, undirected_edges


def test_edges_become_undirected_without_loops_and_duplicates():
    edges = undirected_edges(torch.tensor([[0, 1, 1, 2, 2], [1, 0, 0, 2, 1]]), num_nodes=3)
    assert edges.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]


def test_the_operators_on_a_path_by_hand(build_graph):
    """Path 0 - 1 - 2 with self loops: degrees 2, 3, 2."""
    graph = build_graph([(0, 1), (1, 2)], [[1.0], [1.0], [1.0]], [0, 1, 0])
    s = 1 / np.sqrt(6)
    expected = {
        symmetric: [[1 / 2, s, 0], [s, 1 / 3, s], [0, s, 1 / 2]],
        column_stochastic: [[1 / 2, 1 / 3, 0], [1 / 2, 1 / 3, 1 / 2], [0, 1 / 3, 1 / 2]],
        row_stochastic: [[1 / 2, 1 / 2, 0], [1 / 3, 1 / 3, 1 / 3], [0, 1 / 2, 1 / 2]],
    }
    for operator, matrix in expected.items():
        np.testing.assert_allclose(operator(graph).toarray(), matrix, atol=1e-15)


def test_stochastic_operators_sum_to_one_also_at_isolated_nodes(small_graph):
    assert (torch.bincount(small_graph.edge_index[0], minlength=300) == 0).sum() >= 2
    np.testing.assert_allclose(row_stochastic(small_graph).sum(axis=1), 1)
    np.testing.assert_allclose(column_stochastic(small_graph).sum(axis=0), 1)
    assert abs(symmetric(small_graph) - symmetric(small_graph).T).max() == 0


@pytest.mark.parametrize("rows_of_a_block", [2048, 7])  # one block, and five of which the last is not full
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sparse_product_and_gradient_equal_the_dense_ones(dtype, rows_of_a_block, monkeypatch):
    monkeypatch.setattr("lopgpn_exp.graph.matrix.ROWS_OF_A_BLOCK", rows_of_a_block)
    monkeypatch.setattr("lopgpn_exp.graph.matrix.SHORTEST_ROW", 1)
    matrix = sp.random_array((30, 20), density=0.2, rng=np.random.default_rng(0), format="csr")
    right = torch.randn(20, 4, dtype=dtype, generator=torch.Generator().manual_seed(0), requires_grad=True)
    dense = torch.from_numpy(matrix.toarray()).to(dtype)
    weights = torch.randn(30, 4, dtype=dtype, generator=torch.Generator().manual_seed(1))
    ours = torch.autograd.grad((SparseMatrix(matrix, dtype) @ right * weights).sum(), right)[0]
    theirs = torch.autograd.grad((dense @ right * weights).sum(), right)[0]
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(SparseMatrix(matrix, dtype) @ right, dense @ right)


def test_restricting_rows_keeps_the_product():
    matrix = sp.random_array((30, 20), density=0.1, rng=np.random.default_rng(0), format="csr")
    right = torch.randn(20, 4, generator=torch.Generator().manual_seed(0))
    rows = torch.tensor([3, 0, 29])
    small, used = SparseMatrix(matrix).restrict(rows)
    assert len(used) < 20
    torch.testing.assert_close(small @ right[used], (SparseMatrix(matrix) @ right)[rows])


def test_fingerprints_see_every_part_of_the_content(small_graph):
    changes = {
        "features": small_graph.features + 1e-6,
        "labels": small_graph.labels.flip(0),
        "part": small_graph.part.flip(0),
        "is_ood": ~small_graph.is_ood,
        "edge_index": small_graph.edge_index[:, (small_graph.edge_index != 0).all(dim=0)],
        "num_classes": 4,
    }
    prints = {small_graph.fingerprint} | {small_graph.replace(**{k: v}).fingerprint for k, v in changes.items()}
    assert len(prints) == len(changes) + 1
    assert small_graph.replace(features=small_graph.features.clone()).fingerprint == small_graph.fingerprint
    assert small_graph.replace(labels=small_graph.labels.flip(0)).structure_fingerprint == (
        small_graph.structure_fingerprint
    )


def test_a_graph_cannot_be_changed(small_graph):
    with pytest.raises(AttributeError):
        small_graph.num_classes = 9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": torch.empty(0, 2), "labels": torch.empty(0, dtype=torch.long)}, "no nodes"),
        ({"features": torch.tensor([[1.0], [float("nan")]])}, "feature 0 of node 1 is nan"),
        ({"features": torch.tensor([[1.0], [float("inf")]])}, "feature 0 of node 1 is inf"),
        ({"features": torch.empty(2, 0)}, "no features"),
        ({"edge_index": torch.tensor([[0], [2]])}, "node 2, which does not exist"),
        ({"edge_index": torch.tensor([[-1], [0]])}, "node -1, which does not exist"),
        ({"labels": torch.tensor([1, -2])}, "label -2"),
        ({"num_classes": 1}, "1 class"),
        ({"num_classes": 2, "labels": torch.tensor([0, 2])}, "node 1 has label 2"),
        ({"labels": torch.tensor([0, 1, 0])}, "labels has 3 entries"),
        ({"labels": torch.tensor([0.0, 1.7])}, r"labels is float32 of shape \(2,\)"),
        ({"labels": torch.tensor([[0], [1]])}, r"labels is int64 of shape \(2, 1\)"),
        ({"edge_index": torch.tensor([[0.0], [1.0]])}, "edge_index is float32"),
        ({"edge_index": torch.zeros(3, 2, dtype=torch.long)}, r"edge_index is int64 of shape \(3, 2\)"),
        ({"features": torch.ones(2)}, "features is float32 of shape"),
        ({"features": torch.ones(2, 1, dtype=torch.complex64)}, "features is complex64"),
        ({"features": [["a"], ["b"]]}, "features is a list that is no array"),
        ({"official_part": torch.tensor([1])}, "official_part has 1 entries"),
    ],
)
def test_bad_graphs_are_refused_with_the_place(change, message):
    good = {
        "features": torch.ones(2, 1),
        "edge_index": torch.tensor([[0], [1]]),
        "labels": torch.tensor([0, 1]),
    }
    assert Graph.build(**good).num_edges == 1
    with pytest.raises(InputError, match=message):
        Graph.build(**(good | change))


def test_lists_and_numpy_arrays_build_the_same_graph():
    built = Graph.build(features=np.array([[1, 2], [3, 4]]), edge_index=[[0], [1]], labels=[0, 1])
    assert built.features.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert built.edge_index.tolist() == [[0, 1], [1, 0]]


def test_parts_partition_the_nodes(small_graph):
    counts = [len(small_graph.nodes(part)) for part in Part]
    assert sum(counts) == small_graph.num_nodes
