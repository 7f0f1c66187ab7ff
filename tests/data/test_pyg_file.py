"""A user's graph as a PyG `Data` object in a file."""

import pytest
import torch
from torch_geometric.data import HeteroData

from lopgpn_exp.data.files import custom_graph, read_graph_like
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Part
from tests.support.graph_files import expect_error, pyg_data


def test_classes_are_numbered_without_gaps_and_keep_their_names(tmp_path):
    torch.save(pyg_data(), tmp_path / "graph.pt")
    graph = custom_graph(path=str(tmp_path / "graph.pt"), scaling="none")
    assert graph.features.flatten().tolist() == [1, 2, 4]
    assert graph.labels.tolist() == [0, -1, 1]
    assert graph.legend.classes == ("3", "5")
    assert graph.num_edges == 2
    assert graph.official_part.tolist() == [Part.TRAIN, Part.NONE, Part.TEST]


def test_names_of_nodes_and_classes_are_read(tmp_path):
    data = pyg_data(y=torch.tensor([0, 1, 1]), node_id=["a", "b", "c"], class_names=["no", "yes"])
    torch.save(data, tmp_path / "graph.pt")
    graph = custom_graph(path=str(tmp_path / "graph.pt"))
    assert (graph.legend.nodes.tolist(), graph.legend.classes) == (["a", "b", "c"], ("no", "yes"))


def test_columns_of_a_changed_file_are_matched_by_name(tmp_path):
    data = pyg_data(x=torch.tensor([[1.0, 5.0], [2.0, 6.0], [4.0, 9.0]]), feature_names=["u", "v"])
    torch.save(data, tmp_path / "graph.pt")
    first = custom_graph(path=str(tmp_path / "graph.pt"))
    data.x, data.feature_names = data.x.flip(1), ["v", "u"]
    torch.save(data, tmp_path / "graph.pt")
    again, _ = read_graph_like(first.legend, num_classes=2, path=str(tmp_path / "graph.pt"))
    assert torch.equal(again.features, first.features)
    data.feature_names = ["v", "w"]
    torch.save(data, tmp_path / "graph.pt")
    with pytest.raises(InputError, match="one of them 'w'"):
        read_graph_like(first.legend, num_classes=2, path=str(tmp_path / "graph.pt"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (pyg_data(x=None), "without x"),
        (pyg_data(edge_index=torch.zeros(3, 2, dtype=torch.long)), "edge_index (3, 2)"),
        (pyg_data(edge_index=torch.tensor([[0], [9]])), "an edge refers to node 9"),
        (pyg_data(y=torch.tensor([0.5, 1.0, 2.0])), "y contains fractions or infinity"),
        (pyg_data(y=torch.tensor([0, 1])), "y is (2,)"),
        (pyg_data(y=None), "contains no labels"),
        (pyg_data(y="abc"), "y is a str"),
        (pyg_data(train_mask=torch.ones(3, 10, dtype=torch.bool)), "train_mask is (3, 10)"),
        (pyg_data(val_mask=torch.tensor([True, True, False])), "val_mask overlaps another mask"),
        (pyg_data(node_id=["a"]), "node_id has 1 entries"),
        (pyg_data(node_id=torch.zeros(1).expand(10**6, 10**6)), "node_id is (1000000, 1000000)"),
        (pyg_data(node_id=["a", 1, "c"]), "node_id has mixed or unsupported types"),
        (pyg_data(node_id=[2**70, 1, 2]), "node_id has mixed or unsupported types"),
        (pyg_data(feature_names=["a", "b"]), "feature_names has 2 entries"),
        (pyg_data(class_names="abc"), "class_names is a str"),
        (pyg_data(edge_index=torch.ones(2, 2, dtype=torch.bool)), "with integers"),
        (pyg_data(y=torch.tensor([0.0, torch.inf, 1.0])), "y contains fractions or infinity"),
        (pyg_data(node_id=["a", "a", "b"]), "the id 'a' occurs more than once"),
        (pyg_data(y=torch.tensor([0, 1, 1]), class_names=["a", "a"]), "the class 'a' occurs more than once"),
        (pyg_data(x=torch.tensor([[1.0], [torch.nan], [2.0]])), "'0' of node 1 is nan"),
        (HeteroData(), "a HeteroData without x"),
        ([1, 2, 3], "without x"),
    ],
)
def test_invalid_content_is_named(tmp_path, content, message):
    torch.save(content, tmp_path / "graph.pt")
    expect_error(message, path=str(tmp_path / "graph.pt"))


def test_reading_does_not_change_which_classes_torch_may_load(tmp_path):
    """PyG allows its own classes for the whole process, and reading must not revoke that."""
    before = set(torch.serialization.get_safe_globals())
    torch.save(pyg_data(), tmp_path / "graph.pt")
    custom_graph(path=str(tmp_path / "graph.pt"))
    assert set(torch.serialization.get_safe_globals()) == before


def test_repeated_feature_names_of_a_file_are_not_matched_by_name(tmp_path):
    data = pyg_data(x=torch.tensor([[1.0, 5.0], [2.0, 6.0], [4.0, 9.0]]), feature_names=["u", "v"])
    torch.save(data, tmp_path / "graph.pt")
    legend = custom_graph(path=str(tmp_path / "graph.pt")).legend
    data.feature_names = ["v", "v"]
    torch.save(data, tmp_path / "graph.pt")
    with pytest.raises(InputError, match="the graph has 2 features"):
        read_graph_like(legend, num_classes=2, path=str(tmp_path / "graph.pt"))
