"""The page of a run: what its charts and tables show equals the result and predictions that it was made from."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import confusion_matrix

from lopgpn_exp.evaluation.evaluate import evaluate
from lopgpn_exp.evaluation.metrics import expected_calibration_error
from lopgpn_exp.posterior import RefinedPosterior
from lopgpn_exp.report.names import measure_name
from tests.support.html_pages import charts, check_self_contained, in_data_units, lines
from tests.support.report_data import ALL_MEASURES, ExampleRun, example_posterior, example_run


def points_of(element) -> np.ndarray:
    return np.array([[float(c) for c in pair.split(",")] for pair in element.get("points").split()])


def scored_nodes(scenario: str) -> tuple[str, pd.DataFrame, np.ndarray]:
    """A page, the test nodes of classes that the model knows, and whether they are predicted correctly."""
    run = example_run(scenario)
    table = run.evaluation.predictions.query(f"part == 'test' and label < {run.graph.num_classes}")
    return run.page(), table, (table["predicted"] == table["label"]).to_numpy()


@pytest.mark.parametrize("kind", ["dirichlet", "categorical"])
@pytest.mark.parametrize("scenario", ["none", "bernoulli", "leave_out_classes"])
def test_page_is_well_formed_and_needs_no_network(scenario, kind):
    check_self_contained(example_run(scenario, kind).page())


def test_page_of_a_run_whose_test_nodes_are_all_ood_compares_correct_and_wrong_predictions():
    run = example_run("none")
    page = run.page(predictions=run.evaluation.predictions.assign(is_ood=True))
    check_self_contained(page)
    assert not charts(page, "roc")
    assert "predicted correctly and predicted wrongly" in page


@pytest.mark.parametrize(("kind", "measures"), [("dirichlet", ALL_MEASURES), ("categorical", ["tu", "lconf"])])
def test_rejection_chart_has_one_curve_per_measure_with_the_points_of_the_result(kind, measures):
    run = example_run("bernoulli", kind)
    page = run.page()
    (chart,) = charts(page, "arc")
    drawn = {name.split(",")[0]: points for name, points in lines(chart).items()}
    assert list(drawn) == [measure_name(measure) for measure in measures]
    for measure in measures:
        points = drawn[measure_name(measure)]
        np.testing.assert_allclose(points[:, 0], np.arange(100), atol=0.05)
        np.testing.assert_allclose(points[:, 1], run.result.curves[f"arc/{measure}"], atol=5e-4)
    assert len(charts(page, "distribution")) == len(measures)


@pytest.mark.parametrize("scenario", ["none", "bernoulli"])
def test_measure_of_a_users_posterior_is_shown_wherever_the_others_are(scenario):
    run = example_run(scenario, "vacuity")
    page = run.page()
    expected = [*map(measure_name, ALL_MEASURES), "vacuity"]
    for kind in ("arc", "errors"):
        (chart,) = charts(page, kind)
        assert [name.split(",")[0] for name in lines(chart)] == expected
    assert len(charts(page, "distribution")) == 7
    assert [name.split(",")[0] for chart in charts(page, "roc") for name in lines(chart)][1:] == (
        expected if scenario == "bernoulli" else []
    )
    assert re.search(rf'<td>vacuity</td><td class="number">{run.result.metrics["test/auarc/vacuity"]:.4f}</td>', page)
    assert '<option value="vacuity">vacuity</option>' in page


def test_area_under_a_drawn_roc_curve_is_its_metric():
    run = example_run("leave_out_classes")
    (chart,) = charts(run.page(), "roc")
    drawn = lines(chart)
    assert len(drawn) == len(ALL_MEASURES) + 1  # and chance
    for measure in ALL_MEASURES:
        metric = run.result.metrics[f"ood/auroc/{measure}"]
        (points,) = [p for name, p in drawn.items() if name == f"{measure_name(measure)}, AUC-ROC {metric:.4f}"]
        assert np.trapezoid(points[:, 1], points[:, 0]) == pytest.approx(metric, abs=1e-3)


def test_without_ood_nodes_correct_and_wrong_predictions_are_compared():
    page = example_run("none").page()
    assert charts(page, "roc") == []
    assert "predicted correctly and predicted wrongly" in page
    assert "ID and OOD" in example_run("bernoulli").page()


def test_shares_of_a_distribution_sum_to_one():
    for chart in charts(example_run("bernoulli").page(), "distribution"):
        for outline in chart.iter("polygon"):
            heights = in_data_units(chart, points_of(outline))[1:-1:2, 1]
            assert len(heights) == 30
            assert heights.sum() == pytest.approx(1, abs=0.02)


def test_distributions_are_drawn_under_the_name_of_their_group():
    """The OOD nodes get the larger values, so that the outline named OOD lies to the right."""
    run = example_run("bernoulli")
    table = run.evaluation.predictions.copy()
    table["tu"] = table["is_ood"] + table["tu"].rank(pct=True)
    page = run.page(predictions=table)
    (chart,) = [chart for chart in charts(page, "distribution") if chart.get("aria-label").startswith("TU")]
    centres = {}
    for outline in chart.iter("polygon"):
        steps = in_data_units(chart, points_of(outline))[1:-1:2]
        group = outline.find("title").text.split()[0]
        centres[group, outline.get("fill")] = np.average(steps[:, 0], weights=steps[:, 1])
    (low, high) = sorted(centres, key=centres.get)
    assert (low[0], high[0]) == ("ID", "OOD")
    assert (low[1], high[1]) == ("#4477AA", "#EE6677")  # the colours of the legend


def test_reliability_bins_are_those_counted_by_hand():
    run = example_run("leave_out_classes")
    page = run.page()
    table = run.evaluation.predictions.query("part == 'test' and label < 3")
    pattern = r"confidence (.*) to (.*): (\d+) nodes, accuracy (.*), mean (.*)"
    (chart,) = charts(page, "bins")
    total, gap = 0, 0.0
    for bar in chart.iter("rect"):
        low, high, count, accuracy, mean = map(float, re.match(pattern, bar.find("title").text).groups())
        inside = table[(table["confidence"] >= round(low * 15) / 15) & (table["confidence"] < round(high * 15) / 15)]
        assert len(inside) == count
        assert (inside["predicted"] == inside["label"]).mean() == pytest.approx(accuracy, abs=6e-4)
        top = np.array([[float(bar.get("x")), float(bar.get("y"))]])
        assert in_data_units(chart, top)[0] == pytest.approx([low, count], abs=0.01 + 0.006 * len(table))
        total, gap = total + count, gap + count * abs(accuracy - mean)
    assert total == len(table)
    correct = (table["predicted"] == table["label"]).to_numpy()
    ece = expected_calibration_error(table["confidence"].to_numpy(), correct)
    assert gap / total == pytest.approx(ece, abs=2e-3)
    assert ece == pytest.approx(run.result.metrics["test/ece"])


def test_bins_of_equal_size_are_drawn_at_their_confidence_and_accuracy():
    page, table, correct = scored_nodes("leave_out_classes")
    (chart,) = charts(page, "equal-mass")
    confidence = table["confidence"].to_numpy()
    bins = np.split(np.argsort(confidence), np.arange(1, 15) * len(table) // 15)
    expected = [(confidence[nodes].mean(), correct[nodes].mean()) for nodes in bins]
    dots = np.array([[float(dot.get("cx")), float(dot.get("cy"))] for dot in chart.iter("circle")])
    np.testing.assert_allclose(in_data_units(chart, dots), expected, atol=3e-3)
    gaps = (len(nodes) * abs(mean - rate) for nodes, (mean, rate) in zip(bins, expected, strict=True))
    assert chart.get("aria-label") == f"Bins of equal size, error {sum(gaps) / len(table):.4f}"


def test_cumulative_gap_ends_at_accuracy_minus_confidence():
    page, table, correct = scored_nodes("bernoulli")
    (chart,) = charts(page, "cumulative")
    (path,) = lines(chart).values()
    gaps = (correct - table["confidence"].to_numpy())[np.argsort(table["confidence"].to_numpy())]
    expected = np.concatenate([[0], np.cumsum(gaps)]) / len(table)
    largest = np.abs(expected).max()
    np.testing.assert_allclose(path[[0, -1]], [[0, 0], [100, expected[-1]]], atol=0.02 * largest + 0.03)
    assert np.abs(path[:, 1]).max() == pytest.approx(largest, rel=0.02)
    assert f"at most {largest:.4f}, p " in chart.get("aria-label")
    assert len(list(chart.iter("polygon"))) == 1  # the band of a calibrated model


def test_error_chart_shows_the_error_rate_of_each_tenth():
    page, table, correct = scored_nodes("leave_out_classes")
    (chart,) = charts(page, "errors")
    drawn = {name.split(",")[0]: points for name, points in lines(chart).items()}
    assert list(drawn) == [measure_name(measure) for measure in ALL_MEASURES]
    for measure in ALL_MEASURES:
        tenths = np.split(np.argsort(table[measure].to_numpy()), np.arange(1, 10) * len(table) // 10)
        expected = [1 - correct[nodes].mean() for nodes in tenths]
        np.testing.assert_allclose(drawn[measure_name(measure)][:, 1], expected, atol=5e-3)


def test_table_of_measures_shows_risk_and_coverage():
    page, table, correct = scored_nodes("none")
    for measure in ALL_MEASURES:
        wrong = ~correct[np.argsort(table[measure].to_numpy())]
        risks = np.cumsum(wrong) / np.arange(1, len(wrong) + 1)
        kept = int(np.ceil(0.8 * len(wrong)))
        allowed = max((k for k in range(1, len(wrong) + 1) if risks[k - 1] <= 0.05), default=0)
        cells = [f"{risks.mean():.4f}", f"{100 * risks[kept - 1]:.1f} %", f"{100 * allowed / len(wrong):.1f} %"]
        row = "".join(f'<td class="number">{cell}</td>' for cell in cells)
        assert re.search(rf"<tr><td>{measure_name(measure)}</td>.*{re.escape(row)}</tr>", page)


@pytest.mark.parametrize("scenario", ["none", "leave_out_classes"])
def test_confusion_counts_are_those_of_scikit_learn(scenario):
    run = example_run(scenario)
    test = run.evaluation.predictions.query("part == 'test'")
    expected = confusion_matrix(test["label"], test["predicted"], labels=range(5))
    page = run.page()
    (chart,) = charts(page, "confusion")
    drawn = np.zeros((5, 5), dtype=int)
    for cell in chart.iter("rect"):
        row, column, count = re.match(r"class (\d+) predicted as (\d+): (\d+) nodes", cell.find("title").text).groups()
        drawn[int(row), int(column)] = int(count)
    assert np.array_equal(drawn, expected)
    columns = [text for text in chart.iter("text") if "xtick" in text.get("class", "")]
    assert len(columns) == (3 if scenario == "leave_out_classes" else 5)
    assert ("left-out classes: the model does not know" in page) == (scenario == "leave_out_classes")


def test_confusion_matrix_of_hundreds_of_classes_is_left_out():
    run = example_run("none")
    wide = run._replace(graph=run.graph.replace(num_classes=205))
    assert "confusion matrix of 205 classes is left out" in wide.page()


def test_training_history_is_drawn_if_there_is_any():
    run = example_run("none")
    loss = [[epoch, 3.0 / (epoch + 1)] for epoch in range(6, 90)]
    (chart,) = charts(run.page(history={"training/loss": loss}), "history")
    (points,) = lines(chart).values()
    np.testing.assert_allclose(points, loss, atol=0.2)
    np.testing.assert_allclose(points[:, 1], [value for _, value in loss], atol=2e-3)
    assert charts(run.page(history={}), "history") == []


def test_names_with_html_are_escaped():
    hostile = "<script>alert('x')</script>\"&"
    page = example_run().page(model=hostile, dataset=hostile, scenario=hostile, versions={hostile: hostile})
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page
    check_self_contained(page)


def test_most_uncertain_nodes_come_first():
    run = example_run("none")
    expected = run.evaluation.predictions.query("part == 'test'").nlargest(10, "eu")["node"].tolist()
    section = run.page().split("Most uncertain test nodes by EU")[1]
    assert [int(n) for n in re.findall(r'<tr><td class="number">(\d+)</td>', section)] == expected
    assert "Most uncertain test nodes by TU" in example_run("none", "categorical").page()


def test_measure_with_equal_values_is_drawn():
    run = example_run("none")
    check_self_contained(run.page(predictions=run.evaluation.predictions.assign(au=0.0)))


def run_with_sets(scenario: str, nominal: list[float]) -> ExampleRun:
    """A run whose posterior has prediction sets; the thresholds of their curves are the nominal coverages."""
    run = example_run(scenario, "categorical")
    posterior = example_posterior(run.graph, "categorical")
    scores = 1 - posterior.mean.double()
    size = (scores <= 0.8).sum(dim=1).double()
    thresholds = {coverage: coverage for coverage in nominal}
    refined = RefinedPosterior(
        posterior, {"set_size": size}, set_scores=scores, set_threshold=0.8, set_thresholds=thresholds
    )
    evaluation = evaluate(refined, run.graph)
    result = replace(run.result, metrics=evaluation.metrics, curves=evaluation.curves)
    return ExampleRun(result, evaluation, run.graph)


@pytest.mark.parametrize("scenario", ["none", "bernoulli", "leave_out_classes"])
def test_coverage_and_size_of_prediction_sets_are_drawn_by_nominal_coverage(scenario):
    run = run_with_sets(scenario, [0.5, 0.7, 0.8, 0.95])
    page = run.page()
    check_self_contained(page)
    for key, tolerance in (("coverage", 5e-3), ("size", 2e-2)):
        (chart,) = charts(page, f"sets-{key}")
        drawn = list(lines(chart).values())[-1]
        np.testing.assert_allclose(drawn[:, 0], [0.5, 0.7, 0.8, 0.95], atol=2e-3)
        np.testing.assert_allclose(drawn[:, 1], run.result.curves[f"sets/{key}"], atol=tolerance)
    (chart,) = charts(page, "sets-coverage")
    np.testing.assert_allclose(*lines(chart)["nominal"].T, atol=5e-3)
    metrics = run.result.metrics
    assert f'<td>contain the class</td><td class="number">{100 * metrics["sets/coverage"]:.1f}%</td>' in page
    assert f'<td>mean number of classes</td><td class="number">{metrics["sets/size"]:.2f}</td>' in page
    assert ("mean number of classes, OOD nodes" in page) == (scenario != "none")


def test_curves_of_sets_are_not_drawn_as_rejection_curves():
    """They would stretch the axis: sets have up to five classes."""
    (chart,) = charts(run_with_sets("none", [0.5, 0.9]).page(), "arc")
    assert [name.split(",")[0] for name in lines(chart)] == ["TU", "LConf", "set size"]
    labels = [float(text.text) for text in chart.iter("text") if "ytick" in text.get("class", "")]
    assert max(labels) <= 1


def test_sets_with_a_single_nominal_coverage_or_none_are_shown():
    check_self_contained(run_with_sets("none", [0.5]).page())
    page = run_with_sets("none", []).page()
    assert "<h2>Prediction sets</h2>" in page
    assert charts(page, "sets-size") == []


def test_a_run_without_sets_has_no_section_about_them():
    assert "<h2>Prediction sets</h2>" not in example_run("none").page()
