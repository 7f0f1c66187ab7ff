"""Charts of a sweep: one line, dot or bar per model, in its colour."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from lopgpn_exp.report.charts.svg import Chart, span
from lopgpn_exp.report.names import measure_name, model_colors, model_name

# Rows of `aggregate` for one dataset, by model, scenario and metric.
Means = Mapping[tuple[str, str, str], Mapping[Hashable, Any]]


class MetricInScenario(NamedTuple):
    scenario: str
    metric: str


def mean_curve_chart(curves: pd.DataFrame, models: Sequence[str], measure: str) -> str:
    """Draw the mean accuracy-rejection curves of one measure with their standard errors."""
    low, high = _span_curves(curves)
    chart = Chart(
        "mean-arc",
        measure_name(measure),
        x=(0.0, 99.0),
        y=(low, min(high, 1.005)),
        x_label="test nodes rejected (%)",
        y_label="accuracy of the others",
        size=(380, 270),
    )
    _draw_curves(chart, curves, models, x="percent")
    return chart.svg()


def budget_chart(curves: pd.DataFrame, models: Sequence[str], title: str) -> str:
    """Draw the means of one metric against the budget of a shift, with their standard errors."""
    chart = Chart(
        "budget",
        title,
        x=(0.0, max(float(curves["budget"].max()), 1e-9)),
        y=_span_curves(curves),
        x_label="budget: share of edges changed",
        size=(380, 250),
    )
    _draw_curves(chart, curves, models, x="budget")
    return chart.svg()


def _span_curves(curves: pd.DataFrame) -> tuple[float, float]:
    error = curves["se"].fillna(0.0)
    return span([(curves["mean"] - error).min(), (curves["mean"] + error).max()])


def _draw_curves(chart: Chart, curves: pd.DataFrame, models: Sequence[str], *, x: str) -> None:
    """Draw one line per model, with a band of one standard error."""
    colors, used = model_colors(models), set[str]()
    for model in models:
        curve = curves[curves["model"] == model].sort_values(x)
        if curve.empty:
            continue
        xs, mean, se = (curve[column].to_numpy() for column in (x, "mean", "se"))
        color = colors[model]
        if not pd.isna(se).any():
            chart.band(xs, mean - se, mean + se, color)
        # Colours repeat if there are more models than colours.
        chart.line(xs, mean, color, model_name(model), dash="6 3" if color in used else "")
        used.add(color)


def mean_dots_chart(
    kind: str,
    title: str,
    means: Means,
    models: Sequence[str],
    groups: Mapping[str, MetricInScenario],
    *,
    y_label: str = "",
) -> str:
    """Draw one dot per model with its 95 % interval, side by side in named groups."""
    rows = {
        (position, model): means[model, group.scenario, group.metric]
        for position, group in enumerate(groups.values())
        for model in models
        if (model, group.scenario, group.metric) in means
    }
    values = [row[key] for row in rows.values() for key in ("mean", "low", "high") if not pd.isna(row[key])]
    chart = Chart(
        kind,
        title,
        x=(-0.5, len(groups) - 0.5),
        y=span(values, margin=0.06),
        y_label=y_label,
        size=(max(380, 60 + 86 * len(groups)), 260),
        x_ticks={float(position): name for position, name in enumerate(groups)},
    )
    colors = model_colors(models)
    for (position, model), row in rows.items():
        x = position + 0.7 * ((models.index(model) + 0.5) / len(models) - 0.5)
        has_interval = not pd.isna(row["low"])
        interval = f", {row['low']:.4f} to {row['high']:.4f}" if has_interval else ""
        name = f"{model_name(model)}: {row['mean']:.4f}{interval} ({row['splits']:.0f} splits)"
        chart.dot(x, row["mean"], colors[model], name, y_interval=(row["low"], row["high"]) if has_interval else None)
    return chart.svg()


def cost_charts(costs: pd.DataFrame, models: Sequence[str]) -> Iterator[str]:
    """Draw the mean duration and epochs of a training, and the peak memory of a run.

    Args:
        costs: as returned by `summarise_costs`.
    """
    colors = model_colors(models)
    trained = costs[costs["trainings"] > 0]
    seconds = 3600 * trained["train_hours"] / trained["trainings"]
    for title, values, form in (
        ("Seconds per training, mean", seconds, "{:.3g} s"),
        ("Epochs per training, mean", trained["mean_epochs"], "{:.0f}"),
        ("Peak memory of a run", costs["peak_mb"], "{:.0f} MB"),
    ):
        shown = {model: float(values[model]) for model in models if model in values}
        if shown:
            yield _bar_chart(title, shown, form, colors)


def _bar_chart(title: str, values: Mapping[str, float], form: str, colors: Mapping[str, str]) -> str:
    """Draw one horizontal bar per model, with its value at the end."""
    longest = max(values.values()) or 1.0
    chart = Chart(
        "cost",
        title,
        x=(0.0, 1.3 * longest),  # space for the values
        y=(float(len(values)), 0.0),
        size=(380, 30 + 22 * len(values)),
        x_ticks={},
        y_ticks={row + 0.5: model_name(model) for row, model in enumerate(values)},
        left=118.0,
    )
    for row, (model, value) in enumerate(values.items()):
        text = form.format(value)
        chart.rectangle((0.0, value), (row + 0.84, row + 0.16), colors[model], f"{model_name(model)}: {text}")
        chart.text(value + 0.03 * longest, row + 0.5, text, anchor="start")
    return chart.svg(grid=False)
