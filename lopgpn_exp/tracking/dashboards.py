"""Preset dashboards of an experiment in the MLflow UI.

The UI stores a shared view in a tag of the experiment and restores it when the address contains its key. This is not
documented by MLflow, so `tests/browser` opens every dashboard in a real browser.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from lopgpn_exp.measures import measure_names
from lopgpn_exp.report.names import SCENARIO_NAMES

DATASET_KEY = "models-"
SCENARIO_METRICS = ("id", "ood", "change")  # may follow the name of a scenario
VIEW_TAG = "mlflow.sharedViewState."  # followed by the key of the dashboard
MAX_RUNS = 60  # in one chart
TAG_COLUMNS = ("model", "dataset", "scenario", "split", "init", "sweep")
METRIC_COLUMNS = ("test/accuracy", "id/accuracy", "ood/auroc/eu", "test/ece", "seconds/train")
CURVES = "Accuracy-rejection curves"
SHIFT_CURVES = "Shifts by budget (percent)"
SETS = "Prediction sets, by nominal coverage (percent)"
AUROC = "OOD AUC-ROC"
OTHER = "Everything else"  # collapsed
LAST_SECTIONS = ("Accuracy", "Calibration", SETS, "Training", "Cost", OTHER)


@dataclass(frozen=True)
class Dashboard:
    """A view of the UI: the dataset whose models it compares (None for single runs), and the state to restore."""

    dataset: str | None
    state: dict[str, Any]

    @property
    def key(self) -> str:
        """The name in the address and the tag; it has no special characters, whatever the dataset is called."""
        return "runs" if self.dataset is None else DATASET_KEY + re.sub(r"[^A-Za-z0-9_.-]", "_", self.dataset)

    @property
    def name(self) -> str:
        return "single runs" if self.dataset is None else f"models on {self.dataset}"

    @property
    def tag(self) -> tuple[str, str]:
        """Key and value of the tag of the experiment."""
        packed = zlib.compress(json.dumps(self.state, separators=(",", ":"), sort_keys=True).encode(), level=9)
        return VIEW_TAG + self.key, "deflate;" + base64.b64encode(packed).decode()

    @property
    def metrics(self) -> set[str]:
        return {chart["metricKey"] for chart in self.state["compareRunCharts"]}

    def link(self, base: str, experiment_id: str) -> str:
        return f"{base}/#/experiments/{experiment_id}/runs?viewStateShareKey={self.key}&compareRunsMode=CHART"


def runs_dashboard(metrics: Collection[str]) -> Dashboard:
    """Return the dashboard of single runs, newest first; the runs of a sweep are collapsed under it."""
    return Dashboard(None, _state("tags.kind = 'run'", metrics, visible="FIRST_20_RUNS"))


def dataset_dashboard(dataset: str, metrics: Collection[str]) -> Dashboard:
    """Return the dashboard of a dataset: one line per model, from the means of the newest sweep that has it."""
    query = f"tags.kind = 'summary' and tags.latest = 'true' and tags.dataset = '{dataset}'"
    return Dashboard(dataset, _state(query, metrics, visible="SHOW_ALL") | {"dataset": dataset})


def read_dashboards(tags: Mapping[str, str]) -> list[Dashboard]:
    """Return our dashboards among the tags of an experiment; views that users shared from the UI are left alone.

    A damaged dashboard counts as missing, so that it is written again.
    """
    dashboards = []
    for tag, value in sorted(tags.items()):
        key = tag.removeprefix(VIEW_TAG)
        if key == tag or not (key == "runs" or key.startswith(DATASET_KEY)):
            continue
        with suppress(ValueError, zlib.error, TypeError, KeyError, AttributeError):
            state = json.loads(zlib.decompress(base64.b64decode(value.removeprefix("deflate;"))))
            dashboard = Dashboard(state.get("dataset"), state)
            if dashboard.key == key and dashboard.metrics:
                dashboards.append(dashboard)
    return dashboards


def select_links(
    dashboards: Iterable[Dashboard], base: str, experiment_id: str, datasets: Collection[str]
) -> dict[str, str]:
    """Return the addresses of dashboards by name: that of single runs, and those of some datasets."""
    chosen = (dashboard for dashboard in dashboards if dashboard.dataset is None or dashboard.dataset in datasets)
    return {dashboard.name: dashboard.link(base, experiment_id) for dashboard in chosen}


def describe_dashboards(dashboards: Iterable[Dashboard], experiment_id: str) -> str:
    """Return the description of the experiment: links to its dashboards."""
    links = (f"[{d.name}]({d.link('', experiment_id).lstrip('/')})" for d in sorted(dashboards, key=lambda d: d.key))
    return "Dashboards: " + " · ".join(links)  # one line: the UI collapses the others


def _state(search: str, metrics: Collection[str], *, visible: str) -> dict[str, Any]:
    """Give every metric a chart; for a metric without one the UI would add a chart in a section of its own."""
    sections = {metric: _section(metric) for metric in sorted(metrics, key=_reading_order)}
    named = [f"{AUROC} · {name}" for name in SCENARIO_NAMES]
    others = sorted(name for name in set(sections.values()) - {*named} if name.startswith(f"{AUROC} · "))
    order = [CURVES, SHIFT_CURVES, AUROC, *named, *others, *LAST_SECTIONS]
    return {
        "searchFilter": search,
        "orderByKey": "attributes.start_time",
        "orderByAsc": False,
        "runsHiddenMode": visible,
        "selectedColumns": [
            *(f"tags.`{name}`" for name in TAG_COLUMNS),
            *(f"metrics.`{name}`" for name in METRIC_COLUMNS if name in metrics),
            "attributes.`Duration`",
        ],
        "compareRunSections": [
            {"uuid": name, "name": name, "display": name != OTHER, "isReordered": True}
            for name in order
            if name in sections.values()
        ],
        "compareRunCharts": [_chart(metric, section) for metric, section in sections.items()],
        "isAccordionReordered": True,  # else the UI sorts sections by name
        "hideEmptyCharts": True,
    }


def _reading_order(metric: str) -> tuple[str, int, str]:
    """Sort measures in the order of tables, everything else by name."""
    path, _, last = metric.rpartition("/")
    measures = measure_names()
    return path, measures.index(last) if last in measures else len(measures), last


def _section(metric: str) -> str:
    """Return the section of a metric. Metrics of a sweep's summary may begin with the scenario."""
    *path, last = metric.split("/")
    scenario = path.pop(0) if len(path) > 1 and path[1] in SCENARIO_METRICS else ""
    kind = "/".join(path)
    if kind == "arc":
        return CURVES
    if metric.startswith("by_budget/"):
        return SHIFT_CURVES
    if kind in ("sets", "by_coverage"):
        return SETS
    if kind == "ood/auroc":
        return f"{AUROC} · {scenario}" if scenario else AUROC
    if last == "accuracy":
        return "Accuracy"
    if metric in ("test/ece", "test/brier", "test/nll"):
        return "Calibration"
    if kind == "training" or metric == "epochs":
        return "Training"
    return "Cost" if kind in ("seconds", "cpu_seconds") or metric == "peak_rss_mb" else OTHER


def _chart(metric: str, section: str) -> dict[str, Any]:
    """Return a line chart for a metric with steps, else a bar chart. The UI uses the metric's key as title."""
    chart = {
        "uuid": metric,
        "type": "BAR",
        "metricKey": metric,
        "metricSectionId": section,
        "runsCountToCompare": MAX_RUNS,
        "deleted": False,
        "isGenerated": False,
    }
    if not metric.startswith(("arc/", "by_budget/", "by_coverage/", "training/")):
        return chart
    return chart | {
        "type": "LINE",
        "selectedMetricKeys": [metric],
        "xAxisKey": "step",
        "xAxisScaleType": "linear",
        "scaleType": "linear",
        "lineSmoothness": 0,
        "useGlobalXaxisKey": False,
        "useGlobalLineSmoothing": False,
        "yAxisKey": "metric",
        "yAxisExpressions": [],
        "selectedXAxisMetricKey": "",
        "range": {},
        "ignoreOutliers": False,
    }
