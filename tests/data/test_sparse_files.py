"""Sparse features of a user's own graph: the same graph from every format, and none of them is ever a dense matrix."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from lopgpn_exp.data.files import csv_file, custom_graph, feature_columns, read_graph_like
from lopgpn_exp.graph import Graph
from tests.support.graph_files import expect_error

NUM_NODES, NUM_FEATURES = 60, 50


@pytest.fixture
def features() -> sp.csr_array:
    matrix = sp.random_array((NUM_NODES, NUM_FEATURES), density=0.1, rng=0, dtype=np.float64).tocsr()
    matrix.data = np.ceil(4 * matrix.data)
    return matrix


def write_graph(folder: Path, features: sp.csr_array, kind: str) -> Path:
    """Write a graph with these features in one of the formats, and return its path."""
    names = [f"w{k}" for k in range(features.shape[1])]
    labels, edges = np.arange(len(features.indptr) - 1) % 3, np.array([[0, 1, 2], [1, 2, 3]])
    ids = np.arange(len(labels))
    if kind == "npz":
        adjacency = sp.csr_array((np.ones(3), edges), shape=(len(labels), len(labels)))
        arrays = {"labels": labels, "attr_names": np.array(names)}
        for name, matrix in (("attr", features), ("adj", adjacency)):
            arrays |= {f"{name}_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr", "shape")}
        np.savez(folder / "graph.npz", **arrays)
        return folder / "graph.npz"
    if kind in ("coo", "csr", "csc", "dense"):
        dense = torch.from_numpy(features.toarray())
        x = {"coo": dense.to_sparse(), "csr": dense.to_sparse_csr(), "csc": dense.to_sparse_csc(), "dense": dense}[kind]
        data = Data(x=x, edge_index=torch.from_numpy(edges), y=torch.from_numpy(labels), feature_names=names)
        torch.save(data, folder / "graph.pt")
        return folder / "graph.pt"
    nodes = pd.DataFrame(features.toarray(), columns=names).assign(id=ids, label=labels)
    tables = {"nodes": nodes, "edges": pd.DataFrame(edges.T, columns=["source", "target"])}
    for name, table in tables.items():
        table.to_parquet(folder / f"{name}.parquet") if kind == "parquet" else table.to_csv(
            folder / f"{name}.csv", index=False
        )
    return folder


FORMATS = ["npz", "coo", "csr", "csc", "csv", "parquet"]


def read(folder: Path, features: sp.csr_array, kind: str, **options: object) -> Graph:
    return custom_graph(path=str(write_graph(folder, features, kind)), **options)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("scaling", ["auto", "none", "standard"])
def test_every_format_gives_the_features_of_a_dense_file(tmp_path, features, kind, scaling):
    graph = read(tmp_path, features, kind, scaling=scaling)
    (tmp_path / "dense").mkdir()
    dense = read(tmp_path / "dense", features, "dense", scaling=scaling)
    assert torch.equal(graph.features.to_dense(), dense.features)
    assert graph.legend.scaling == dense.legend.scaling
    assert (graph.features.layout is torch.sparse_csr) == (scaling != "standard")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_rows_of_a_table_are_read_in_blocks_of_different_layouts(tmp_path, features, kind, monkeypatch):
    from lopgpn_exp.data.files import table_file

    monkeypatch.setattr(csv_file, "STREAM_BYTES", 2**11)
    monkeypatch.setattr(table_file, "STREAM_BYTES", 2**12)
    blocks, add = [], feature_columns.FeatureColumns.add

    def count(self, batch):
        blocks.append(batch.num_rows)
        add(self, batch)

    monkeypatch.setattr(feature_columns.FeatureColumns, "add", count)
    for num_dense_rows in (0, 5, 40):  # the whole is sparse, sparse, dense
        matrix = sp.lil_array(features)
        matrix[:num_dense_rows] = 1
        graph = read(tmp_path, sp.csr_array(matrix), kind, scaling="none")
        np.testing.assert_array_equal(graph.features.to_dense(), matrix.toarray())
        assert (graph.features.layout is torch.sparse_csr) == (num_dense_rows < 40)
    assert len(blocks) > 6


@pytest.mark.parametrize("kind", FORMATS)
def test_a_changed_version_is_scaled_as_the_run_was(tmp_path, features, kind):
    first = read(tmp_path, features, kind)
    assert first.legend.scaling == "rows"
    changed = features.copy()
    changed.data[:] = 7.5
    dense_rows = sp.csr_array(np.vstack([changed.toarray()[:10], np.full((5, NUM_FEATURES), 2.0)]))
    path = write_graph(tmp_path, dense_rows, kind)
    second, _ = read_graph_like(first.legend, num_classes=3, path=str(path))
    sums = second.features.to_dense().sum(dim=1)
    torch.testing.assert_close(sums[sums > 0], torch.ones_like(sums[sums > 0]))


@pytest.mark.parametrize("kind", FORMATS)
def test_invalid_values_of_sparse_files_are_named(tmp_path, features, kind):
    row, column = 17, int(features.indices[features.indptr[17]])
    position = features.indptr[17]
    features.data[position] = np.inf
    expect_error(f"'w{column}' of node {row!r} is inf".replace("17", "'17'" if kind == "csv" else "17"), path=str(
        write_graph(tmp_path, features, kind)))  # fmt: skip
    features.data[position] = -1.5
    error = expect_error("is -1.5", path=str(write_graph(tmp_path, features, kind)), scaling="rows")
    assert (error.parameter, error.suggestion) == ("scaling", "standard")


def test_duplicates_and_zeros_of_a_file_and_their_order_do_not_matter(tmp_path, features):
    expected = read(tmp_path, features, "npz").fingerprint
    coo = features.tocoo()
    order = np.lexsort((-coo.col, coo.row))  # columns in descending order
    rows, columns, values = coo.row[order], coo.col[order], coo.data[order]
    pieces = [
        (rows, columns, values / 2),
        (rows, columns, values / 2),
        (rows, (columns + 1) % NUM_FEATURES, 0 * values),
    ]
    rows, columns, values = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    order = np.argsort(rows, kind="stable")
    messy = sp.csr_array((values[order], columns[order], 3 * features.indptr), shape=features.shape)
    assert read(tmp_path, messy, "npz").fingerprint == expected


def test_the_memory_estimate_counts_only_values_that_are_not_zero(tmp_path):
    wide = sp.random_array((2000, 30_000), density=1e-3, rng=0).tocsr()
    path = write_graph(tmp_path, wide, "npz")
    assert custom_graph(path=str(path), memory_limit_gib=0.05).num_features == 30_000  # 1.8 GiB if it were dense
    error = expect_error(
        "scaling 'standard') can take 1.79 GiB", path=str(path), scaling="standard", memory_limit_gib=1.0
    )
    assert error.parameter == "memory_limit_gib"


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_the_memory_of_a_table_is_estimated_from_its_beginning_and_checked_while_reading(tmp_path, kind):
    matrix = np.zeros((500, 1500))
    matrix[::7, ::11] = 1
    write_graph(tmp_path, sp.csr_array(matrix), kind)
    assert custom_graph(path=str(tmp_path), memory_limit_gib=0.005).features.layout is torch.sparse_csr
    matrix[200:] = 1
    write_graph(tmp_path, sp.csr_array(matrix), kind)
    expect_error("features) can take 0.", path=str(tmp_path), memory_limit_gib=0.005)
