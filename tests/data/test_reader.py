"""Reading a user's graph: finding the files, names in fingerprints, changed versions of a graph."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from lopgpn_exp.data.files import custom_graph, read_graph_like
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Legend
from tests.support.graph_files import EDGES, NODES, expect_error, pyg_data, read_csv, write_csv


def test_a_folder_stands_for_its_two_tables(folder):
    assert custom_graph(path=str(folder)).fingerprint == read_csv(folder).fingerprint
    (folder / "nodes.parquet").write_bytes(b"")
    expect_error("more than one table of nodes", path=str(folder))


def test_invalid_paths_are_errors_that_name_the_parameter(folder):
    nodes, edges = str(folder / "nodes.csv"), str(folder / "edges.csv")
    assert expect_error("path is not set", path=None).parameter == "path"
    error = expect_error("there is no file", path=str(folder / "absent.csv"), edges=edges)
    assert (error.parameter, error.suggestion) == ("path", "FILE")
    error = expect_error("there is no file", path=nodes, edges=str(folder / "absent.csv"))
    assert (error.parameter, error.suggestion) == ("edges", "FILE")
    error = expect_error("there is no table of edges", path=nodes)
    assert (error.parameter, error.suggestion) == ("edges", "edges.csv")
    (folder / "nodes.xlsx").touch()
    expect_error("an unsupported file type", path=str(folder / "nodes.xlsx"))
    expect_error("cannot be read", path="n" * 300 + ".csv")
    torch.save(pyg_data(), folder / "graph.pt")
    expect_error("nothing: ", path=str(folder / "graph.pt"), edges=edges)


@pytest.mark.parametrize("change", [{"classes": ("a", "c")}, {"features": ("y",)}, {"nodes": np.array([1, 3])}])
def test_every_name_is_part_of_the_fingerprint(build_graph, change):
    legend = Legend(nodes=np.array([1, 2]), classes=("a", "b"), features=("x",))
    graph = build_graph([(0, 1)], [[1.0], [2.0]], [0, 1]).replace(legend=legend)
    assert graph.replace(legend=replace(legend, **change)).fingerprint != graph.fingerprint


def test_renamed_nodes_and_a_missing_legend_change_the_fingerprint(folder):
    before = read_csv(folder).fingerprint
    write_csv(folder, NODES.replace("ann", "eve"), EDGES.replace("ann", "eve"))
    assert read_csv(folder).fingerprint != before
    unnamed = read_csv(folder).replace(legend=None)
    assert unnamed.fingerprint != before


def test_a_changed_version_is_read_on_the_scale_of_the_first(folder):
    first = read_csv(folder)
    nodes = "height,id,shoe,age,label\n10.5,007,x,1,red\n99,new,y,6,green\n"
    write_csv(folder, nodes, "source,target\nnew,007\n")
    second, notes = read_graph_like(first.legend, num_classes=2, path=str(folder))
    assert second.legend.nodes.tolist() == ["007", "new"]
    assert torch.equal(second.features[0], first.features[0])  # columns matched by name, scale unchanged
    assert second.features[1, 0] == first.features[3, 0]
    assert second.labels.tolist() == [1, -1]
    assert any("green" in note for note in notes)
    assert any("shoe" in note for note in notes)


def test_a_changed_version_without_a_feature_column_is_an_error(folder):
    legend = read_csv(folder).legend
    (folder / "nodes.csv").write_text("id,age\n007,1\nann,2\nbob,3\n7,4\n")
    with pytest.raises(InputError, match="there is no column 'height'"):
        read_graph_like(legend, num_classes=2, path=str(folder))


def test_left_out_classes_of_a_changed_version_are_out_of_distribution(folder):
    graph, _ = read_graph_like(read_csv(folder).legend, num_classes=1 + 1, path=str(folder))
    assert not graph.is_ood.any()
    legend = read_csv(folder).legend
    (folder / "nodes.csv").write_text(NODES.replace("ann,,", "ann,zebra,"))
    larger_legend = custom_graph(path=str(folder)).legend
    assert larger_legend.classes == (*legend.classes, "zebra")
    graph, _ = read_graph_like(larger_legend, num_classes=2, path=str(folder))
    assert graph.is_ood.tolist() == [False, True, False, False]
