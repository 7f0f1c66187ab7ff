"""The HTML page of a sweep: its models compared on each dataset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

import pandas as pd

from lopgpn_exp.evaluation.costs import summarise_costs
from lopgpn_exp.evaluation.shift import BUDGET, MEAN_UNCERTAINTY, budget_curves, rank_correlations
from lopgpn_exp.evaluation.shift import CURVES as BUDGET_CURVES
from lopgpn_exp.evaluation.statistics import CLEAN, aggregate, aggregate_curves, mark_best
from lopgpn_exp.measures import measure_names, sort_measures
from lopgpn_exp.report import charts
from lopgpn_exp.report.charts import sweep_charts
from lopgpn_exp.report.charts.sweep_charts import Means, MetricInScenario
from lopgpn_exp.report.document import Table, render_page
from lopgpn_exp.report.names import (
    CALIBRATION,
    DATASET_NAMES,
    MODEL_NAMES,
    NO_VALUE,
    SCENARIO_NAMES,
    dataset_name,
    find_measures,
    measure_name,
    metric_name,
    model_colors,
    model_name,
    scenario_name,
    sort_names,
)

STYLE = "nav a { margin-right: 1em; }\n"
CORRELATION_NOTE = (
    "Rank correlation of error and mean uncertainty of the test nodes over budgets (Spearman): 1 means that "
    "uncertainty grows whenever accuracy falls."
)
TABLE_NOTE = (
    "Mean ± standard error over splits; accuracies and AUC-ROC in percent. For each scenario, the best model is bold. "
    "Models that a paired t-test over splits (5 %) cannot distinguish from it are underlined. For ECE, Brier score and "
    "NLL, lower is better."
)


def sweep_page(results: pd.DataFrame, curves: pd.DataFrame, *, title: str) -> str:
    """Return a self-contained HTML page.

    Args:
        results: one row per run, as returned by `load_results`.
        curves: accuracy-rejection curves in long form, as returned by `load_curves`.
    """
    return render_page(title, "\n".join(_render_body(results, curves, title)), style=charts.STYLE + STYLE)


def _render_body(results: pd.DataFrame, curves: pd.DataFrame, title: str) -> Iterator[str]:
    yield f"<h1>{escape(title)}</h1>"
    datasets = sort_names(sorted(set(results["dataset"])), DATASET_NAMES)
    splits = results.groupby(["dataset", "model", "scenario"])["split"].nunique()
    low, high = splits.min(), splits.max()
    yield (
        f'<p class="note">Runs: {len(results)} · models: {results["model"].nunique()} · datasets: {len(datasets)} · '
        f"splits: {low if low == high else f'{low} to {high}'}. All values are means over splits. Bands show standard "
        "errors and lines at dots show 95 % intervals; both need more than one split.</p>"
    )
    links = (f'<a href="#dataset-{i}">{escape(dataset_name(dataset))}</a>' for i, dataset in enumerate(datasets))
    yield f"<nav>{''.join(links)}</nav>"
    for i, dataset in enumerate(datasets):
        yield f'<h2 id="dataset-{i}">{escape(dataset_name(dataset))}</h2>'
        yield from _render_dataset(results[results["dataset"] == dataset], curves[curves["dataset"] == dataset])


def _render_dataset(results: pd.DataFrame, curves: pd.DataFrame) -> Iterator[str]:
    models = sort_names(sorted(set(results["model"])), MODEL_NAMES)
    scenarios = sort_names(sorted(set(results["scenario"])), SCENARIO_NAMES)
    results = results.dropna(axis="columns", how="all")  # metrics that only other datasets have
    means = {(row["model"], row["scenario"], row["metric"]): row for row in aggregate(results).to_dict("records")}
    colors = model_colors(models)
    legend = charts.legend((model_name(model), colors[model]) for model in models)
    yield f"<h3>Accuracy by rejection, clean</h3>{legend}"
    yield _render_curves(aggregate_curves(curves[curves["scenario"] == CLEAN]), models)
    shifted = set() if BUDGET not in results else set(results.dropna(subset=BUDGET)["scenario"])
    others = [scenario for scenario in scenarios if scenario not in shifted]
    yield f"<h3>Detection of OOD nodes, AUC-ROC</h3>{legend}"
    yield _render_detection(means, models, others)
    if others:
        yield f"<h3>Accuracy and calibration</h3>{legend}"
        yield charts.chart_row(_draw_accuracy_and_calibration(means, models, others))
    yield from _render_shifts(budget_curves(results), models, legend)
    yield "<h3>Cost</h3>"
    yield charts.chart_row(sweep_charts.cost_charts(summarise_costs(results), models))
    yield "<h3>All means</h3>"
    yield _render_table(results, means, models, scenarios)


def _render_curves(curves: pd.DataFrame, models: Sequence[str]) -> str:
    if curves.empty:
        return '<p class="note">No clean run is part of this sweep.</p>'
    measures = sort_measures(curves["measure"])
    return charts.chart_row(sweep_charts.mean_curve_chart(curves[curves["measure"] == m], models, m) for m in measures)


def _render_detection(means: Means, models: Sequence[str], scenarios: Sequence[str]) -> str:
    drawings = []
    for scenario in scenarios:
        measures = find_measures((metric for _, where, metric in means if where == scenario), "ood/auroc")
        if measures:
            groups = {measure_name(m): MetricInScenario(scenario, f"ood/auroc/{m}") for m in measures}
            title = scenario_name(scenario)
            drawings.append(sweep_charts.mean_dots_chart("auroc", title, means, models, groups, y_label="AUC-ROC"))
    if not drawings:
        return '<p class="note">No scenario of this sweep has out-of-distribution nodes.</p>'
    return charts.chart_row(drawings)


def _render_shifts(curves: pd.DataFrame, models: Sequence[str], legend: str) -> Iterator[str]:
    """Draw accuracy, calibration and mean uncertainty against the budget of each shift."""
    correlations = rank_correlations(curves)
    for shift, group in curves.groupby("shift"):
        yield f"<h3>{escape(scenario_name(str(shift)))}, by budget</h3>{legend}"
        metrics = sort_names(group["metric"], (*BUDGET_CURVES, *(f"{MEAN_UNCERTAINTY}/{m}" for m in measure_names())))
        drawn = (sweep_charts.budget_chart(group[group["metric"] == m], models, metric_name(m)) for m in metrics)
        yield charts.chart_row(drawn)
        table = correlations[correlations["shift"] == shift].pivot(index="model", columns="measure", values="value")
        if not table.empty:
            measures = sort_measures(table.columns)
            rows = [[model_name(m), *(_format_correlation(table.loc[m, k]) for k in measures)] for m in table.index]
            yield Table(["model", *map(measure_name, measures)], rows, 1).html()
            yield f'<p class="note">{CORRELATION_NOTE}</p>'


def _format_correlation(value: float) -> str:
    return NO_VALUE if pd.isna(value) else f"{value:.2f}"


def _draw_accuracy_and_calibration(means: Means, models: Sequence[str], scenarios: Sequence[str]) -> Iterator[str]:
    """Draw the accuracy of ID nodes (in clean scenarios, of all test nodes) and the calibration metrics."""
    has_ood = {scenario for _, scenario, metric in means if metric == "id/accuracy"}
    accuracies = {s: "id/accuracy" if s in has_ood else "test/accuracy" for s in scenarios}
    groups = {scenario_name(s): MetricInScenario(s, metric) for s, metric in accuracies.items()}
    yield sweep_charts.mean_dots_chart("accuracy", "Accuracy of ID nodes", means, models, groups)
    for metric in CALIBRATION:
        groups = {scenario_name(s): MetricInScenario(s, metric) for s in scenarios}
        yield sweep_charts.mean_dots_chart("calibration", metric_name(metric), means, models, groups)


def _render_table(results: pd.DataFrame, means: Means, models: Sequence[str], scenarios: Sequence[str]) -> str:
    """Return all means of one dataset: one row per scenario and model, one column per metric."""
    detection = (f"ood/auroc/{measure}" for measure in find_measures(results.columns, "ood/auroc"))
    metrics = [key for key in ("test/accuracy", "id/accuracy", *detection, *CALIBRATION) if key in results]
    marks = {key[1:]: mark for key, mark in mark_best(results, metrics).items()}
    runs = set(zip(results["model"], results["scenario"], strict=True))
    rows = []
    for scenario in scenarios:
        for model in models:
            if (model, scenario) in runs:
                keys = [(model, scenario, metric) for metric in metrics]
                names = (escape(scenario_name(scenario)), escape(model_name(model)))
                cells = [f'<th class="model">{name}</th>' for name in names]
                cells += [_render_cell(means, key, marks.get(key, "")) for key in keys]
                rows.append(f"<tr>{''.join(cells)}</tr>")
    head = "".join(f"<th>{escape(name)}</th>" for name in ("scenario", "model", *map(metric_name, metrics)))
    body = "\n".join(rows)
    table = f'<table class="paper"><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>'
    return f'<div class="wide">{table}</div>\n<p class="note">{TABLE_NOTE}</p>'


def _render_cell(means: Means, key: tuple[str, str, str], mark: str) -> str:
    if key not in means:
        return f"<td>{NO_VALUE}</td>"
    value = means[key]
    scale, digits = (1, 3) if key[-1] in CALIBRATION else (100, 1)
    text = f"{scale * value['mean']:.{digits}f}"
    if not pd.isna(value["se"]):
        text += f" ± {scale * value['se']:.{digits}f}"
    tag = {"best": "strong", "tied": "u"}.get(mark)
    return f'<td title="{value["splits"]:.0f} splits">{f"<{tag}>{text}</{tag}>" if tag else text}</td>'
