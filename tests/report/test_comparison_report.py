"""The comparison in the terminal and as a page shows the compared values."""

import re

import numpy as np

from lopgpn_exp.evaluation.comparison import compare_groups, select_metrics
from lopgpn_exp.report.comparison_report import column_headings, comparison_page, print_comparison
from tests.support.html_pages import charts, check_self_contained
from tests.support.random_runs import random_run, random_runs

NAMES = {"accuracy": "test/accuracy", "ECE ↓": "test/ece", "AUARC TU": "test/auarc/tu", "AUARC EU": "test/auarc/eu"}


def compare(groups, *, every=False):
    return compare_groups(groups, select_metrics(groups, every=every), names=column_headings(list(groups)))


def two_runs(scenario="none"):
    return {model: [random_run(model, scenario=scenario)] for model in ("gkde", "lop_gpn")}


def test_long_labels_are_replaced_by_letters():
    assert column_headings(["gkde", "lop_gpn"]) == ["gkde", "lop_gpn"]
    assert column_headings(["gkde", "x" * 19]) == ["A", "B"]
    assert column_headings(["x" * 19] * 28)[24:] == ["Y", "Z", "A'", "B'"]


def test_the_terminal_shows_values_in_percent_and_explains_the_letters(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    groups = {
        "model=gkde,scenario=none": random_runs("gkde", splits=range(4)),
        "model=lop_gpn,scenario=none": random_runs("lop_gpn", splits=range(4)),
        "model=lop_gpn,scenario=none,split=0+1": random_runs("lop_gpn", splits=[0, 1]),
    }
    print_comparison(compare(groups), ["filter, 4 runs", "filter, 4 runs", "filter, 2 runs"])
    out = capsys.readouterr().out
    assert "…" not in out  # nothing is cut off, however narrow the terminal is
    lines = out.splitlines()
    assert "A  model=gkde,scenario=none  (filter, 4 runs), the reference" in lines
    assert "C  model=lop_gpn,scenario=none,split=0+1  (filter, 2 runs)" in lines
    means = [np.mean([run.result.metrics["test/ece"] for run in runs]) for runs in groups.values()]
    line = next(line for line in lines if line.startswith(" ECE"))
    assert line.split()[2:4] == [f"{100 * mean:.1f}" for mean in means[:2]]
    assert "NLL" not in out.split("Percent;")[0]  # not one of the important metrics
    assert "unpaired" not in out
    assert re.search(r"C: 2 common splits", out)


def test_differences_whose_interval_excludes_zero_have_a_star(capsys):
    comparison = compare(two_runs(), every=True)
    print_comparison(comparison, ["first run", "second run"])
    out = capsys.readouterr().out
    table = comparison.table.set_index("metric")
    for name, metric in NAMES.items():
        line = next(line for line in out.splitlines() if line.startswith(f" {name} "))
        assert ("*" in line) == (table.loc[metric, "low"] > 0 or table.loc[metric, "high"] < 0)
        assert f"{100 * table.loc[metric, 'difference']:+.2f} [{100 * table.loc[metric, 'low']:+.2f}, " in line
    assert "for these two trained models: variation between trainings is not included" in out
    assert "no interval, because it is not computed over nodes: test/nll" in out


def test_the_page_is_self_contained_and_escapes_labels():
    hostile = "<script>alert(1)</script>"
    scenarios = ("none", "bernoulli")
    groups = {
        "model=lop_gpn": random_runs("lop_gpn", scenarios=scenarios, splits=range(4)),
        hostile: random_runs("gkde", scenarios=scenarios, splits=range(4)),
        "model=gkde": random_runs("gkde", scenarios=scenarios, splits=range(4)),
    }
    page = comparison_page(compare(groups), ["filter", hostile, "filter"])
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert not re.search(r"""(src|href|url)\s*[=(]|https?:|@import""", page)
    check_self_contained(page)
    assert page.count("<svg") == 2  # one per scenario
    for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        assert "#ffffff" not in svg
        assert "#000" not in svg
        assert "var(--text)" in svg


def test_nll_is_in_nats_and_marked_as_better_when_lower():
    groups = two_runs()
    page = comparison_page(compare(groups, every=True), ["a", "b"])
    value = groups["gkde"][0].result.metrics["test/nll"]
    assert re.search(rf"NLL ↓</td><td[^>]*>{value:.3f}<", page)
    assert "accuracy ↓" not in page


def test_the_forest_plot_shows_the_differences():
    """Markers lie between the ends of their intervals, and left of the zero line if and only if negative."""
    (chart,) = charts(comparison_page(compare(two_runs("bernoulli")), ["a", "b"]), "forest")
    (zero_line,) = chart.iter("polyline")
    zero = float(zero_line.get("points").split(",")[0])
    intervals = [re.fullmatch(r"M([\d.]+) ([\d.]+)H([\d.]+)", path.get("d")) for path in chart.iter("path")]
    ends = {match[2]: (float(match[1]), float(match[3])) for match in intervals if match and match[1] != "150.0"}
    markers = list(chart.iter("circle"))
    assert len(markers) == len(ends) == 7
    for marker in markers:
        title = re.fullmatch(r"lop_gpn: .* ([+-][\d.]+) \[([+-][\d.]+), ([+-][\d.]+)\]", marker.find("title").text)
        difference, low, high = map(float, title.groups())
        left, right = ends[marker.get("cy")]
        assert left < float(marker.get("cx")) < right
        for pixel, value in ((left, low), (float(marker.get("cx")), difference), (right, high)):
            assert (pixel < zero) == (value < 0)
        assert (marker.get("fill") == "var(--back)") == (low < 0 < high)
