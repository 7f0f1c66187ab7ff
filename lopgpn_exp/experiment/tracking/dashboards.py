"""Preset dashboards: what the MLflow UI shows of an experiment without a click.

The UI keeps a shared view in an experiment's tag and restores it when its key is in the address. This is documented
nowhere: `tests/browser` opens every dashboard in a real browser and says so when MLflow changes it.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lopgpn_exp.report.names import MEASURE_NAMES, SCENARIO_NAMES

MODELS = "models-"
OF_SCENARIO = ("id", "ood", "change")  # what follows a scenario's name
TAG = "mlflow.sharedViewState."  # and the key
MOST_LINES = 60  # runs in one chart
TAG_COLUMNS = ("model", "dataset", "scenario", "split", "init", "sweep")
METRIC_COLUMNS = ("test/accuracy", "id/accuracy", "ood/auroc/eu", "test/ece", "seconds/train")
CURVES = "Accuracy-rejection curves"
AUROC = "OOD AUC-ROC"
REST = "Everything else"  # folded
LATER = ("Accuracy", "Calibration", "Training", "Cost", REST)


@dataclass(frozen=True)
class Dashboard:
    """The dataset whose models it shows, or None for single runs, and the state that the UI restores."""

    dataset: str | None
    state: dict[str, Any]

    @property
    def key(self) -> str:
        """What the address and the tag name it by: plain letters, whatever the dataset is called."""
        return "runs" if self.dataset is None else MODELS + re.sub(r"[^A-Za-z0-9_.-]", "_", self.dataset)

    @property
    def name(self) -> str:
        return "single runs" if self.dataset is None else f"models on {self.dataset}"

    @property
    def tag(self) -> tuple[str, str]:
        """Key and value of the experiment's tag."""
        packed = zlib.compress(json.dumps(self.state, separators=(",", ":"), sort_keys=True).encode(), level=9)
        return TAG + self.key, "deflate;" + base64.b64encode(packed).decode()

    @property
    def metrics(self) -> set[str]:
        return {chart["metricKey"] for chart in self.state["compareRunCharts"]}

    def link(self, base: str, experiment_id: str) -> str:
        return f"{base}/#/experiments/{experiment_id}/runs?viewStateShareKey={self.key}&compareRunsMode=CHART"


def runs_dashboard(metrics: Collection[str]) -> Dashboard:
    """Single runs, newest first; those of a sweep are folded under it."""
    return Dashboard(None, _state("tags.kind = 'run'", metrics, visible="FIRST_20_RUNS"))


def dataset_dashboard(dataset: str, metrics: Collection[str]) -> Dashboard:
    """Models over a dataset, a line each: means of the newest sweep with them, and how its first training went."""
    wanted = f"tags.kind = 'summary' and tags.latest = 'true' and tags.dataset = '{dataset}'"
    return Dashboard(dataset, _state(wanted, metrics, visible="SHOW_ALL") | {"dataset": dataset})


def dashboards_in(tags: Mapping[str, str]) -> list[Dashboard]:
    """Our dashboards among an experiment's tags; a view that somebody shared from the UI is theirs."""
    found = []
    for tag, value in sorted(tags.items()):
        key = tag.removeprefix(TAG)
        if key != tag and (key == "runs" or key.startswith(MODELS)):
            state = json.loads(zlib.decompress(base64.b64decode(value.removeprefix("deflate;"))))
            found.append(Dashboard(state.get("dataset"), state))
    return found


def described(dashboards: Iterable[Dashboard], experiment_id: str) -> str:
    """The experiment's description: where to look."""
    links = (f"[{d.name}]({d.link('', experiment_id).lstrip('/')})" for d in sorted(dashboards, key=lambda d: d.key))
    return "Dashboards: " + " · ".join(links)  # one line: the UI folds the others away


def _state(search: str, metrics: Collection[str], *, visible: str) -> dict[str, Any]:
    """Every metric has its chart: for one without, the UI would add a chart and a section of its own."""
    found = {metric: _section(metric) for metric in sorted(metrics, key=_reading_order)}
    named = [f"{AUROC} · {name}" for name in SCENARIO_NAMES]
    others = sorted(name for name in set(found.values()) - {*named} if name.startswith(f"{AUROC} · "))
    order = [CURVES, AUROC, *named, *others, *LATER]
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
            {"uuid": name, "name": name, "display": name != REST, "isReordered": True}
            for name in order
            if name in found.values()
        ],
        "compareRunCharts": [_chart(metric, section) for metric, section in found.items()],
        "isAccordionReordered": True,  # else the UI sorts sections by name
        "hideEmptyCharts": True,
    }


def _reading_order(metric: str) -> tuple[str, int, str]:
    """Measures in the paper's order, everything else by name."""
    path, _, last = metric.rpartition("/")
    measures = list(MEASURE_NAMES)
    return path, measures.index(last) if last in measures else len(measures), last


def _section(metric: str) -> str:
    """Where people look for a metric. One of a sweep's summary may have its scenario in front."""
    *path, last = metric.split("/")
    scenario = path.pop(0) if len(path) > 1 and path[1] in OF_SCENARIO else ""
    kind = "/".join(path)
    if kind == "arc":
        return CURVES
    if kind == "ood/auroc":
        return f"{AUROC} · {scenario}" if scenario else AUROC
    if last == "accuracy":
        return "Accuracy"
    if metric in ("test/ece", "test/brier", "test/nll"):
        return "Calibration"
    if kind == "training" or metric == "epochs":
        return "Training"
    return "Cost" if kind == "seconds" or metric == "peak_rss_mb" else REST


def _chart(metric: str, section: str) -> dict[str, Any]:
    """A line for what has steps, else a bar. The UI's title is the metric's key."""
    chart = {
        "uuid": metric,
        "type": "BAR",
        "metricKey": metric,
        "metricSectionId": section,
        "runsCountToCompare": MOST_LINES,
        "deleted": False,
        "isGenerated": False,
    }
    if not metric.startswith(("arc/", "training/")):
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
