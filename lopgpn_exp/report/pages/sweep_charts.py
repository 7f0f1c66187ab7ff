"""The charts of a sweep: one mark a model, in its colour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from lopgpn_exp.report.names import measure_name, model_colors, model_name
from lopgpn_exp.report.pages.svg import Chart, sideways_bars, span


def mean_curve_chart(lines: pd.DataFrame, models: Sequence[str], measure: str) -> str:
    """Mean accuracy-rejection curves of one measure with their standard errors."""
    error = lines["se"].fillna(0.0)
    low, high = span([(lines["mean"] - error).min(), (lines["mean"] + error).max()])
    chart = Chart(
        "mean-arc",
        measure_name(measure),
        x=(0.0, 99.0),
        y=(low, min(high, 1.005)),
        x_label="test nodes rejected (%)",
        y_label="accuracy of the rest",
        size=(380, 270),
    )
    colors, used = model_colors(models), set[str]()
    for model in models:
        line = lines[lines["model"] == model].sort_values("percent")
        if line.empty:
            continue
        percent, mean, se = (line[column].to_numpy() for column in ("percent", "mean", "se"))
        color = colors[model]
        if not pd.isna(se).any():
            chart.band(percent, mean - se, mean + se, color)
        # There are more models than colours, if there are many.
        chart.line(percent, mean, color, model_name(model), dash="6 3" if color in used else "")
        used.add(color)
    return chart.svg()


def mean_dots_chart(
    kind: str,
    title: str,
    means: pd.DataFrame,
    models: Sequence[str],
    groups: dict[str, tuple[str, str]],
    *,
    y_label: str = "",
) -> str:
    """A dot a model with its 95 % interval, side by side in groups: each a name, and the scenario and metric it shows.

    Args:
        means: of `aggregate`, by model, scenario and metric.
    """
    found = {
        (at, model): means.loc[(model, scenario, metric)]
        for at, (scenario, metric) in enumerate(groups.values())
        for model in models
        if (model, scenario, metric) in means.index
    }
    edges = [row[key] for row in found.values() for key in ("mean", "low", "high") if not pd.isna(row[key])]
    chart = Chart(
        kind,
        title,
        x=(-0.5, len(groups) - 0.5),
        y=span(edges, margin=0.06),
        y_label=y_label,
        size=(max(380, 60 + 86 * len(groups)), 260),
        x_ticks={float(at): name for at, name in enumerate(groups)},
    )
    colors = model_colors(models)
    for (at, model), row in found.items():
        x = at + 0.7 * ((models.index(model) + 0.5) / len(models) - 0.5)
        interval = None if pd.isna(row["low"]) else (float(row["low"]), float(row["high"]))
        spread = "" if interval is None else f", {interval[0]:.4f} to {interval[1]:.4f}"
        name = f"{model_name(model)}: {row['mean']:.4f}{spread} ({row['splits']:.0f} splits)"
        chart.dot(x, float(row["mean"]), colors[model], name, interval=interval)
    return chart.svg()


def cost_charts(table: pd.DataFrame, models: Sequence[str]) -> Iterator[str]:
    """What a training took on average, and the most memory a run held."""
    colors = model_colors(models)
    trained = table[table["trainings"] > 0]
    seconds = 3600 * trained["train_hours"] / trained["trainings"]
    for title, values, form in (
        ("Seconds of a training, mean", seconds, "{:.3g} s"),
        ("Epochs of a training, mean", trained["mean_epochs"], "{:.0f}"),
        ("Largest memory of a run", table["peak_mb"], "{:.0f} MB"),
    ):
        bars = [(model_name(m), float(values[m]), form.format(values[m]), colors[m]) for m in models if m in values]
        if bars:
            yield sideways_bars("cost", title, bars)
