"""The page of a sweep: what its charts and tables show equals the aggregated results."""

import re

import numpy as np
import pytest

from lopgpn_exp.evaluation.statistics import aggregate, aggregate_curves
from lopgpn_exp.report.sweep_page import sweep_page
from tests.support.html_pages import charts, check_self_contained, lines
from tests.support.report_data import example_sweep


def test_page_is_well_formed_and_needs_no_network():
    check_self_contained(sweep_page(*example_sweep(), title="a sweep"))


def test_mean_curves_are_drawn_per_model_and_measure():
    results, curves = example_sweep()
    means = aggregate_curves(curves).set_index(["scenario", "model", "measure"])
    drawn = charts(sweep_page(results, curves, title="t"), "mean-arc")
    assert len(drawn) == 2
    for chart, measure in zip(drawn, ["tu", "eu"], strict=True):
        assert len(list(chart.iter("polygon"))) == 3  # bands
        curves_drawn = lines(chart)
        assert list(curves_drawn) == ["GPN (rw)", "LOP-GPN", "mine"]
        for model, points in zip(["gpn_rw", "lop_gpn", "mine"], curves_drawn.values(), strict=True):
            np.testing.assert_allclose(points[:, 1], means.loc[("none", model, measure), "mean"], atol=2e-3)


def test_detection_is_drawn_with_means_and_intervals():
    results, curves = example_sweep()
    (chart,) = charts(sweep_page(results, curves, title="t"), "auroc")
    table = aggregate(results).query("scenario == 'gaussian'").set_index(["metric", "model"])
    dots = list(chart.iter("circle"))
    assert len(dots) == 2 * 3
    expected = [table.loc[(f"ood/auroc/{m}", model)] for m in ("tu", "eu") for model in ("gpn_rw", "lop_gpn", "mine")]
    heights = [text for text in chart.iter("text") if "ytick" in text.get("class", "")]
    fit = np.polyfit([float(text.get("y")) - 4 for text in heights], [float(text.text) for text in heights], 1)
    for dot, row in zip(dots, expected, strict=True):
        assert np.polyval(fit, float(dot.get("cy"))) == pytest.approx(row["mean"], abs=2e-3)
        assert f"{row['low']:.4f} to {row['high']:.4f}" in dot.find("title").text


def test_measure_of_a_users_posterior_is_shown_wherever_the_others_are():
    results, curves = example_sweep()
    results["ood/auroc/vacuity"] = results["ood/auroc/eu"]
    page = sweep_page(results, curves.replace({"measure": {"eu": "vacuity"}}), title="t")
    assert [chart.get("aria-label") for chart in charts(page, "mean-arc")] == ["TU", "vacuity"]
    (detection,) = charts(page, "auroc")
    groups = [text.text for text in detection.iter("text") if "xtick" in text.get("class", "")]
    assert groups == ["TU", "EU", "vacuity"]
    assert "<th>AUC-ROC vacuity</th>" in page


def test_costs_count_a_shared_training_once():
    """The two scenarios of a split share a training of 2 s."""
    drawn = charts(sweep_page(*example_sweep(), title="t"), "cost")
    assert [chart.get("aria-label") for chart in drawn] == [
        "Seconds per training, mean",
        "Epochs per training, mean",
        "Peak memory of a run",
    ]
    texts = [[bar.find("title").text for bar in chart.iter("rect")] for chart in drawn]
    assert texts[0] == ["GPN (rw): 2 s", "LOP-GPN: 2 s", "mine: 2 s"]
    assert texts[1] == ["GPN (rw): 10", "LOP-GPN: 20", "mine: 30"]
    assert texts[2] == ["GPN (rw): 100 MB", "LOP-GPN: 101 MB", "mine: 102 MB"]
    widths = [float(bar.get("width")) + 1 for bar in drawn[1].iter("rect")]
    assert np.array(widths) / widths[-1] == pytest.approx([1 / 3, 2 / 3, 1], abs=0.01)


def test_table_marks_the_best_model():
    results, curves = example_sweep()
    results["test/ece"] = results["model"].map({"gpn_rw": 0.3, "lop_gpn": 0.1, "mine": 0.2})
    results["test/ece"] += 0.001 * results["split"]
    page = sweep_page(results, curves, title="t")
    (row,) = re.findall(r"<tr><th[^>]*>clean</th><th[^>]*>LOP-GPN</th>.*?</tr>", page)
    assert "<strong>0.102 ± 0.001</strong>" in row
    assert ">0.202 ± 0.001</td>" in page  # neither best nor tied


@pytest.mark.parametrize("splits", [1, 2])
def test_sweep_of_few_splits_or_one_scenario_has_a_page(splits):
    results, curves = example_sweep(splits)
    page = sweep_page(results, curves, title="t")
    check_self_contained(page)
    assert ("±" in page.split("<tbody>")[1].split("</tbody>")[0]) == (splits > 1)
    for scenario, missing in (("none", "has out-of-distribution nodes"), ("gaussian", "No clean run")):
        selected = [table[table["scenario"] == scenario] for table in (results, curves)]
        page = sweep_page(*selected, title="t")
        check_self_contained(page)
        assert missing in page


def test_names_with_html_are_escaped():
    hostile = "<script>alert('x')</script>\"&"
    results, curves = example_sweep(models=(hostile, "lop_gpn"))
    page = sweep_page(results.assign(dataset=hostile), curves.assign(dataset=hostile), title=hostile)
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page
    check_self_contained(page)
