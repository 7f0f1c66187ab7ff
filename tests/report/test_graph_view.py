"""The drawing of a graph: the data that the page contains, and the layout."""

import base64
import json
import re

import numpy as np
import pytest

from lopgpn_exp.report.graph_view import compute_layout, layout, node_graph
from tests.support.report_data import ALL_MEASURES, example_graph, example_run


def decode(text: str, dtype: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), dtype)


def test_page_contains_the_graph_and_the_values_of_its_nodes():
    run = example_run("leave_out_classes")
    table = run.evaluation.predictions
    pattern = r'<script type="application/json" class="data">(.*?)</script>'
    data = json.loads(re.search(pattern, run.page(), re.S).group(1))
    edges = decode(data["edges"], "<u2").reshape(-1, 2)
    assert {tuple(e) for e in edges.tolist()} == {(a, b) for a, b in run.graph.edge_index.T.tolist() if a < b}
    kind = decode(data["kind"], "u1")
    assert np.array_equal(kind & 1 > 0, table["part"] == "test")
    assert np.array_equal(kind & 2 > 0, table["part"] == "train")
    assert np.array_equal(kind & 4 > 0, table["is_ood"])
    wrong = (table["part"] == "test") & (table["label"] < 3) & (table["label"] != table["predicted"])
    assert np.array_equal(kind & 8 > 0, wrong)
    assert np.array_equal(decode(data["predicted"], "<i2"), table["predicted"])
    assert list(data["measures"]) == ALL_MEASURES
    for measure in ALL_MEASURES:
        np.testing.assert_allclose(decode(data["measures"][measure]["values"], "<f4"), table[measure], rtol=1e-6)
    positions = decode(data["positions"], "<u2").reshape(-1, 2) / 65535
    np.testing.assert_allclose(positions, compute_layout(run.graph, cache_dir=None), atol=1e-5)


def test_panels_start_with_measures_that_the_posterior_has():
    selected = r'<option value="(\w+)" selected>'
    assert re.findall(selected, example_run("none").page()) == ["au", "eu"]
    assert re.findall(selected, example_run("none", "categorical").page()) == ["tu", "lconf"]


@pytest.mark.parametrize(("limit", "value"), [("MAX_NODES", 299), ("MAX_EDGES", 600)])
def test_large_graph_is_not_laid_out_and_the_page_says_so(monkeypatch, limit, value):
    monkeypatch.setattr(node_graph, limit, value)
    monkeypatch.setattr(node_graph, "compute_layout", lambda *_, **__: pytest.fail("laid out"))
    page = example_run("none").page()
    assert "The graph is not drawn: it has 300 nodes" in page
    assert "<canvas" not in page


def test_layout_is_computed_once_for_the_same_edges(tmp_path, monkeypatch):
    graph = example_graph("none")
    first = compute_layout(graph, cache_dir=tmp_path)
    assert np.array_equal(first, compute_layout(graph, cache_dir=None))
    monkeypatch.setattr(layout, "_arrange_components", lambda _: pytest.fail("computed again"))
    cached = compute_layout(graph.replace(features=graph.features + 1), cache_dir=tmp_path)
    assert np.array_equal(first, cached)
    assert first.min() >= 0
    assert first.max() == 1


def test_components_do_not_overlap(build_graph):
    """Two cliques and a single node: each in its own area."""
    cliques = [(a + shift, b + shift) for shift in (0, 8) for a in range(8) for b in range(a)]
    graph = build_graph(cliques, [[0.0]] * 17, [0, 1] * 8 + [0])
    positions = compute_layout(graph, cache_dir=None)
    boxes = [positions[:8], positions[8:16], positions[16:]]
    for i, box in enumerate(boxes):
        for other in boxes[i + 1 :]:
            is_separate = (box.max(axis=0) < other.min(axis=0)) | (other.max(axis=0) < box.min(axis=0))
            assert is_separate.any()


def test_graph_without_edges_has_a_layout(build_graph):
    positions = compute_layout(build_graph([], [[0.0]] * 30, [0, 1] * 15), cache_dir=None)
    assert len(np.unique(positions.round(6), axis=0)) == 30


@pytest.mark.parametrize("sides", [[5, 1, 1, 1], [3, 3, 3, 2, 2, 1], [10] + [1] * 40, [4.0] * 7])
def test_packed_squares_do_not_overlap(sides):
    sides = np.array(sides, dtype=float)
    corners = layout._pack_squares(sides)
    for i in range(len(sides)):
        for j in range(i):
            is_separate = (corners[i] + sides[i] <= corners[j] + 1e-9) | (corners[j] + sides[j] <= corners[i] + 1e-9)
            assert is_separate.any(), (i, j)
