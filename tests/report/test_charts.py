"""The SVG chart writer: axes, markers, and charts that adapt to their data."""

from xml.etree import ElementTree

import numpy as np
import pytest

from lopgpn_exp.report.charts import Chart, legend, span
from lopgpn_exp.report.charts.run_charts import MAX_POINTS, _thin_out, confusion_chart, confusion_counts
from lopgpn_exp.report.charts.svg import MARKERS, ticks


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.83, 0.991), (-412000, -3), (1e-7, 3e-7), (0, 99)])
def test_ticks_are_few_round_and_inside(low, high):
    values = ticks(low, high)
    assert 2 <= len(values) <= 6
    assert values[0] >= low - 1e-9 * abs(low)
    assert values[-1] <= high + 1e-9 * abs(high)
    assert len(set(np.diff(values).round(12))) == 1


@pytest.mark.parametrize("value", [0.0, 1.0, -3.0])
def test_span_of_equal_values_is_not_empty(value):
    low, high = span([value, value])
    assert low < value < high


@pytest.mark.parametrize("marker", MARKERS)
def test_markers_are_centred_and_intervals_end_at_their_values(marker):
    """The axes are 100 pixels per unit: from 40 to 240 and from 178 down to 24."""
    chart = Chart("test", "t", x=(0.0, 2.0), y=(0.0, 1.54), size=(250, 200))
    chart.dot(1.0, 1.0, "red", "a point", x_interval=(0.5, 2.0), y_interval=(0.0, 1.5), marker=marker, filled=False)
    across, down, shape = list(ElementTree.fromstring(chart.svg()))[-3:]
    assert across.get("d") == "M90.0 78.0H240.0"
    assert down.get("d") == "M140.0 178.0V28.0"
    if marker == "circle":
        centre = [float(shape.get("cx")), float(shape.get("cy"))]
    else:
        corners = np.array([[float(c) for c in pair.split(",")] for pair in shape.get("points").split()])
        centre = (corners.min(axis=0) + corners.max(axis=0)) / 2
    assert centre == pytest.approx([140, 78], abs=0.5)
    assert shape.get("fill") == "var(--back)"
    assert shape.find("title").text == "a point"


def test_legend_shows_the_markers_of_its_entries():
    text = legend([("a", "red"), ("<b>", "blue")], markers=["square", "triangle"])
    assert text.index("■") < text.index("a</span>") < text.index("▲") < text.index("&lt;b&gt;</span>")
    assert "■" not in legend([("a", "red")])


def test_long_roc_curve_is_thinned_without_changing_its_area():
    false = np.sort(np.random.default_rng(0).random(5000))
    true = np.sort(np.random.default_rng(1).random(5000) ** 0.3)
    false[[0, -1]], true[[0, -1]] = [0, 1], [0, 1]
    few = _thin_out(false, true)
    assert len(few[0]) == MAX_POINTS == 300
    assert np.trapezoid(few[1], few[0]) == pytest.approx(np.trapezoid(true, false), abs=1e-3)


def test_confusion_matrix_of_forty_classes_fits():
    labels = np.arange(4000) % 40
    chart = ElementTree.fromstring(confusion_chart(confusion_counts(labels, labels * 7 % 40, 40)))
    assert float(chart.get("width")) < 1000
    sizes = [
        float(text.get("style").split(":")[1].removesuffix("px")) for text in chart.iter("text") if text.get("style")
    ]
    assert len(sizes) == 40
    assert min(sizes) > 6
