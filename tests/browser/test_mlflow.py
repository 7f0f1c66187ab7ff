"""Every dashboard, opened as people open it. If MLflow's UI changes what a preset needs, this says so."""

import re

import pytest

from lopgpn_exp.report.names import model_color
from tests.browser.conftest import MODELS, until

MEASURES = {"appnp": {"tu", "lconf"}}
ALL = {"tu", "au", "eu", "eu_pc", "eu_so", "lconf"}
SCENARIOS = ("leave_out_classes", "bernoulli", "gaussian")
# What the UI itself says on its console, whatever it shows.
KNOWN = re.compile(r"/users/current|ResizeObserver loop|AG Grid|ERR_NAME_NOT_RESOLVED|ERR_INTERNET_DISCONNECTED")

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


def charts(page, wanted: set[str]) -> dict[str, list[dict]]:
    """Traces of the wanted charts by title, each seen drawn: the UI draws what is scrolled into view."""
    found: dict[str, list[dict]] = {}

    def all_drawn():
        for chart in page.execute_script(CHARTS):
            if chart["traces"]:
                found[chart["title"]] = chart["traces"]
        if wanted <= set(found):
            return True
        page.execute_script(SCROLL)
        return False

    all_drawn.__doc__ = f"all of {sorted(wanted)} are drawn"
    until(all_drawn, seconds=120)
    return found


def solid(traces: list[dict]) -> list[dict]:
    """Lines without the UI's faint doubles of them, which show what smoothing leaves out."""
    return [trace for trace in traces if trace["color"] and len(trace["color"]) == len("#rrggbb")]


def opened(page, address: str) -> None:
    page.get(address)
    until(lambda: page.execute_script(CHARTS), seconds=90)


def complaints(page) -> list[str]:
    entries = page.get_log("browser")
    return [e["message"] for e in entries if e["level"] == "SEVERE" and not KNOWN.search(e["message"])]


def curves_of(measure: str) -> set[str]:
    return {model for model in MODELS if measure in MEASURES.get(model, ALL)}


def test_models_of_a_sweep(page, links, store):
    """One line a model and measure, in the model's colour, with the sweep's own means; a bar a model and scenario."""
    opened(page, links["models on synthetic"])
    assert page.execute_script(SECTIONS)[:2] == ["Accuracy-rejection curves", "OOD AUC-ROC · leave_out_classes"]
    curves = {f"arc/{measure}" for measure in ALL}
    bars = {f"{scenario}/ood/auroc/{measure}" for scenario in SCENARIOS for measure in ALL}
    rest = {"test/accuracy", "gaussian/id/accuracy", "test/ece", "training/loss", "epochs", "seconds/train"}
    drawn = charts(page, curves | bars | rest)
    for measure in ALL:
        lines = solid(drawn[f"arc/{measure}"])
        assert sorted(line["name"].split(" ")[0] for line in lines) == sorted(curves_of(measure))
        for line in lines:
            assert line["x"] == list(range(100))
            assert line["color"].upper() == model_color(line["name"].split(" ")[0])
    for title in bars:
        (bar,) = drawn[title]
        assert bar["type"] == "bar"
        assert len(bar["x"]) == len(curves_of(title.rpartition("/")[2])), title
    assert complaints(page) == []


def test_single_runs(page, links):
    """The run outside of the sweep is drawn at once; those of the sweep are folded under it."""
    opened(page, links["single runs"])
    drawn = charts(page, {f"arc/{measure}" for measure in ALL} | {"ood/auroc/eu", "training/loss", "training/val_nll"})
    for measure in ALL:
        (line,) = solid(drawn[f"arc/{measure}"])
        assert line["name"] == "lop_gpn · synthetic · split 2 · gaussian"
        assert line["color"].upper() == model_color("lop_gpn")
    (loss,) = solid(drawn["training/loss"])
    assert loss["x"] == list(range(6, 12))  # 5 epochs of warm-up, then 6
    assert complaints(page) == []


def test_the_description_leads_to_the_dashboards(page, links):
    address = links["single runs"].partition("?")[0]
    page.get(address)
    find = "return [...document.querySelectorAll('a')].filter(a => a.textContent === 'models on synthetic')"
    (link, *_) = until(lambda: page.execute_script(find))
    opened(page, link.get_attribute("href"))  # a click would open another window
    assert "arc/tu" in charts(page, {"arc/tu"})


@pytest.mark.parametrize("kind", ["run", "sweep"])
def test_a_page_is_shown_inline_among_a_runs_artifacts(page, links, store, kind):
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
