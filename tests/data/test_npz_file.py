"""A user's graph as an npz file in PyG's citation layout."""

import numpy as np
import pytest
import torch

from lopgpn_exp.data.datasets.pyg import citation_full
from lopgpn_exp.data.files import custom_graph
from tests.support.graph_files import expect_error, write_npz


def test_values_and_names_are_kept(tmp_path):
    write_npz(tmp_path / "graph.npz", node_names=np.array(["a", "b", "c"]))
    graph = custom_graph(path=str(tmp_path / "graph.npz"), scaling="none")
    assert graph.features.tolist() == [[0, 2.5], [1, 0], [0, 3]]  # not 0/1
    assert graph.labels.tolist() == [1, 0, -1]
    assert graph.legend.nodes.tolist() == ["a", "b", "c"]
    assert graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]


def test_a_file_of_the_paper_is_read_as_its_loader_reads_it(real_data):
    """Except for the features, which the loader turns into 0/1."""
    from_loader = citation_full(root=real_data, collection_name="Cora_ML")
    from_file = custom_graph(path=str(real_data / "citation_full/cora_ml/raw/cora_ml.npz"), scaling="rows")
    assert torch.equal(from_file.edge_index, from_loader.edge_index)
    assert torch.equal(from_file.labels, from_loader.labels)
    assert torch.equal(from_file.features.to_dense() > 0, from_loader.features.to_dense() > 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": np.array([0.5, 1, 2])}, "labels are float64"),
        ({"labels": np.array([0, 1])}, "2 labels for 3 nodes"),
        ({"adj_indices": np.array([1, 99])}, "adj_indices range from 1 to 99"),
        ({"attr_shape": np.array([3, 10**9])}, "there are 1,000,000,000 features"),
        ({"attr_data": np.array(["a", "b", "c"])}, "attr_data is"),
        ({"class_names": np.array(["one"])}, "there is a label 1, but there are 1 class_names"),
        ({"node_names": np.array([["a"], ["b"], ["c"]])}, "node_names is"),
        ({"node_names": np.array(["a", "b"])}, "node_names has 2 entries"),
    ],
)
def test_invalid_content_is_named(tmp_path, changes, message):
    write_npz(tmp_path / "graph.npz", **changes)
    expect_error(message, path=str(tmp_path / "graph.npz"))


def test_missing_arrays_are_named(tmp_path):
    np.savez(tmp_path / "graph.npz", labels=np.zeros(3))
    expect_error("the archive has no 'adj_data'", path=str(tmp_path / "graph.npz"))
    np.save(tmp_path / "graph.npy", np.zeros(3))
    (tmp_path / "graph.npy").rename(tmp_path / "single.npz")
    expect_error("a single array", path=str(tmp_path / "single.npz"))
