"""Graph construction and replacement, normalised operators, constant matrices."""

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import (
    DenseMatrix,
    Graph,
    Part,
    SparseMatrix,
    column_stochastic,
    row_stochastic,
    symmetric,
    undirected_edges,
)
from lopgpn_exp.graph.cache import load_or_compute
from lopgpn_exp.threads import limit_cores


def test_edges_become_undirected_without_loops_and_duplicates():
    edges = undirected_edges(torch.tensor([[0, 1, 1, 2, 2], [1, 0, 0, 2, 1]]), num_nodes=3)
    assert edges.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]


def test_operators_of_a_path_match_values_by_hand(build_graph):
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


def test_stochastic_operators_sum_to_one_even_for_isolated_nodes(small_graph):
    assert (torch.bincount(small_graph.edge_index[0], minlength=300) == 0).sum() >= 2
    np.testing.assert_allclose(row_stochastic(small_graph).sum(axis=1), 1)
    np.testing.assert_allclose(column_stochastic(small_graph).sum(axis=0), 1)
    assert abs(symmetric(small_graph) - symmetric(small_graph).T).max() == 0


@pytest.mark.parametrize("operator", [row_stochastic, column_stochastic])
def test_rows_of_stochastic_operators_have_descending_columns(small_graph, operator):
    """Sums follow this order: another one changes the last bits of every published LOP-GPN and GPN (rw)."""
    matrix = operator(small_graph)
    rows = np.repeat(np.arange(300), np.diff(matrix.indptr))
    assert (np.diff(matrix.indices)[np.diff(rows) == 0] < 0).all()
    assert len(matrix.indices) > 600


@pytest.mark.parametrize("rows_per_block", [2048, 7])  # one block, and five blocks of which the last is not full
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sparse_product_and_gradient_equal_dense_ones(dtype, rows_per_block, monkeypatch):
    monkeypatch.setattr("lopgpn_exp.graph.matrix.ROWS_PER_BLOCK", rows_per_block)
    monkeypatch.setattr("lopgpn_exp.graph.matrix.MIN_ENTRIES_PER_COLUMN", 1)
    matrix = sp.random_array((30, 20), density=0.2, rng=np.random.default_rng(0), format="csr")
    right = torch.randn(20, 4, dtype=dtype, generator=torch.Generator().manual_seed(0), requires_grad=True)
    dense = torch.from_numpy(matrix.toarray()).to(dtype)
    weights = torch.randn(30, 4, dtype=dtype, generator=torch.Generator().manual_seed(1))
    actual = torch.autograd.grad((SparseMatrix(matrix, dtype) @ right * weights).sum(), right)[0]
    expected = torch.autograd.grad((dense @ right * weights).sum(), right)[0]
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(SparseMatrix(matrix, dtype) @ right, dense @ right)


def test_dense_product_in_blocks_equals_a_single_one(monkeypatch):
    monkeypatch.setattr("lopgpn_exp.graph.matrix.ROWS_PER_TASK", 4)
    generator = torch.Generator().manual_seed(0)
    values, right = torch.randn(301, 20, generator=generator), torch.randn(20, 6, generator=generator)
    single = DenseMatrix(values) @ right
    monkeypatch.setattr("lopgpn_exp.graph.matrix.MANY_ROWS", 300)
    right.requires_grad_()
    with limit_cores(2):
        product = DenseMatrix(values) @ right
    torch.testing.assert_close(product, single)
    weights = torch.randn(301, 6, generator=generator)
    torch.testing.assert_close(torch.autograd.grad((product * weights).sum(), right)[0], values.T @ weights)


def test_restricted_rows_give_the_same_product():
    matrix = sp.random_array((30, 20), density=0.1, rng=np.random.default_rng(0), format="csr")
    right = torch.randn(20, 4, generator=torch.Generator().manual_seed(0))
    rows = torch.tensor([3, 0, 29])
    restricted, columns = SparseMatrix(matrix).restrict(rows)
    assert len(columns) < 20
    torch.testing.assert_close(restricted @ right[columns], (SparseMatrix(matrix) @ right)[rows])


def test_fingerprint_changes_with_every_field(small_graph):
    changes = {
        "features": small_graph.features + 1e-6,
        "labels": small_graph.labels.flip(0),
        "part": small_graph.part.flip(0),
        "is_ood": ~small_graph.is_ood,
        "edge_index": small_graph.edge_index[:, (small_graph.edge_index != 0).all(dim=0)],
        "num_classes": 4,
    }
    changed = {small_graph.replace(**{name: value}).fingerprint for name, value in changes.items()}
    assert len(changed | {small_graph.fingerprint}) == len(changes) + 1
    assert small_graph.replace(features=small_graph.features.clone()).fingerprint == small_graph.fingerprint
    assert small_graph.replace(labels=small_graph.labels.flip(0)).structure_fingerprint == (
        small_graph.structure_fingerprint
    )


def test_graph_is_immutable(small_graph):
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
        ({"features": [["a"], ["b"]]}, "features is a list that is not an array"),
        ({"official_part": torch.tensor([1])}, "official_part has 1 entries"),
    ],
)
def test_invalid_graphs_are_rejected_with_the_location(change, message):
    valid = {
        "features": torch.ones(2, 1),
        "edge_index": torch.tensor([[0], [1]]),
        "labels": torch.tensor([0, 1]),
    }
    assert Graph.build(**valid).num_edges == 1
    with pytest.raises(InputError, match=message):
        Graph.build(**(valid | change))


def test_lists_and_numpy_arrays_build_the_same_graph():
    graph = Graph.build(features=np.array([[1, 2], [3, 4]]), edge_index=[[0], [1]], labels=[0, 1])
    assert graph.features.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert graph.edge_index.tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    "edges",
    [
        [[1, 0, 2, 1], [2, 1, 1, 0]],  # unsorted
        [[0, 1], [1, 2]],  # one direction
        [[0, 0, 1, 1, 2, 1], [1, 1, 0, 2, 1, 0]],  # repeated
        [[0, 1, 1, 2, 2], [1, 0, 2, 1, 2]],  # with a self loop
        np.array([[0, 1, 1, 2], [1, 0, 2, 1]], dtype=np.int32),
    ],
)
def test_replaced_edges_are_normalised_as_in_build(build_graph, edges):
    path = build_graph([(0, 1), (1, 2)], [[1.0]] * 3, [0, 1, 0])
    other = build_graph([(0, 2)], [[1.0]] * 3, [0, 1, 0])
    replaced = other.replace(edge_index=torch.tensor(edges) if isinstance(edges, list) else edges)
    assert replaced.edge_index.tolist() == path.edge_index.tolist()
    assert replaced.num_edges == 2
    assert replaced.fingerprint == path.fingerprint


def test_replacing_normalised_edges_changes_neither_edges_nor_fingerprints(small_graph):
    copy = small_graph.replace(edge_index=small_graph.edge_index.clone())
    assert torch.equal(copy.edge_index, small_graph.edge_index)
    assert (copy.fingerprint, copy.structure_fingerprint) == (
        small_graph.fingerprint,
        small_graph.structure_fingerprint,
    )
    assert small_graph.replace(labels=small_graph.labels).edge_index is small_graph.edge_index


@given(edges=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=20))
def test_normalisation_is_idempotent_and_equals_a_set_of_pairs(edges):
    edge_index = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T
    pairs = sorted({(a, b) for a, b in edges if a != b} | {(b, a) for a, b in edges if a != b})
    normalised = undirected_edges(edge_index, 7)
    assert normalised.T.tolist() == [list(pair) for pair in pairs]
    assert torch.equal(undirected_edges(normalised, 7), normalised)


def test_replaced_features_keep_double_precision(small_graph):
    assert small_graph.replace(features=small_graph.features.double()).features.dtype == torch.float64


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"edge_index": torch.tensor([[0], [3]])}, "node 3, which does not exist"),
        ({"edge_index": torch.tensor([[-1], [0]])}, "node -1, which does not exist"),
        ({"edge_index": torch.tensor([[0.0], [1.0]])}, "edge_index is float32"),
        ({"edge_index": torch.zeros(3, 2, dtype=torch.long)}, r"edge_index is int64 of shape \(3, 2\)"),
        ({"features": torch.ones(3)}, "features is float32 of shape"),
        ({"features": torch.ones(4, 1)}, "labels has 3 entries"),
        ({"features": None}, "features is a NoneType that is not an array"),
        ({"labels": torch.tensor([0.0, 1.0, 0.0])}, "labels is float32"),
        ({"labels": torch.tensor([0, 1])}, "labels has 2 entries"),
        ({"part": torch.tensor([1.0, 2.0, 3.0])}, "part is float32"),
        ({"part": torch.tensor([1, 2])}, "part has 2 entries"),
        ({"is_ood": torch.tensor([0, 1, 0])}, "is_ood is int64"),
        ({"is_ood": torch.tensor([True])}, "is_ood has 1 entries"),
        ({"official_part": torch.tensor([1])}, "official_part has 1 entries"),
    ],
)
def test_invalid_replacements_are_rejected(build_graph, change, message):
    graph = build_graph([(0, 1), (1, 2)], [[1.0]] * 3, [0, 1, 0])
    with pytest.raises(InputError, match=message):
        graph.replace(**change)


def test_parts_partition_the_nodes(small_graph):
    counts = [len(small_graph.nodes(part)) for part in Part]
    assert sum(counts) == small_graph.num_nodes


def test_a_cached_result_is_computed_once_by_threads_that_start_together(tmp_path):
    computed, barrier = [], Barrier(4)

    def compute():
        computed.append(1)
        time.sleep(0.2)
        return {"values": np.arange(3)}

    def load(_):
        barrier.wait()
        return load_or_compute(tmp_path, "name", compute)["values"].tolist()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(load, range(4))) == [[0, 1, 2]] * 4
    assert len(computed) == 1
