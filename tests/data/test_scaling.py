"""Scaling of features."""

import numpy as np
import pytest
import torch

from lopgpn_exp.data.scaling import normalise_rows
from tests.support.graph_files import NODES, expect_error, read_csv, write_csv


def test_rows_are_normalised_and_zero_rows_stay_zero():
    rows = normalise_rows(torch.tensor([[1.0, 3.0], [0.0, 0.0]]))
    assert rows.tolist() == [[0.25, 0.75], [0.0, 0.0]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sparse_rows_are_normalised_to_the_bits_of_dense_ones(dtype):
    generator = torch.Generator().manual_seed(0)
    dense = torch.rand(50, 700, generator=generator, dtype=dtype)
    dense *= torch.rand(50, 700, generator=generator) < 0.1
    dense[3] = 0
    sparse = normalise_rows(dense.to_sparse_csr())
    assert sparse.layout is torch.sparse_csr
    assert torch.equal(sparse.to_dense(), normalise_rows(dense))


def test_columns_of_dense_numbers_are_standardised(folder):
    graph = read_csv(folder)
    column = np.array([1.0, 2, 3, 6])
    np.testing.assert_allclose(graph.features[:, 0], (column - 3) / np.sqrt(3.5), rtol=1e-6)
    np.testing.assert_allclose(graph.features.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(graph.features.std(0, correction=0), 1, rtol=1e-6)


def test_scaling_rows_makes_them_sum_to_one_and_refuses_negative_values(folder):
    np.testing.assert_allclose(read_csv(folder, scaling="rows").features.sum(1), 1, rtol=1e-6)
    write_csv(folder, NODES.replace("ann,,,2", "ann,,,-2"))
    error = expect_error("'age' of node 'ann' is -2", path=str(folder), scaling="rows")
    assert (error.parameter, error.suggestion) == ("scaling", "standard")


def test_a_constant_column_becomes_zero(folder):
    write_csv(folder, "id,label,x,y\na,p,0.1,1\nb,q,0.1,2\nc,p,0.1,3\n", "source,target\na,b\n")
    assert read_csv(folder).features[:, 0].abs().max() < 1e-6
