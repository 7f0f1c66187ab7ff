"""The charts of one run, from its result and its table of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from lopgpn_exp.evaluation.calibration import equal_mass_bins
from lopgpn_exp.evaluation.rejection import area_under_curve
from lopgpn_exp.report.names import measure_color, measure_name
from lopgpn_exp.report.pages.svg import Chart, span

MARGIN = 40.0  # pixels for the names at the left
PIXELS_OF_A_LETTER = 6.2
MOST_CLASSES = 64
# The group that should be certain, and the one that should not.
COLORS = ("#4477AA", "#EE6677")
UNIT = (0.0, 1.0)


def rejection_chart(curves: dict[str, list[float]]) -> str:
    low, high = span(value for curve in curves.values() for value in curve)
    chart = Chart(
        "arc",
        "Accuracy by rejection",
        x=(0.0, 99.0),
        y=(low, min(high, 1.005)),
        x_label="test nodes rejected, most uncertain first (%)",
        y_label="accuracy of the rest",
        size=(470, 330),
    )
    for key, curve in curves.items():
        measure = key.removeprefix("arc/")
        name = f"{measure_name(measure)}, mean height {area_under_curve(np.array(curve)):.4f}"
        chart.line(np.arange(len(curve)), curve, measure_color(measure), name)
    return chart.svg()


def error_chart(uncertainties: dict[str, np.ndarray], correct: np.ndarray) -> str:
    """The error rate of tenths of the nodes, by each measure: one that is worth its name rises all the way."""
    bins = {measure: equal_mass_bins(values, ~correct, num_bins=10) for measure, values in uncertainties.items()}
    chart = Chart(
        "errors",
        "Errors by uncertainty",
        x=(0.0, 100.0),
        y=(0.0, 1.08 * max(float(each.rate.max()) for each in bins.values()) or 1.0),
        x_label="test nodes, least uncertain first (%)",
        y_label="error rate of a tenth",
        size=(350, 330),
    )
    for measure, each in bins.items():
        ends = [f"{each.rate[i]:.3f} [{each.low[i]:.3f}, {each.high[i]:.3f}]" for i in (0, -1)]
        name = f"{measure_name(measure)}, error rate of the most certain {ends[0]}, of the least certain {ends[1]}"
        chart.line(100 * each.quantile, each.rate, measure_color(measure), name)
    return chart.svg()


def history_charts(history: dict[str, Sequence[Sequence[float]]]) -> Iterator[str]:
    """What training reported, a chart a quantity: pairs of epoch and value."""
    for key, pairs in history.items():
        name = key.removeprefix("training/").replace("_", " ")
        epochs, values = np.array(pairs, dtype=float).T
        chart = Chart("history", name, x=span(epochs, margin=0.0), y=span(values), x_label="epoch", size=(370, 210))
        chart.line(epochs, values, COLORS[0], f"{name}, smallest {values.min():.4g}")
        yield chart.svg()


def roc_chart(test: pd.DataFrame, measures: Sequence[str], *, colors: Mapping[str, str] | None = None) -> str:
    """`colors` of what is no measure of a posterior."""
    from sklearn.metrics import roc_curve  # only where nodes are OOD, and then it is there already

    chart = Chart(
        "roc",
        "Finding OOD nodes",
        x=UNIT,
        y=UNIT,
        x_label="ID nodes flagged (false positives)",
        y_label="OOD nodes found (true positives)",
        size=(350, 330),
    )
    chart.line([0, 1], [0, 1], "var(--dim)", "by chance", dash="3 4")
    for measure in measures:
        false, true, _ = roc_curve(test["is_ood"], test[measure])
        area = np.trapezoid(true, false)
        color = measure_color(measure) if colors is None else colors[measure]
        chart.line(*_thinned(false, true), color, f"{measure_name(measure)}, AUC-ROC {area:.4f}")
    return chart.svg()


def _thinned(false: np.ndarray, true: np.ndarray, *, most: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """A curve of at most so many points, taken at even steps along both axes together: no more can be seen."""
    if len(false) <= most:
        return false, true
    along = np.linspace(0, 2, most)
    return np.interp(along, false + true, false), np.interp(along, false + true, true)


def distribution_charts(
    values: pd.DataFrame, doubtful: np.ndarray, names: tuple[str, str], titles: dict[str, str]
) -> Iterator[str]:
    """A histogram a measure of two groups of nodes, each in shares of its own group."""
    for measure, title in titles.items():
        column, edges, label = _binned(values[measure], measure_name(measure))
        shares = [np.histogram(column[group], edges)[0] / group.sum() for group in (~doubtful, doubtful)]
        chart = Chart(
            "distribution",
            title,
            x=(float(edges[0]), float(edges[-1])),
            y=(0.0, 1.08 * float(np.max(shares))),
            x_label=label,
            y_label="share of nodes",
            size=(370, 210),
        )
        for share, color, name in zip(shares, COLORS, names, strict=True):
            chart.steps(edges, share, color, name)
        yield chart.svg()


def _binned(values: pd.Series, name: str) -> tuple[np.ndarray, np.ndarray, str]:
    """What a histogram counts, its bins, and what to write below.

    Half a percent of the nodes at either end count in the outermost bin: one of them alone could be the whole axis.
    Where most values still crowd in one bin, as those that differ by orders of magnitude do, ranks are counted.
    """
    column = values.to_numpy()
    edges = np.linspace(*span(np.quantile(column, [0.005, 0.995]), margin=0.0), 31)
    inside = np.clip(column, edges[0], edges[-1])
    if np.histogram(inside, edges)[0].max() <= 0.7 * len(column):
        return inside, edges, name
    return values.rank(pct=True).to_numpy(), np.linspace(0, 1, 31), f"rank of {name}: its values crowd in one place"


def confusion_counts(labels: np.ndarray, predicted: np.ndarray, num_classes: int) -> np.ndarray:
    """Labels by rows, those of left-out classes below the known ones; predictions by columns."""
    num_rows = max(num_classes, int(labels.max()) + 1)
    return np.bincount(labels * num_classes + predicted, minlength=num_rows * num_classes).reshape(-1, num_classes)


def confusion_chart(counts: np.ndarray, names: Sequence[str] | None = None) -> str:
    """Shares of a row as shades; where there are many classes, numbers only at what holds a share worth reading.

    Classes have numbers where they have no names; a name that is too long for its place is whole at the cells.
    """
    num_rows, num_classes = counts.shape
    called = [str(k) for k in range(num_rows)] if names is None else list(names)
    side = min(46.0, 900 / num_classes)
    size = (round(62 + side * num_classes), round(62 + side * num_rows))
    every = 1 if side > 17 else 2
    chart = Chart(
        "confusion",
        "Confusion matrix",
        x=(0.0, float(num_classes)),
        y=(float(num_rows), 0.0),
        x_label="predicted class",
        y_label="class",
        size=size,
        x_ticks={k + 0.5: _short(called[k], side) for k in range(0, num_classes, every)},
        y_ticks={k + 0.5: _short(called[k], MARGIN) for k in range(0, num_rows, every)},
    )
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    for row, column in zip(*map(np.ndarray.tolist, np.nonzero(counts)), strict=True):
        count, share = counts[row, column], float(shares[row, column])
        name = f"class {called[row]} predicted as {called[column]}: {count} nodes, {100 * share:.1f} % of the class"
        color = COLORS[1] if row >= num_classes else COLORS[0]
        chart.cell(column, row, color, name, shade=0.06 + 0.69 * share)
        if num_classes <= 20 or share >= 0.02:
            chart.text(column + 0.5, row + 0.5, str(count), size=min(12.0, side / max(2.6, 0.72 * len(str(count)))))
    return chart.svg(grid=False)


def _short(name: str, width: float) -> str:
    """As much of a name as a place of so many pixels holds."""
    most = max(2, int(width / PIXELS_OF_A_LETTER))
    return name if len(name) <= most else f"{name[: most - 1]}…"
