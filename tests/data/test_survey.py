"""The description of a graph and its warnings."""

import pytest
import torch

from lopgpn_exp.data.files.survey import describe_graph, find_warnings, homophily
from tests.support.graph_files import read_csv, write_csv


def test_homophily_of_a_small_graph(build_graph):
    graph = build_graph([(0, 1), (1, 2), (2, 3)], [[1.0]] * 4, [0, 0, 1, -1])
    share, expected_share = homophily(graph)
    assert share == 0.5  # one of the two edges between labelled nodes
    assert expected_share == pytest.approx((2 / 3) ** 2 + (1 / 3) ** 2)


def test_the_description_counts_nodes_classes_and_components(folder):
    text = describe_graph(read_csv(folder), source="nodes.csv", notes=["something"])
    assert "4 nodes, 2 undirected edges" in text
    assert "2 classes: red 2 (67%), blue 1 (33%); 1 nodes without a label" in text
    assert "2 connected components, the largest with 2 nodes; 0 isolated nodes" in text
    assert "split provided with the data: 1 train, 1 val, 1 test" in text
    assert "note: something" in text


def test_each_problem_has_a_warning_and_a_good_graph_has_none(build_graph):
    edges = [(k, k + 1) for k in range(40)]
    graph = build_graph(edges, [[float(k), 1.0] for k in range(44)], [k % 2 for k in range(41)] + [2, -1, -1])
    warnings = "\n".join(find_warnings(graph))
    assert "1 classes have fewer than 10 labelled nodes: 2 (1)" in warnings
    assert "only 0% of edges" in warnings  # every edge joins 0 and 1
    assert "2 nodes have no labelled node in their connected component" in warnings
    assert "1 feature columns are constant" in warnings
    split = graph.replace(official_part=torch.ones(44, dtype=torch.int8).scatter(0, torch.tensor([41]), 3))
    assert "classes without a training node, which can never be predicted: 2" in "\n".join(find_warnings(split))
    isolated = build_graph([], [[0.0], [1.0]], [0, 1])
    assert "there are no edges" in "\n".join(find_warnings(isolated))
    good = build_graph([(0, 2), (1, 3)], [[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1])
    assert [warning for warning in find_warnings(good) if "fewer than" not in warning] == []


def test_counts_are_recognised_unless_rows_are_scaled(folder):
    rows = "".join(f"n{k},{'ab'[k % 2]},{int(k % 5 == 0)},{int(k % 7 == 0)}\n" for k in range(40))
    write_csv(folder, "id,label,x,y\n" + rows, "source,target\nn1,n3\n")
    assert any("scaling 'rows'" in warning for warning in find_warnings(read_csv(folder)))
    assert not any("scaling 'rows'" in warning for warning in find_warnings(read_csv(folder, scaling="rows")))
