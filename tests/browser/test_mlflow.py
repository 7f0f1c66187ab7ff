"""Every dashboard in the MLflow UI. These tests fail if a new version of the UI needs other presets."""

import re

import pytest

from lopgpn_exp.report.names import model_color
from tests.browser.conftest import MODELS, until

MEASURES = {"appnp": {"tu", "lconf", "energy"}}
ALL = {"tu", "au", "eu", "eu_pc", "eu_so", "lconf"}
SCENARIOS = ("leave_out_classes", "bernoulli", "gaussian")
# Errors that the UI itself writes to the console.
IGNORED_ERRORS = re.compile(
    r"/users/current|ResizeObserver loop|AG Grid|ERR_NAME_NOT_RESOLVED|ERR_INTERNET_DISCONNECTED"
)

CHARTS = """
return [...document.querySelectorAll('[data-testid=experiment-view-compare-runs-card]')].map(card => {
  const plot = card.querySelector('.js-plotly-plot');
  return {
    title: card.querySelector('h4').title,
    traces: plot && plot.data ? plot.data.map(t => ({
      name: t.name ?? null, type: t.type, x: [...(t.x ?? [])], y: [...(t.y ?? [])], text: t.text ?? null,
      color: t.line?.color ?? t.marker?.color ?? null,
    })) : [],
  };
})
"""
SECTIONS = """
return [...document.querySelectorAll('[data-testid=experiment-view-compare-runs-section-header]')]
  .map(header => header.innerText.split('\\n')[0].replace(/\\s*\\(\\d+\\)$/, '').trim())
"""
SCROLL = """
const area = document.querySelector('[data-testid=experiment-view-compare-runs-chart-area]');
const end = area.scrollTop + area.clientHeight >= area.scrollHeight - 1;
area.scrollTo(0, end ? 0 : area.scrollTop + area.clientHeight / 3);
"""


def read_charts(page, titles: set[str]) -> dict[str, list[dict]]:
    """Return the traces of charts by title, scrolling until all are drawn: the UI draws only what is in view."""
    traces: dict[str, list[dict]] = {}

    def all_drawn():
        for chart in page.execute_script(CHARTS):
            if chart["traces"]:
                traces[chart["title"]] = chart["traces"]
        if titles <= set(traces):
            return True
        page.execute_script(SCROLL)
        return False

    all_drawn.__doc__ = f"all of {sorted(titles)} are drawn"
    until(all_drawn, seconds=120)
    return traces


def solid_lines(traces: list[dict]) -> list[dict]:
    """Return the lines without the faint copies that the UI draws to show the effect of smoothing."""
    return [trace for trace in traces if trace["color"] and len(trace["color"]) == len("#rrggbb")]


def open_dashboard(page, address: str) -> None:
    page.get(address)
    until(lambda: page.execute_script(CHARTS), seconds=90)


def read_errors(page) -> list[str]:
    entries = page.get_log("browser")
    return [e["message"] for e in entries if e["level"] == "SEVERE" and not IGNORED_ERRORS.search(e["message"])]


def models_with(measure: str) -> set[str]:
    return {model for model in MODELS if measure in MEASURES.get(model, ALL)}


def test_dashboard_of_a_sweep(page, links, store):
    """One curve per model and measure in the colour of the model, and one bar per model and scenario."""
    open_dashboard(page, links["models on synthetic"])
    assert page.execute_script(SECTIONS)[:2] == ["Accuracy-rejection curves", "OOD AUC-ROC · leave_out_classes"]
    curves = {f"arc/{measure}" for measure in ALL}
    bars = {f"{scenario}/ood/auroc/{measure}" for scenario in SCENARIOS for measure in ALL}
    others = {"test/accuracy", "gaussian/id/accuracy", "test/ece", "training/loss", "epochs", "seconds/train"}
    drawn = read_charts(page, curves | bars | others)
    for measure in ALL:
        lines = solid_lines(drawn[f"arc/{measure}"])
        assert sorted(line["name"].split(" ")[0] for line in lines) == sorted(models_with(measure))
        for line in lines:
            assert line["x"] == list(range(100))
            assert line["color"].upper() == model_color(line["name"].split(" ")[0])
    for title in bars:
        (bar,) = drawn[title]
        assert bar["type"] == "bar"
        assert len(bar["x"]) == len(models_with(title.rpartition("/")[2])), title
    assert read_errors(page) == []


def test_dashboard_of_single_runs(page, links):
    """The single run is drawn at once; the runs of the sweep are folded."""
    open_dashboard(page, links["single runs"])
    drawn = read_charts(
        page, {f"arc/{measure}" for measure in ALL} | {"ood/auroc/eu", "training/loss", "training/val_nll"}
    )
    for measure in ALL:
        (line,) = solid_lines(drawn[f"arc/{measure}"])
        assert line["name"] == "lop_gpn · synthetic · split 2 · gaussian"
        assert line["color"].upper() == model_color("lop_gpn")
    (loss,) = solid_lines(drawn["training/loss"])
    assert loss["x"] == list(range(6, 12))  # 5 epochs of warm-up, then 6
    assert read_errors(page) == []


def test_description_links_to_the_dashboards(page, links):
    address = links["single runs"].partition("?")[0]
    page.get(address)
    find = "return [...document.querySelectorAll('a')].filter(a => a.textContent === 'models on synthetic')"
    (link, *_) = until(lambda: page.execute_script(find))
    open_dashboard(page, link.get_attribute("href"))  # a click would open another window
    assert "arc/tu" in read_charts(page, {"arc/tu"})


@pytest.mark.parametrize("kind", ["run", "sweep"])
def test_page_is_shown_inline_among_the_artifacts(page, links, store, kind):
    from mlflow.tracking import MlflowClient

    client = MlflowClient(f"sqlite:///{store / 'outputs' / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("lopgpn_exp").experiment_id
    run = client.search_runs([experiment], f"tags.kind = '{kind}'", max_results=1)[0]
    base = links["single runs"].partition("/#/")[0]
    page.get(f"{base}/#/experiments/{experiment}/runs/{run.info.run_id}/artifacts/page.html")
    frame = until(lambda: page.execute_script("return document.querySelector('iframe')"))
    page.switch_to.frame(frame)
    try:
        charts_in_page = (
            "return [...document.querySelectorAll('svg')].filter(s => s.getBoundingClientRect().width > 100)"
        )
        assert len(until(lambda: page.execute_script(charts_in_page))) >= 3
    finally:
        page.switch_to.default_content()
