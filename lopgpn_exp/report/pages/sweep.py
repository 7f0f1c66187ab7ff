"""The page of a sweep: models against each other on each dataset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

import pandas as pd

from lopgpn_exp.posterior import MEASURES
from lopgpn_exp.report.aggregate import CLEAN, aggregate, aggregate_curves
from lopgpn_exp.report.costs import costs
from lopgpn_exp.report.names import (
    DATASET_NAMES,
    MODEL_NAMES,
    SCENARIO_NAMES,
    measure_name,
    model_colors,
    model_name,
)
from lopgpn_exp.report.page import page
from lopgpn_exp.report.pages import svg
from lopgpn_exp.report.pages.sweep_charts import cost_charts, mean_curve_chart, mean_dots_chart
from lopgpn_exp.report.pages.sweep_table import sweep_table

STYLE = ".note { color: var(--dim); font-size: .9rem; max-width: 60rem; } nav a { margin-right: 1em; }\n"
CALIBRATION = {"test/ece": "ECE", "test/brier": "Brier score", "test/nll": "NLL"}


def sweep_page(results: pd.DataFrame, curves: pd.DataFrame, *, title: str) -> str:
    """One HTML file that needs nothing beside it.

    Args:
        results: one row a run, as `experiment.collect.load_results` gives them.
        curves: accuracy-rejection curves in long form, as `load_curves` gives them.
    """
    return page(title, "\n".join(_body(results, curves, title)), style=svg.STYLE + STYLE)


def _body(results: pd.DataFrame, curves: pd.DataFrame, title: str) -> Iterator[str]:
    yield f"<h1>{escape(title)}</h1>"
    if results.empty:
        yield "<p>No run of this sweep has finished.</p>"
        return
    datasets = _ordered(results["dataset"], DATASET_NAMES)
    splits = results.groupby(["dataset", "model", "scenario"])["split"].nunique().tolist()
    models = _ordered(results["model"], MODEL_NAMES)
    yield (
        f'<p class="note">Runs: {len(results)} · models: {len(models)} · datasets: {len(datasets)} · splits of each: '
        f"{_range(min(splits), max(splits))}. Means over splits; bands are standard errors, bars at dots 95 % "
        "intervals, and with one split there are neither.</p>"
    )
    links = (f'<a href="#dataset-{i}">{escape(DATASET_NAMES.get(d, d))}</a>' for i, d in enumerate(datasets))
    yield f"<nav>{''.join(links)}</nav>"
    for number, dataset in enumerate(datasets):
        yield f'<h2 id="dataset-{number}">{escape(DATASET_NAMES.get(dataset, dataset))}</h2>'
        yield from _of_dataset(results[results["dataset"] == dataset], curves[curves["dataset"] == dataset])


def _of_dataset(results: pd.DataFrame, curves: pd.DataFrame) -> Iterator[str]:
    models = _ordered(results["model"], MODEL_NAMES)
    scenarios = _ordered(results["scenario"], SCENARIO_NAMES)
    results = results.dropna(axis="columns", how="all")  # what only other datasets have
    means = aggregate(results).set_index(["model", "scenario", "metric"])
    color_of = model_colors(models)
    colors = svg.legend((model_name(model), color_of[model]) for model in models)
    yield f"<h3>Accuracy by rejection, clean</h3>{colors}"
    yield _curves(aggregate_curves(curves[curves["scenario"] == CLEAN]), models)
    yield f"<h3>Finding OOD nodes, AUC-ROC</h3>{colors}"
    yield _detection(means, models, scenarios)
    yield f"<h3>Accuracy and calibration</h3>{colors}"
    accuracy = mean_dots_chart("accuracy", "Accuracy, of ID nodes", means, models, _accuracies(scenarios, means))
    calibration = (
        mean_dots_chart("calibration", name, means, models, {_scenario(s): (s, key) for s in scenarios})
        for key, name in CALIBRATION.items()
    )
    yield svg.charts([accuracy, *calibration])
    yield "<h3>Cost</h3>"
    yield svg.charts(cost_charts(costs(results), models))
    yield "<h3>All means</h3>"
    yield sweep_table(results, models, scenarios)


def _curves(lines: pd.DataFrame, models: Sequence[str]) -> str:
    if lines.empty:
        return '<p class="note">No clean run is part of this sweep.</p>'
    measures = _ordered(lines["measure"], MEASURES)
    return svg.charts(mean_curve_chart(lines[lines["measure"] == m], models, m) for m in measures)


def _detection(means: pd.DataFrame, models: Sequence[str], scenarios: Sequence[str]) -> str:
    present = set(means.index.droplevel("model"))
    drawings = []
    for scenario in scenarios:
        keys = {measure_name(m): (scenario, f"ood/auroc/{m}") for m in MEASURES}
        found = {name: key for name, key in keys.items() if key in present}
        if found:
            title = _scenario(scenario)
            drawings.append(mean_dots_chart("auroc", title, means, models, found, y_label="AUC-ROC"))
    none = '<p class="note">No scenario of this sweep makes nodes out-of-distribution.</p>'
    return svg.charts(drawings) if drawings else none


def _accuracies(scenarios: Sequence[str], means: pd.DataFrame) -> dict[str, tuple[str, str]]:
    """Of all test nodes where the graph is clean, of ID nodes where it is not."""
    present = set(means.index.droplevel("model"))
    keys = {s: "id/accuracy" if (s, "id/accuracy") in present else "test/accuracy" for s in scenarios}
    return {_scenario(s): (s, key) for s, key in keys.items()}


def _scenario(scenario: str) -> str:
    return SCENARIO_NAMES.get(scenario, scenario)


def _ordered(found: pd.Series, order: Sequence[str] | dict[str, str]) -> list[str]:
    """Each once: known ones in their order, then a user's own by name."""
    names = set(found)
    return [name for name in order if name in names] + sorted(names - set(order))


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}"
