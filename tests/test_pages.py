"""Pages of runs and sweeps: what is drawn is read back from the file and compared with where it came from."""

import base64
import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import confusion_matrix

from lopgpn_exp.data.scenarios import bernoulli, leave_out_classes
from lopgpn_exp.data.splits import random_split
from lopgpn_exp.data.synthetic import block_model
from lopgpn_exp.evaluation import evaluate
from lopgpn_exp.evaluation.classification import expected_calibration_error
from lopgpn_exp.experiment import results as run_files
from lopgpn_exp.graph import Graph
from lopgpn_exp.posterior.categorical import Categorical
from lopgpn_exp.posterior.dirichlet import Dirichlet
from lopgpn_exp.report import names
from lopgpn_exp.report.aggregate import aggregate, aggregate_curves
from lopgpn_exp.report.pages import layout as layouts
from lopgpn_exp.report.pages import node_graph, run_page, svg, sweep_page
from lopgpn_exp.report.pages.run_charts import confusion_chart, confusion_counts

ALL = ["tu", "au", "eu", "eu_pc", "eu_so", "lconf"]


class Reader(HTMLParser):
    """Tags with their attributes, and that every element is closed in order."""

    VOID = ("meta", "br", "img", "input", "link")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def charts(page: str, kind: str) -> list[ElementTree.Element]:
    elements = [ElementTree.fromstring(text) for text in re.findall(r'<svg class="chart".*?</svg>', page, re.S)]
    return [element for element in elements if element.get("data-chart") == kind]


def in_data_units(chart: ElementTree.Element, points: np.ndarray) -> np.ndarray:
    """Pixels to values by the labels of the axes, as a reader would."""
    columns = []
    for axis, place, offset in (("xtick", "x", 0), ("ytick", "y", -4)):
        found = [t for t in chart.iter("text") if axis in t.get("class", "")]
        pixels = [float(t.get(place)) + offset for t in found]
        columns.append(np.polyfit(pixels, [float(t.text) for t in found], 1))
    return np.stack([np.polyval(fit, points[:, i]) for i, fit in enumerate(columns)], axis=1)


def lines(chart: ElementTree.Element) -> dict[str, np.ndarray]:
    """Polylines by their hover text, in the units of the data."""
    found = {}
    for line in chart.iter("polyline"):
        points = np.array([[float(c) for c in pair.split(",")] for pair in line.get("points").split()])
        found[line.find("title").text] = in_data_units(chart, points)
    return found


def graph_of(scenario: str) -> Graph:
    graph = block_model(num_nodes=300, num_edges=700, num_classes=5, num_features=8, signal=2.0, seed=3)
    graph = random_split(graph, index=0, train=0.2, val=0.2, test=0.6)
    if scenario == "leave_out_classes":
        return leave_out_classes(graph, left_out_classes=2)
    if scenario == "bernoulli":
        return bernoulli(graph, fraction=0.1, seed=0)
    return graph


def posterior_of(graph: Graph, kind: str):
    generator = torch.Generator().manual_seed(0)
    alpha = torch.rand(300, graph.num_classes, generator=generator, dtype=torch.float64) * 4 + 0.2
    hint = graph.labels.clamp(max=graph.num_classes - 1)
    alpha[torch.arange(300), hint] += 6 * torch.rand(300, generator=generator, dtype=torch.float64)
    return Dirichlet(alpha) if kind == "dirichlet" else Categorical(torch.log(alpha / alpha.sum(dim=1, keepdim=True)))


def run_of(scenario: str = "bernoulli", kind: str = "dirichlet"):
    graph = graph_of(scenario)
    evaluation = evaluate(posterior_of(graph, kind), graph)
    result = {
        "schema": 1,
        "run_id": "x",
        "model": "lop_gpn",
        "dataset": "own",
        "split": 0,
        "init": 0,
        "scenario": scenario,
        "metrics": evaluation.metrics,
        "curves": evaluation.curves,
        "epochs": 12,
        "seconds": {"load": 0.1, "prepare": 0.2, "train": 3.4, "evaluate": 0.3},
        "peak_rss_mb": 512.0,
        "versions": {"python": "3.11"},
    }
    return result, evaluation, graph


def page_of(scenario: str = "bernoulli", kind: str = "dirichlet", *, with_graph: bool = True) -> str:
    result, evaluation, graph = run_of(scenario, kind)
    shown = graph if with_graph else None
    return run_page(result, evaluation.predictions, title="a run", graph=shown, cache_dir=None)


def sweep_of(splits: int = 4, models=("gpn_rw", "lop_gpn", "mine")) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(0)
    rows, curves = [], []
    for scenario in ("none", "gaussian"):
        for number, model in enumerate(models):
            for split in range(splits):
                key = {"model": model, "dataset": "own", "scenario": scenario, "split": split, "init": 0, "run_id": "r"}
                row = key | {f"test/{m}": rng.uniform(0.1, 0.9) for m in ("accuracy", "ece", "brier", "nll")}
                if scenario != "none":
                    row |= {"id/accuracy": rng.uniform(0.7, 0.9), "ood/auroc/tu": 0.6 + 0.1 * number}
                    row["ood/auroc/eu"] = rng.uniform(0.5, 0.9)
                row |= {"epochs": 10 * (number + 1), "peak_rss_mb": 100.0 + number, "seconds/load": 0.1}
                rows.append(row | {"seconds/prepare": 0.0, "seconds/train": 2.0, "seconds/evaluate": 0.1})
                for measure in ("tu", "eu"):
                    height = np.sort(rng.uniform(0.5, 1.0, 100))
                    curves.append(pd.DataFrame({"percent": range(100), "accuracy": height, "measure": measure} | key))
    return pd.DataFrame(rows), pd.concat(curves, ignore_index=True)


@pytest.mark.parametrize("with_graph", [True, False])
@pytest.mark.parametrize("kind", ["dirichlet", "categorical"])
@pytest.mark.parametrize("scenario", ["none", "bernoulli", "leave_out_classes"])
def test_a_page_is_well_formed_and_needs_no_network(scenario, kind, with_graph):
    check_self_contained(page_of(scenario, kind, with_graph=with_graph))


def test_a_sweep_page_is_well_formed_and_needs_no_network():
    check_self_contained(sweep_page(*sweep_of(), title="a sweep"))


def check_self_contained(page: str) -> None:
    reader = Reader(page)
    assert "link" not in {tag for tag, _ in reader.tags}
    for _, attributes in reader.tags:
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith("#")
    assert not re.search(r"https?:|url\(|@import|fetch\(|XMLHttp", page)
    numbers = re.findall(r'(?:points|x|y|width|height|cx|cy|d)="([^"]*)"', page)
    assert not any("nan" in text or "inf" in text for text in numbers)


@pytest.mark.parametrize(("kind", "measures"), [("dirichlet", ALL), ("categorical", ["tu", "lconf"])])
def test_a_curve_a_measure_and_its_points_are_those_of_the_result(kind, measures):
    result, evaluation, graph = run_of("bernoulli", kind)
    page = run_page(result, evaluation.predictions, title="t", graph=graph, cache_dir=None)
    (chart,) = charts(page, "arc")
    drawn = {name.split(",")[0]: points for name, points in lines(chart).items()}
    assert list(drawn) == [names.measure_name(m) for m in measures]
    for measure in measures:
        points = drawn[names.measure_name(measure)]
        np.testing.assert_allclose(points[:, 0], np.arange(100), atol=0.05)
        np.testing.assert_allclose(points[:, 1], result["curves"][f"arc/{measure}"], atol=5e-4)
    assert len(charts(page, "distribution")) == len(measures)


def test_the_area_under_a_drawn_roc_curve_is_its_metric():
    result, evaluation, graph = run_of("leave_out_classes")
    page = run_page(result, evaluation.predictions, title="t", graph=graph, cache_dir=None)
    (chart,) = charts(page, "roc")
    drawn = lines(chart)
    assert len(drawn) == len(ALL) + 1  # and chance
    for measure in ALL:
        metric = result["metrics"][f"ood/auroc/{measure}"]
        (points,) = [p for name, p in drawn.items() if name == f"{names.measure_name(measure)}, AUC-ROC {metric:.4f}"]
        assert np.trapezoid(points[:, 1], points[:, 0]) == pytest.approx(metric, abs=1e-3)


def test_a_long_roc_curve_is_thinned_without_changing_its_area():
    from lopgpn_exp.report.pages.run_charts import _thinned

    false = np.sort(np.random.default_rng(0).random(5000))
    true = np.sort(np.random.default_rng(1).random(5000) ** 0.3)
    false[[0, -1]], true[[0, -1]] = [0, 1], [0, 1]
    few = _thinned(false, true)
    assert len(few[0]) == 300
    assert np.trapezoid(few[1], few[0]) == pytest.approx(np.trapezoid(true, false), abs=1e-3)


def test_without_ood_nodes_correct_and_wrong_predictions_are_compared():
    page = page_of("none")
    assert charts(page, "roc") == []
    assert "predicted correctly and predicted wrongly" in page
    assert "ID and OOD" in page_of("bernoulli")


def test_shares_of_a_distribution_add_up_to_one():
    for chart in charts(page_of("bernoulli"), "distribution"):
        for outline in chart.iter("polygon"):
            points = np.array([[float(c) for c in pair.split(",")] for pair in outline.get("points").split()])
            heights = in_data_units(chart, points)[1:-1:2, 1]
            assert len(heights) == 30
            assert heights.sum() == pytest.approx(1, abs=0.02)


def test_a_distribution_is_drawn_under_its_own_groups_name():
    """The OOD nodes are given the larger values: the outline named OOD lies to the right."""
    result, evaluation, graph = run_of("bernoulli")
    table = evaluation.predictions.copy()
    table["tu"] = table["is_ood"] + table["tu"].rank(pct=True)
    html = run_page(result, table, title="t", graph=graph, cache_dir=None)
    (chart,) = [chart for chart in charts(html, "distribution") if chart.get("aria-label").startswith("TU")]
    centres = {}
    for outline in chart.iter("polygon"):
        points = np.array([[float(c) for c in pair.split(",")] for pair in outline.get("points").split()])
        middle = in_data_units(chart, points)[1:-1:2]
        centres[outline.find("title").text.split()[0], outline.get("fill")] = np.average(
            middle[:, 0], weights=middle[:, 1]
        )
    (low, high) = sorted(centres, key=centres.get)
    assert (low[0], high[0]) == ("ID", "OOD")
    assert (low[1], high[1]) == ("#4477AA", "#EE6677")  # as the legend says


def test_reliability_bins_by_hand():
    result, evaluation, graph = run_of("leave_out_classes")
    page = run_page(result, evaluation.predictions, title="t", graph=graph, cache_dir=None)
    table = evaluation.predictions.query("part == 'test' and label < 3")
    pattern = r"confidence (.*) to (.*): (\d+) nodes, accuracy (.*), mean (.*)"
    (chart,) = charts(page, "bins")
    seen, gap = 0, 0.0
    for bar in chart.iter("rect"):
        low, high, count, accuracy, meant = map(float, re.match(pattern, bar.find("title").text).groups())
        inside = table[(table["confidence"] >= round(low * 15) / 15) & (table["confidence"] < round(high * 15) / 15)]
        assert len(inside) == count
        assert (inside["predicted"] == inside["label"]).mean() == pytest.approx(accuracy, abs=6e-4)
        top = np.array([[float(bar.get("x")), float(bar.get("y"))]])
        assert in_data_units(chart, top)[0] == pytest.approx([low, count], abs=0.01 + 0.006 * len(table))
        seen, gap = seen + count, gap + count * abs(accuracy - meant)
    assert seen == len(table)
    correct = (table["predicted"] == table["label"]).to_numpy()
    ece = expected_calibration_error(table["confidence"].to_numpy(), correct)
    assert gap / seen == pytest.approx(ece, abs=2e-3)
    assert ece == pytest.approx(result["metrics"]["test/ece"])


def known_nodes(scenario: str) -> tuple[str, pd.DataFrame, np.ndarray]:
    """A page, the test nodes of classes that the model knows, and whether it was right about them."""
    result, evaluation, graph = run_of(scenario)
    table = evaluation.predictions.query(f"part == 'test' and label < {graph.num_classes}")
    page = run_page(result, evaluation.predictions, title="t", graph=graph, cache_dir=None)
    return page, table, (table["predicted"] == table["label"]).to_numpy()


def test_bins_of_equal_size_are_drawn_where_they_are():
    page, table, correct = known_nodes("leave_out_classes")
    (chart,) = charts(page, "equal-mass")
    by_confidence = np.argsort(table["confidence"].to_numpy())
    parts = np.split(by_confidence, np.arange(1, 15) * len(table) // 15)
    expected = [(table["confidence"].to_numpy()[part].mean(), correct[part].mean()) for part in parts]
    dots = np.array([[float(dot.get("cx")), float(dot.get("cy"))] for dot in chart.iter("circle")])
    np.testing.assert_allclose(in_data_units(chart, dots), expected, atol=3e-3)
    error = sum(len(part) * abs(said - right) for part, (said, right) in zip(parts, expected, strict=True)) / len(table)
    assert chart.get("aria-label") == f"Bins of equal size, error {error:.4f}"


def test_the_cumulated_difference_ends_at_accuracy_minus_confidence():
    page, table, correct = known_nodes("bernoulli")
    (chart,) = charts(page, "cumulative")
    (path,) = lines(chart).values()
    gaps = (correct - table["confidence"].to_numpy())[np.argsort(table["confidence"].to_numpy())]
    expected = np.concatenate([[0], np.cumsum(gaps)]) / len(table)
    reach = np.abs(expected).max()
    np.testing.assert_allclose(path[[0, -1]], [[0, 0], [100, expected[-1]]], atol=0.02 * reach + 0.03)
    assert np.abs(path[:, 1]).max() == pytest.approx(reach, rel=0.02)
    assert f"at most {reach:.4f}, p " in chart.get("aria-label")
    assert len(list(chart.iter("polygon"))) == 1  # what a calibrated model does


def test_errors_are_drawn_by_tenths_of_each_measure():
    page, table, correct = known_nodes("leave_out_classes")
    (chart,) = charts(page, "errors")
    drawn = {name.split(",")[0]: points for name, points in lines(chart).items()}
    assert list(drawn) == [names.measure_name(m) for m in ALL]
    for measure in ALL:
        parts = np.split(np.argsort(table[measure].to_numpy()), np.arange(1, 10) * len(table) // 10)
        expected = [1 - correct[part].mean() for part in parts]
        np.testing.assert_allclose(drawn[names.measure_name(measure)][:, 1], expected, atol=5e-3)


def test_the_table_of_measures_tells_risk_and_coverage():
    page, table, correct = known_nodes("none")
    for measure in ALL:
        wrong = ~correct[np.argsort(table[measure].to_numpy())]
        risks = np.cumsum(wrong) / np.arange(1, len(wrong) + 1)
        kept = int(np.ceil(0.8 * len(wrong)))
        allowed = max((k for k in range(1, len(wrong) + 1) if risks[k - 1] <= 0.05), default=0)
        cells = [f"{risks.mean():.4f}", f"{100 * risks[kept - 1]:.1f} %", f"{100 * allowed / len(wrong):.1f} %"]
        row = "".join(f'<td class="number">{cell}</td>' for cell in cells)
        assert re.search(rf"<tr><td>{names.measure_name(measure)}</td>.*{re.escape(row)}</tr>", page)


@pytest.mark.parametrize("with_graph", [True, False])
@pytest.mark.parametrize("scenario", ["none", "leave_out_classes"])
def test_confusion_counts_are_those_of_scikit_learn(scenario, with_graph):
    _, evaluation, _ = run_of(scenario)
    test = evaluation.predictions.query("part == 'test'")
    expected = confusion_matrix(test["label"], test["predicted"], labels=range(5))
    page = page_of(scenario, with_graph=with_graph)
    (chart,) = charts(page, "confusion")
    drawn = np.zeros((5, 5), dtype=int)
    for cell in chart.iter("rect"):
        row, column, count = re.match(r"class (\d+) predicted as (\d+): (\d+) nodes", cell.find("title").text).groups()
        drawn[int(row), int(column)] = int(count)
    assert np.array_equal(drawn, expected)
    columns = [t for t in chart.iter("text") if "xtick" in t.get("class", "")]
    assert len(columns) == (3 if scenario == "leave_out_classes" else 5)
    assert ("left-out classes: the model does not know" in page) == (scenario == "leave_out_classes")


def test_a_confusion_matrix_of_forty_classes_fits_and_one_of_hundreds_is_left_out():
    labels = np.arange(4000) % 40
    chart = ElementTree.fromstring(confusion_chart(confusion_counts(labels, labels * 7 % 40, 40)))
    assert float(chart.get("width")) < 1000
    sizes = [float(t.get("style").split(":")[1].removesuffix("px")) for t in chart.iter("text") if t.get("style")]
    assert len(sizes) == 40
    assert min(sizes) > 6
    result, evaluation, _ = run_of("none")
    wide = evaluation.predictions.assign(predicted=lambda t: t["predicted"] + 200)
    page = run_page(result, wide, title="t", graph=None, cache_dir=None)
    assert "confusion matrix of 205 classes is left out" in page


def test_what_training_reported_is_drawn_where_it_reported_anything():
    result, evaluation, _ = run_of("none")
    loss = [[epoch, 3.0 / (epoch + 1)] for epoch in range(6, 90)]
    options = {"title": "t", "graph": None, "cache_dir": None}
    page = run_page(result | {"history": {"training/loss": loss}}, evaluation.predictions, **options)
    (chart,) = charts(page, "history")
    (points,) = lines(chart).values()
    np.testing.assert_allclose(points, loss, atol=0.2)
    np.testing.assert_allclose(points[:, 1], [value for _, value in loss], atol=2e-3)
    assert charts(run_page(result | {"history": {}}, evaluation.predictions, **options), "history") == []


def test_texts_from_outside_stay_texts():
    hostile = "<script>alert('x')</script>\"&"
    result, evaluation, graph = run_of()
    result |= {"model": hostile, "dataset": hostile, "versions": {hostile: hostile}, "scenario": hostile}
    page = run_page(result, evaluation.predictions, title=hostile, graph=graph, cache_dir=None)
    results, curves = sweep_of(models=(hostile, "lop_gpn"))
    for text in (page, sweep_page(results.assign(dataset=hostile), curves.assign(dataset=hostile), title=hostile)):
        assert "<script>alert" not in text
        assert "&lt;script&gt;alert" in text
        check_self_contained(text)


def test_the_most_uncertain_nodes_come_first():
    _, evaluation, _ = run_of("none")
    expected = evaluation.predictions.query("part == 'test'").nlargest(10, "eu")["node"].tolist()
    section = page_of("none").split("Most uncertain test nodes by EU")[1]
    assert [int(n) for n in re.findall(r'<tr><td class="number">(\d+)</td>', section)] == expected
    assert "Most uncertain test nodes by TU" in page_of("none", "categorical")


def decoded(page: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" class="data">(.*?)</script>', page, re.S).group(1))


def array(text: str, dtype: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), dtype)


def test_the_page_carries_the_graph_and_what_is_known_of_its_nodes():
    _, evaluation, graph = run_of("leave_out_classes")
    table = evaluation.predictions
    data = decoded(page_of("leave_out_classes"))
    edges = array(data["edges"], "<u2").reshape(-1, 2)
    assert {tuple(e) for e in edges.tolist()} == {(a, b) for a, b in graph.edge_index.T.tolist() if a < b}
    kind = array(data["kind"], "u1")
    assert np.array_equal(kind & 1 > 0, table["part"] == "test")
    assert np.array_equal(kind & 2 > 0, table["part"] == "train")
    assert np.array_equal(kind & 4 > 0, table["is_ood"])
    wrong = (table["part"] == "test") & (table["label"] < 3) & (table["label"] != table["predicted"])
    assert np.array_equal(kind & 8 > 0, wrong)
    assert np.array_equal(array(data["predicted"], "<i2"), table["predicted"])
    assert list(data["measures"]) == ALL
    for measure in ALL:
        np.testing.assert_allclose(array(data["measures"][measure]["values"], "<f4"), table[measure], rtol=1e-6)
    positions = array(data["positions"], "<u2").reshape(-1, 2) / 65535
    np.testing.assert_allclose(positions, layouts.layout(graph, cache_dir=None), atol=1e-5)


def test_the_panels_show_what_the_posterior_has():
    chosen = r'<option value="(\w+)" selected>'
    assert re.findall(chosen, page_of("none")) == ["au", "eu"]
    assert re.findall(chosen, page_of("none", "categorical")) == ["tu", "lconf"]


@pytest.mark.parametrize(("limit", "value"), [("MOST_NODES", 299), ("MOST_EDGES", 600)])
def test_a_large_graph_is_not_laid_out_and_the_page_says_so(monkeypatch, limit, value):
    monkeypatch.setattr(node_graph, limit, value)
    monkeypatch.setattr(node_graph, "layout", lambda *_, **__: pytest.fail("laid out"))
    page = page_of("none")
    assert "The graph is not drawn: it has 300 nodes" in page
    assert "<canvas" not in page
    assert "without it" in page_of("none", with_graph=False)


def test_a_layout_is_computed_once_for_the_same_edges(tmp_path, monkeypatch):
    graph = graph_of("none")
    first = layouts.layout(graph, cache_dir=tmp_path)
    assert np.array_equal(first, layouts.layout(graph, cache_dir=None))
    monkeypatch.setattr(layouts, "_compute", lambda _: pytest.fail("computed again"))
    again = layouts.layout(graph.replace(features=graph.features + 1), cache_dir=tmp_path)
    assert np.array_equal(first, again)
    assert first.min() >= 0
    assert first.max() == 1


def test_neighbours_lie_close_and_components_apart(build_graph):
    """Two cliques and a single node: each in a place of its own."""
    cliques = [(a + shift, b + shift) for shift in (0, 8) for a in range(8) for b in range(a)]
    graph = build_graph(cliques, [[0.0]] * 17, [0, 1] * 8 + [0])
    positions = layouts.layout(graph, cache_dir=None)
    boxes = [positions[:8], positions[8:16], positions[16:]]
    for i, box in enumerate(boxes):
        for other in boxes[i + 1 :]:
            apart = (box.max(axis=0) < other.min(axis=0)) | (other.max(axis=0) < box.min(axis=0))
            assert apart.any()


def test_a_graph_without_edges_can_be_drawn(build_graph):
    positions = layouts.layout(build_graph([], [[0.0]] * 30, [0, 1] * 15), cache_dir=None)
    assert len(np.unique(positions.round(6), axis=0)) == 30


@pytest.mark.parametrize("sides", [[5, 1, 1, 1], [3, 3, 3, 2, 2, 1], [10] + [1] * 40, [4.0] * 7])
def test_packed_squares_do_not_overlap(sides):
    sides = np.array(sides, dtype=float)
    corners = layouts._packed(sides)
    for i in range(len(sides)):
        for j in range(i):
            apart = (corners[i] + sides[i] <= corners[j] + 1e-9) | (corners[j] + sides[j] <= corners[i] + 1e-9)
            assert apart.any(), (i, j)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.83, 0.991), (-412000, -3), (1e-7, 3e-7), (0, 99)])
def test_ticks_are_few_round_and_inside(low, high):
    found = svg.ticks(low, high)
    assert 2 <= len(found) <= 6
    assert found[0] >= low - 1e-9 * abs(low)
    assert found[-1] <= high + 1e-9 * abs(high)
    assert len(set(np.diff(found).round(12))) == 1


def test_equal_values_still_have_an_axis():
    for value in (0.0, 1.0, -3.0):
        low, high = svg.span([value, value])
        assert low < value < high
    result, evaluation, graph = run_of("none")
    flat = evaluation.predictions.assign(au=0.0)
    check_self_contained(run_page(result, flat, title="t", graph=graph, cache_dir=None))


def test_a_sweep_draws_the_means_of_each_model_and_measure():
    results, curves = sweep_of()
    page = sweep_page(results, curves, title="t")
    means = aggregate_curves(curves).set_index(["scenario", "model", "measure"])
    drawn = charts(page, "mean-arc")
    assert len(drawn) == 2
    for chart, measure in zip(drawn, ["tu", "eu"], strict=True):
        assert len(list(chart.iter("polygon"))) == 3  # bands
        found = lines(chart)
        assert list(found) == ["GPN (rw)", "LOP-GPN", "mine"]
        for model, points in zip(["gpn_rw", "lop_gpn", "mine"], found.values(), strict=True):
            np.testing.assert_allclose(points[:, 1], means.loc[("none", model, measure), "mean"], atol=2e-3)


def test_a_sweep_draws_means_and_intervals_of_detection():
    results, curves = sweep_of()
    (chart,) = charts(sweep_page(results, curves, title="t"), "auroc")
    table = aggregate(results).query("scenario == 'gaussian'").set_index(["metric", "model"])
    dots = list(chart.iter("circle"))
    assert len(dots) == 2 * 3
    wanted = [table.loc[(f"ood/auroc/{m}", model)] for m in ("tu", "eu") for model in ("gpn_rw", "lop_gpn", "mine")]
    heights = [t for t in chart.iter("text") if "ytick" in t.get("class", "")]
    fit = np.polyfit([float(t.get("y")) - 4 for t in heights], [float(t.text) for t in heights], 1)
    for dot, row in zip(dots, wanted, strict=True):
        assert np.polyval(fit, float(dot.get("cy"))) == pytest.approx(row["mean"], abs=2e-3)
        assert f"{row['low']:.4f} to {row['high']:.4f}" in dot.find("title").text


def test_the_table_of_a_sweep_marks_the_best():
    results, curves = sweep_of()
    results["test/ece"] = results["model"].map({"gpn_rw": 0.3, "lop_gpn": 0.1, "mine": 0.2})
    results["test/ece"] += 0.001 * results["split"]
    page = sweep_page(results, curves, title="t")
    (row,) = re.findall(r"<tr><th[^>]*>clean</th><th[^>]*>LOP-GPN</th>.*?</tr>", page)
    assert "<strong>0.102 ± 0.001</strong>" in row
    assert ">0.202 ± 0.001</td>" in page  # neither best nor tied


@pytest.mark.parametrize("splits", [1, 2])
def test_a_sweep_of_few_splits_or_of_one_scenario_has_its_page(splits):
    results, curves = sweep_of(splits)
    page = sweep_page(results, curves, title="t")
    check_self_contained(page)
    assert ("±" in page.split("<tbody>")[1].split("</tbody>")[0]) == (splits > 1)
    for scenario, missing in (("none", "makes nodes out-of-distribution"), ("gaussian", "No clean run")):
        only = [table[table["scenario"] == scenario] for table in (results, curves)]
        alone = sweep_page(*only, title="t")
        check_self_contained(alone)
        assert missing in alone


def test_a_sweep_without_results_says_so():
    results, curves = sweep_of()
    assert "No run of this sweep has finished" in sweep_page(results[:0], curves[:0], title="t")


def test_own_models_and_measures_have_a_name_and_a_lasting_colour():
    assert names.model_name("mine") == "mine"
    assert names.measure_name("mine") == "mine"
    assert names.model_color("lop_gpn") == names.MODEL_COLORS["lop_gpn"]
    assert names.measure_color("tu") == names.MEASURE_COLORS["tu"]
    assert names.model_color("mine") == names.measure_color("mine") == "#BBBBBB"
    together = names.model_colors(["lop_gpn", *(f"lop_gpn teleport 0.{i}" for i in range(6))])
    assert together["lop_gpn"] == names.MODEL_COLORS["lop_gpn"]
    assert len(set(together.values())) == 7
    assert len(names.model_colors(map(str, range(20)))) == 20  # more models than colours are no error
    assert not set(names.OTHER_COLORS) & {*names.MODEL_COLORS.values(), *names.MEASURE_COLORS.values()}


def test_a_page_that_cannot_be_drawn_costs_no_run(tmp_path, monkeypatch, caplog):
    def broken(*_, **__):
        raise ValueError("<no> pen")

    monkeypatch.setattr("lopgpn_exp.report.pages.run_page", broken)
    result, evaluation, graph = run_of()
    folder = tmp_path / "run"
    run_files.write_run(
        folder, result=result, evaluation=evaluation, config={}, title="a run", checkpoint=None, graph=graph
    )
    assert run_files.is_complete(folder)
    assert "could not be drawn" in caplog.text
    page = (folder / "page.html").read_text()
    assert "could not be drawn" in page
    assert "ValueError: &lt;no&gt; pen" in page


def test_a_run_writes_its_page(tmp_path):
    result, evaluation, graph = run_of()
    options = {"result": result, "evaluation": evaluation, "config": {}, "title": "a run", "checkpoint": None}
    run_files.write_run(tmp_path / "run", **options, graph=graph, cache_dir=tmp_path / "cache")
    page = (tmp_path / "run" / "page.html").read_text()
    assert page == run_page(result, evaluation.predictions, title="a run", graph=graph, cache_dir=None)
    assert len(list((tmp_path / "cache").glob("layout-*.npz"))) == 1
