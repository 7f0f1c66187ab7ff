"""The description of a graph and its warnings."""

import numpy as np
import pytest
import torch

from lopgpn_exp.data.files import custom_graph
from lopgpn_exp.data.files.survey import describe_graph, find_warnings, homophily
from lopgpn_exp.graph import Legend
from tests.support.graph_files import pyg_data, read_csv, write_csv


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


def test_the_description_says_which_scaling_was_chosen(folder):
    text = describe_graph(read_csv(folder), source="nodes.csv")
    assert "  Features are dense (0% zeros): using scaling=standard. Set dataset.scaling=rows to override." in text
    assert "using scaling" not in describe_graph(read_csv(folder, scaling="rows"), source="nodes.csv")


def test_sparse_features_have_the_warnings_of_dense_ones(build_graph):
    features = torch.zeros(40, 8)
    features[:, 0], features[torch.arange(30), torch.arange(30) % 5 + 2] = 1.0, 2.0  # column 1 and row 39 are special
    features[39] = 0
    dense = build_graph([(0, 1)], features.tolist(), [k % 2 for k in range(40)])
    dense = dense.replace(legend=Legend(np.arange(40), ("0", "1"), tuple("abcdefgh"), "rows"))
    warnings = list(find_warnings(dense))
    assert list(find_warnings(dense.replace(features=features.to_sparse_csr()))) == warnings
    assert "2 feature columns are constant" in warnings
    assert "1 nodes have only zeros as features, which cannot be scaled to sum 1 and stay zero" in warnings


def find_questions(graph) -> list[str]:
    return [warning for warning in find_warnings(graph) if "Does it mean that their class is unknown?" in warning]


@pytest.mark.parametrize("word", ["-1", "?", "NA", "n/a", "None", "unknown", "-", ".", "nan", "-1.0", "#N/A"])
def test_a_label_that_may_mean_unknown_is_a_class_and_a_question(folder, word):
    labels = ["0", "1", word, "", word] if word == "-1.0" else ["red", "blue", word, "", word]
    rows = "".join(f"n{row},{label},{row}\n" for row, label in enumerate(labels))
    write_csv(folder, "id,label,x\n" + rows, "source,target\nn1,n2\n")
    graph = read_csv(folder)
    assert graph.num_classes == 3
    assert int((graph.labels < 0).sum()) == 1
    (question,) = find_questions(graph)
    assert question.startswith(f"2 nodes have the label {word.removesuffix('.0')!r}")
    assert "(a blank cell instead of" in question
    assert question in describe_graph(graph, source="nodes.csv")


def test_minus_one_beside_one_are_the_usual_names_of_two_classes(folder):
    write_csv(folder, "id,label,x\na,-1,1\nb,1,2\nc,-1,3\n", "source,target\na,b\n")
    assert find_questions(read_csv(folder)) == []


def test_the_question_about_a_torch_file_advises_minus_one(tmp_path):
    data = pyg_data(y=torch.tensor([0, 1, 2]), class_names=["red", "blue", "unknown"])
    torch.save(data, tmp_path / "graph.pt")
    (question,) = find_questions(custom_graph(path=str(tmp_path / "graph.pt")))
    assert "(-1 instead of 'unknown')" in question


def test_names_of_classes_cannot_steer_the_terminal_or_fill_it(folder):
    write_csv(folder, f'id,label,x\na,\x1b[2Jred,1\nb,"two\nlines",2\nc,{"l" * 900},3\n', "source,target\na,b\n")
    text = describe_graph(read_csv(folder), source="nodes.csv")
    assert "\x1b" not in text
    assert "two lines" in text
    assert max(map(len, text.splitlines())) < 300
