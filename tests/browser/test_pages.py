"""The pages of a run, a sweep and a comparison in a browser."""

import subprocess
import sys

import pandas as pd
import pytest

from lopgpn_exp.benchmark.benchmark_report import write_benchmark_report
from lopgpn_exp.benchmark.benchmark_runs import save_benchmark
from lopgpn_exp.report.names import MODEL_COLORS, MODEL_NAMES, measure_color, measure_name
from tests.browser.conftest import MODELS, environment, until
from tests.support import ROOT
from tests.support.benchmark_runs import benchmark_rows

LINES = """
return [...document.querySelectorAll(`svg[data-chart="${arguments[0]}"]`)].map(svg =>
  [...svg.querySelectorAll('polyline')].map(line => ({
    color: getComputedStyle(line).stroke, length: line.getTotalLength(), name: line.querySelector('title')?.textContent,
  })))
"""
LEGEND = "return [...document.querySelectorAll('.legend')][0].innerText"
OVERFLOW = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
INK = """
return [...document.querySelectorAll('canvas')].map(canvas => {
  const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const colors = new Set();
  for (let i = 0; i < data.length; i += 4) if (data[i + 3]) colors.add(data.slice(i, i + 3).join());
  return colors.size;
})
"""
BACKGROUND = "return getComputedStyle(document.body).backgroundColor"


def rgb(color: str) -> str:
    return f"rgb({', '.join(str(int(color[i : i + 2], 16)) for i in (1, 3, 5))})"


MEASURES = ("tu", "au", "eu", "eu_pc", "eu_so", "lconf")  # of LOP-GPN
COLORS = [rgb(measure_color(measure)) for measure in MEASURES]


def open_page(page, path) -> None:
    """Open a file, and check that the console is empty and that the page is not wider than the window."""
    page.get(path.resolve().as_uri())
    until(lambda: page.execute_script("return document.readyState") == "complete")
    assert page.execute_script(OVERFLOW) <= 0
    assert [entry["message"] for entry in page.get_log("browser")] == []


def test_page_of_a_run_draws_every_measure(page, store):
    (folder,) = (store / "outputs" / "runs").glob("lop_gpn-*-s2-*-gaussian-*")
    open_page(page, folder / "page.html")
    for chart in ("arc", "roc"):
        (lines,) = page.execute_script(LINES, chart)
        drawn = [line for line in lines if line["color"] in COLORS]
        assert [line["color"] for line in drawn] == COLORS
        assert all(line["length"] > 50 for line in drawn)
    assert page.execute_script(LEGEND).split() == [measure_name(measure) for measure in MEASURES]
    assert min(until(lambda: page.execute_script(INK))) > 20  # both panels show nodes in many shades


def test_page_of_a_sweep_draws_every_model(page, store):
    (folder,) = (store / "outputs" / "sweeps").iterdir()
    open_page(page, folder / "page.html")
    charts = page.execute_script(LINES, "mean-arc")
    assert len(charts) == len(MEASURES) + 1
    by_count = sorted(len(lines) for lines in charts)
    assert by_count == [1, 2, 2, 2, 2, 3, 3]  # APPNP has TU, LConf and energy
    colors = {line["color"] for lines in charts for line in lines}
    assert colors == {rgb(MODEL_COLORS[model]) for model in MODELS}
    assert all(MODEL_NAMES[model] in page.execute_script(LEGEND) for model in MODELS)


def test_page_of_a_comparison_has_forest_plots(page, store, tmp_path):
    arguments = ["model=gpn_sym", "model=lop_gpn", "--html", str(tmp_path / "comparison.html")]
    command = [sys.executable, "-m", "lopgpn_exp", "compare", *arguments]
    subprocess.run(command, cwd=store, env=environment(), check=True, capture_output=True)
    open_page(page, tmp_path / "comparison.html")
    assert page.execute_script("return document.querySelectorAll('figure svg').length") >= 4  # one per scenario


@pytest.mark.parametrize(("scheme", "light"), [("light", True), ("dark", False)])
def test_pages_follow_the_colour_scheme(page, store, scheme, light):
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    (folder,) = (store / "outputs" / "sweeps").iterdir()
    open_page(page, folder / "page.html")
    channels = [int(part) for part in page.execute_script(BACKGROUND).strip("rgba()").split(",")[:3]]
    assert (min(channels) > 200) if light else (max(channels) < 60)


@pytest.fixture(scope="session")
def leaderboard(tmp_path_factory):
    folder = tmp_path_factory.mktemp("leaderboard")
    write_benchmark_report(folder, runs_file=ROOT / "outputs" / "benchmark" / "runs.parquet", figures=False)
    return folder / "leaderboard.html"


def choose(page, name: str, value: str) -> None:
    page.execute_script(
        "const box = document.querySelector(`select[name=${arguments[0]}]`); box.value = arguments[1];"
        "box.dispatchEvent(new Event('change'))",
        *(name, value),
    )


def column(page, index: int) -> list[float]:
    """Return the values of a column of the leaderboard, in the order of its rows."""
    rows = "[...document.querySelectorAll('table.board tbody tr')]"
    cells = page.execute_script(f"return {rows}.map(row => row.children[arguments[0]].innerText)", index)
    return [float(cell.split()[0]) for cell in cells if cell != "-"]


def test_leaderboard_is_sorted_and_filtered(page, leaderboard):
    open_page(page, leaderboard)
    choose(page, "task", "ood")
    best_first = column(page, 1)
    assert len(best_first) > 10
    assert best_first == sorted(best_first, reverse=True)
    page.execute_script("document.querySelectorAll('table.board th button')[1].click()")
    assert column(page, 1) == sorted(best_first)
    choose(page, "task", "calibration")
    assert column(page, 1) == sorted(column(page, 1))  # small errors are good
    choose(page, "family", "Energy")
    names = page.execute_script(
        "return [...document.querySelectorAll('th.model')].slice(1).map(e => e.innerText.trim())"
    )
    assert sorted(names) == ["GEBM", "GNNSafe"]


def test_leaderboard_marks_missing_runs(page, tmp_path):
    values = {"gcn": [0.8, 0.81, 0.82], "gat": [0.7, 0.71, 0.72], "mlp": [0.9]}
    runs = pd.concat(
        [
            benchmark_rows(values, metric="test/accuracy"),
            benchmark_rows({"gcn": [0.7], "gat": [0.79], "egnn": [0.6]}, metric="test/accuracy", dataset="citeseer"),
        ]
    )
    save_benchmark(tmp_path / "runs.parquet", runs)
    write_benchmark_report(tmp_path, figures=False)
    open_page(page, tmp_path / "leaderboard.html")
    rows = page.execute_script(
        "return [...document.querySelectorAll('table.board tbody tr')].map(row =>"
        "[row.firstChild.innerText.trim(), ...[...row.children].slice(1, 4).map(e => `${e.innerText} ${e.className}`)])"
    )
    cells = {name: [" ".join(cell.replace("number", "").split()) for cell in values] for name, *values in rows}
    assert cells["GAT"] == ["75.0 ± 50.8 untested", "71.0 ± 2.5", "79.0 best"]
    assert cells["GCN"] == ["75.5 ± 69.9 best", "81.0 ± 2.5 best", "70.0 untested"]
    assert cells["MLP"] == ["-", "90.01 untested", "-"]  # 90.0 with one split
    assert cells["EGNN"] == ["-", "-", "60.0 untested"]


def test_leaderboard_shows_how_a_value_is_reproduced(page, leaderboard):
    open_page(page, leaderboard)
    choose(page, "task", "ood")
    choose(page, "dataset", "cora_ml")
    choose(page, "metric", "ood/auroc")
    heads = page.execute_script(
        "return [...document.querySelectorAll('table.board th')].map(e => e.firstChild.innerText)"
    )
    index = heads.index("OS-1")
    page.execute_script(f"document.querySelector('table.board tbody tr').children[{index}].firstChild.click()")
    text = page.execute_script("return document.querySelector('.details').innerText")
    model = page.execute_script("return document.querySelector('tbody th.model').innerText.trim()")
    assert text.startswith(f"{model}, CoraML, OS-1: AUC-ROC by ")
    assert "dataset=cora_ml ood=os_1 split.index=0,1,2,3,4 -m" in text
    assert "95 % interval" in text
    assert page.execute_script("return document.querySelectorAll('td.best').length") >= 1
