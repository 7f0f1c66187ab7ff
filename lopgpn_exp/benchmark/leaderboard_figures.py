"""Figures of the benchmark: how often each method beats another one, and quality against cost."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lopgpn_exp.benchmark.leaderboard import (
    ALL_DATASETS,
    compute_win_rates,
    select_common_datasets,
    select_overall,
)
from lopgpn_exp.benchmark.leaderboard_page import FAMILY_COLORS
from lopgpn_exp.benchmark.method_costs import summarise_method_costs
from lopgpn_exp.benchmark.protocols import family_of
from lopgpn_exp.benchmark.tasks import TASK_BY_NAME, find_tasks
from lopgpn_exp.report.names import METRIC_NAMES, model_name

LETTER_WIDTH, LINE_HEIGHT = 0.013, 0.034  # of labels, as fractions of the axes
PANELS = ("accuracy", "misclassification", "ood")


def draw_win_rates(runs: pd.DataFrame, protocol: str) -> Figure:
    """Draw the win rate of each method in three tasks: the mean over datasets, and one small dot per dataset."""
    runs, rates = select_common_datasets(runs), {}
    for name in PANELS:
        scenarios = [s for s in runs["scenario"].unique() if name in {task.name for task in find_tasks(s)}]
        metric = TASK_BY_NAME[name].metrics[0]
        rates[name] = compute_win_rates(runs, metric, protocol=protocol, scenarios=scenarios)
    models = sorted({model for table in rates.values() for model in table.index})
    figure = Figure(figsize=(10.5, 0.22 * len(models) + 1.2), layout="constrained")
    for axes, (name, table) in zip(figure.subplots(1, len(PANELS)), rates.items(), strict=True):
        means = table.mean(axis="columns").sort_values()
        lacking = _find_lacking(runs, name)
        for height, (model, mean) in enumerate(zip(map(str, means.index), means, strict=True)):
            color, points = FAMILY_COLORS[family_of(model)], table.loc[model].dropna()
            axes.plot(100 * points, np.full(len(points), height), "o", ms=3, color=color, alpha=0.45, lw=0)
            face = "white" if model in lacking else color
            axes.plot([100 * mean], [height], "D", ms=6, color=face, mec=color, mew=1)
        axes.set_yticks(range(len(means)), [model_name(str(model)) for model in means.index], fontsize=8)
        axes.axvline(50, color="#888888", lw=0.7)
        axes.set(xlim=(-2, 102), xlabel="wins against other methods (%)")
        task = TASK_BY_NAME[name]
        axes.set_title(task.heading, fontsize=10)
        axes.grid(axis="x", alpha=0.3, lw=0.5)
    families = sorted({family_of(model) for model in models})
    handles = [Line2D([], [], ls="", marker="D", color=FAMILY_COLORS[f], label=f) for f in families]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(families), frameon=False, fontsize=8)
    return figure


def _find_lacking(runs: pd.DataFrame, task: str) -> set[str]:
    """Return the methods that lack some of the datasets, scenarios or splits that others have."""
    chosen = runs[[task in {other.name for other in find_tasks(scenario)} for scenario in runs["scenario"]]]
    counts = chosen.drop_duplicates(["dataset", "scenario", "split", "model"])["model"].value_counts()
    return set(counts.index[counts < counts.max()])


def draw_costs(board: pd.DataFrame, runs: pd.DataFrame, protocol: str) -> Figure:
    """Draw accuracy and the AUC-ROC of OOD detection against the time of training: means over datasets, if several."""
    summary = summarise_method_costs(runs[runs["protocol"] == protocol])
    costs = summary[summary["dataset"] == ALL_DATASETS].set_index("model")["train"]
    figure = Figure(figsize=(10.5, 4.2), layout="constrained")
    for axes, name in zip(figure.subplots(1, 2), ("accuracy", "ood"), strict=True):
        metric = TASK_BY_NAME[name].metrics[0].path
        rows = select_overall(board[board["protocol"] == protocol], TASK_BY_NAME[name])
        axes.set_xscale("log")
        points = {}
        for model, mean in zip(rows["model"], rows["mean"], strict=True):
            if np.isfinite(costs.get(model, np.nan)) and costs[model] > 0:
                points[model] = (costs[model], 100 * mean)
                axes.plot(*points[model], "o", color=FAMILY_COLORS[family_of(model)])
        axes.set(xlabel="training (processor seconds)", ylabel=f"{METRIC_NAMES[metric]} (%)")
        axes.grid(alpha=0.3, lw=0.5)
        axes.margins(x=0.2)
        _label_points(axes, points)
    return figure


def _label_points(axes: Axes, points: Mapping[str, tuple[float, float]]) -> None:
    """Write the name of each method beside its point, in the nearest line in which it covers no other name."""
    axes.autoscale_view()  # otherwise, the limits are those of an empty plot
    to_axes = axes.transScale + axes.transLimits
    labels: list[tuple[float, float, float]] = []  # left, right, height; as fractions of the axes
    for model, point in sorted(points.items(), key=lambda item: -item[1][1]):
        left, height = to_axes.transform(point)
        left += 0.015
        right = left + LETTER_WIDTH * len(model_name(model))
        taken = [label[2] for label in labels if left < label[1] and label[0] < right]
        shifts = sorted(range(-len(labels) - 1, len(labels) + 2), key=abs)
        lines = [line for shift in shifts if (line := height + LINE_HEIGHT * shift) < 0.99]
        height = next(line for line in lines if all(abs(line - other) >= 0.99 * LINE_HEIGHT for other in taken))
        labels.append((left, right, height))
        axes.annotate(
            model_name(model),
            point,
            (left, height),
            textcoords="axes fraction",
            size=7,
            va="center",
            arrowprops={"arrowstyle": "-", "lw": 0.4, "color": "#888888", "shrinkB": 0, "relpos": (0, 0.5)},
        )
