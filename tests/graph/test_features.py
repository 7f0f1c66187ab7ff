"""Sparse features: every operation gives the result of dense features."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Graph
from lopgpn_exp.graph import features as module
from lopgpn_exp.graph.features import from_scipy, replace_rows, select_rows, sum_rows, to_canonical


@pytest.fixture
def dense() -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(40, 30, generator=generator)
    return values.masked_fill(torch.rand(40, 30, generator=generator) > 0.1, 0)


@pytest.fixture
def graph(dense) -> Graph:
    labels = torch.arange(40) % 2
    return Graph.build(features=dense, edge_index=torch.tensor([[0, 1], [1, 2]]), labels=labels)


def build_csr(pointers: list[int], columns: list[int], values: list[float], shape: tuple[int, int]) -> torch.Tensor:
    """Return a CSR tensor, whether it is valid or not."""
    parts = (torch.tensor(pointers), torch.tensor(columns), torch.tensor(values))
    return torch.sparse_csr_tensor(*parts, size=shape, check_invariants=False)


def test_rows_are_selected_replaced_and_summed_as_in_a_dense_matrix(dense):
    sparse, mask, order = dense.to_sparse_csr(), torch.arange(40) % 3 == 0, torch.randperm(40)
    assert torch.equal(select_rows(sparse, mask).to_dense(), dense[mask])
    assert torch.equal(select_rows(sparse, order).to_dense(), dense[order])
    rows = torch.randn(int(mask.sum()), 30).clamp(min=0)
    assert torch.equal(replace_rows(sparse, mask, rows).to_dense(), replace_rows(dense, mask, rows))
    assert torch.equal(sparse.to_dense(), dense)  # the input is not modified
    assert torch.equal(sum_rows(sparse), sum_rows(dense))


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_a_graph_has_the_same_fingerprint_in_every_layout(graph, dense, layout, monkeypatch):
    monkeypatch.setattr(module, "BLOCK_BYTES", 1000)  # several blocks of rows
    sparse = graph.replace(features=getattr(dense, f"to_sparse_{layout}" if layout != "coo" else "to_sparse")())
    assert sparse.features.layout is torch.sparse_csr
    assert sparse.fingerprint == graph.fingerprint


def test_the_fingerprint_of_very_large_features_depends_on_their_values(graph, dense, monkeypatch):
    monkeypatch.setattr(module, "MAX_DENSE_BYTES", 0)
    prints = [graph.replace(features=values.to_sparse_csr()).fingerprint for values in (dense, dense.clone(), -dense)]
    assert prints[0] == prints[1] != prints[2]


def test_duplicates_are_added_and_zeros_and_order_do_not_matter():
    unsorted = build_csr([0, 4, 4], [2, 0, 2, 1], [1.0, 5.0, 2.0, 0.0], (2, 3))
    canonical = to_canonical(unsorted)
    assert canonical.col_indices().tolist() == [0, 2]
    assert canonical.to_dense().tolist() == [[5, 0, 3], [0, 0, 0]]
    assert unsorted.values().tolist() == [1, 5, 2, 0]  # the input is not modified


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (build_csr([0, 1, 1], [7], [1.0], (2, 3)), "invalid sparse tensor"),
        (build_csr([0, 2, 1], [0], [1.0], (2, 3)), "invalid sparse tensor"),
        (build_csr([0, 1, 3], [0, 1, 2], [1.0, 2.0, np.nan], (2, 3)), "feature 2 of node 1 is nan"),
        (torch.ones(2, 2).to_sparse_bsr((1, 1)), "not COO, CSR or CSC"),
        (torch.ones(2, 2, dtype=torch.complex64).to_sparse(), "features is complex64"),
    ],
)
def test_invalid_sparse_features_are_one_message(features, message):
    with pytest.raises(InputError, match=message):
        Graph.build(features=features, edge_index=torch.tensor([[0], [1]]), labels=torch.tensor([0, 1]))


def test_indices_take_32_bits():
    features = from_scipy(sp.csr_array(np.eye(3, dtype=np.float32)))
    assert features.col_indices().dtype == features.crow_indices().dtype == torch.int32
