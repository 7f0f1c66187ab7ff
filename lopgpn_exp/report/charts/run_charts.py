"""Charts of one run: rejection curves, detection of OOD nodes, distributions, training history, confusion matrix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from lopgpn_exp.evaluation.metrics import area_under_curve, equal_mass_bins
from lopgpn_exp.evaluation.metrics.detection import roc_curve
from lopgpn_exp.report.charts.svg import Chart, span
from lopgpn_exp.report.names import find_measures, measure_color, measure_name

NAME_WIDTH = 40.0  # pixels for the class names to the left of the confusion matrix
LETTER_WIDTH = 6.2
MAX_CLASSES = 64
MAX_POINTS = 300  # per curve: more cannot be seen
# Of the group of nodes that should be certain, and of the one that should be uncertain.
COLORS = ("#4477AA", "#EE6677")
UNIT = (0.0, 1.0)


def rejection_chart(curves: Mapping[str, Sequence[float]]) -> str:
    """Draw accuracy-rejection curves, given by the keys `arc/<measure>`."""
    measures = find_measures(curves, "arc")
    low, high = span(value for measure in measures for value in curves[f"arc/{measure}"])
    chart = Chart(
        "arc",
        "Accuracy by rejection",
        x=(0.0, 99.0),
        y=(low, min(high, 1.005)),
        x_label="test nodes rejected, most uncertain first (%)",
        y_label="accuracy of the others",
        size=(470, 330),
    )
    for measure in measures:
        curve = curves[f"arc/{measure}"]
        name = f"{measure_name(measure)}, AUARC {area_under_curve(np.array(curve)):.4f}"
        chart.line(np.arange(len(curve)), curve, measure_color(measure), name)
    return chart.svg()


def set_charts(curves: Mapping[str, Sequence[float]]) -> Iterator[str]:
    """Draw coverage and mean size of prediction sets, given by the keys `sets/*`, by their nominal coverage."""
    nominal = curves["sets/nominal"]
    charts = {
        "coverage": ("Coverage of prediction sets", "sets that contain the class"),
        "size": ("Size of prediction sets", "mean number of classes"),
    }
    for key, (title, label) in charts.items():
        values = curves[f"sets/{key}"]
        chart = Chart(
            f"sets-{key}",
            title,
            x=span(nominal, margin=0.0),
            y=span([*values, *nominal] if key == "coverage" else values),
            x_label="nominal coverage",
            y_label=label,
            size=(350, 330),
        )
        if key == "coverage":
            chart.line(nominal, nominal, "var(--dim)", "nominal", dash="3 4")
        chart.line(nominal, values, COLORS[0], f"{label}, {values[0]:.3f} to {values[-1]:.3f}")
        yield chart.svg()


def error_chart(uncertainties: Mapping[str, np.ndarray], correct: np.ndarray) -> str:
    """Draw the error rate of each tenth of the nodes, by each measure. A good measure rises from left to right."""
    bins = {measure: equal_mass_bins(values, ~correct, num_bins=10) for measure, values in uncertainties.items()}
    chart = Chart(
        "errors",
        "Errors by uncertainty",
        x=(0.0, 100.0),
        y=(0.0, 1.08 * max(float(tenths.rate.max()) for tenths in bins.values()) or 1.0),
        x_label="test nodes, least uncertain first (%)",
        y_label="error rate of each tenth",
        size=(350, 330),
    )
    for measure, tenths in bins.items():
        first, last = (f"{tenths.rate[i]:.3f} [{tenths.low[i]:.3f}, {tenths.high[i]:.3f}]" for i in (0, -1))
        name = f"{measure_name(measure)}, error rate of the least uncertain tenth {first}, of the most uncertain {last}"
        chart.line(100 * tenths.quantile, tenths.rate, measure_color(measure), name)
    return chart.svg()


def history_charts(history: Mapping[str, Sequence[Sequence[float]]]) -> Iterator[str]:
    """Draw each quantity that training reported, given as pairs of epoch and value."""
    for key, points in history.items():
        name = key.removeprefix("training/").replace("_", " ")
        epochs, values = np.array(points, dtype=float).T
        chart = Chart("history", name, x=span(epochs, margin=0.0), y=span(values), x_label="epoch", size=(370, 210))
        chart.line(epochs, values, COLORS[0], f"{name}, minimum {values.min():.4g}")
        yield chart.svg()


def roc_chart(test: pd.DataFrame, measures: Sequence[str], *, colors: Mapping[str, str] | None = None) -> str:
    """Draw ROC curves of OOD detection.

    Args:
        test: one row per test node, with the column `is_ood` and one column per measure.
        colors: by measure, for columns that are not measures of a posterior.
    """
    chart = Chart(
        "roc",
        "Detection of OOD nodes",
        x=UNIT,
        y=UNIT,
        x_label="share of ID nodes flagged (false positives)",
        y_label="share of OOD nodes flagged (true positives)",
        size=(350, 330),
    )
    chart.line([0, 1], [0, 1], "var(--dim)", "chance", dash="3 4")
    for measure in measures:
        false, true = roc_curve(test[measure].to_numpy(), test["is_ood"].to_numpy())
        area = np.trapezoid(true, false)
        color = measure_color(measure) if colors is None else colors[measure]
        chart.line(*_thin_out(false, true), color, f"{measure_name(measure)}, AUC-ROC {area:.4f}")
    return chart.svg()


def _thin_out(false: np.ndarray, true: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return at most MAX_POINTS points of a ROC curve, at even steps of the sum of both coordinates."""
    if len(false) <= MAX_POINTS:
        return false, true
    sums = np.linspace(0, 2, MAX_POINTS)
    return np.interp(sums, false + true, false), np.interp(sums, false + true, true)


def distribution_charts(
    values: pd.DataFrame, is_second: np.ndarray, group_names: tuple[str, str], titles: Mapping[str, str]
) -> Iterator[str]:
    """Draw one histogram per measure of two groups of nodes, as shares of each group.

    Args:
        values: one row per node, one column per measure.
        is_second: whether a node belongs to the second group.
        titles: of the charts, by measure.
    """
    for measure, title in titles.items():
        column, edges, label = _bin_values(values[measure], measure_name(measure))
        shares = [np.histogram(column[group], edges)[0] / group.sum() for group in (~is_second, is_second)]
        chart = Chart(
            "distribution",
            title,
            x=(float(edges[0]), float(edges[-1])),
            y=(0.0, 1.08 * float(np.max(shares))),
            x_label=label,
            y_label="share of nodes",
            size=(370, 210),
        )
        for share, color, name in zip(shares, COLORS, group_names, strict=True):
            chart.steps(edges, share, color, name)
        yield chart.svg()


def _bin_values(values: pd.Series, name: str) -> tuple[np.ndarray, np.ndarray, str]:
    """Return the values that a histogram counts, the edges of its bins, and the label of its axis.

    The 0.5 % of nodes at either end are counted in the outermost bins, because a single outlier could stretch the axis
    until nothing else can be seen. If one bin still holds most of the values, ranks are counted instead.
    """
    column = values.to_numpy()
    edges = np.linspace(*span(np.quantile(column, [0.005, 0.995]), margin=0.0), 31)
    clipped = np.clip(column, edges[0], edges[-1])
    if np.histogram(clipped, edges)[0].max() <= 0.7 * len(column):
        return clipped, edges, name
    return values.rank(pct=True).to_numpy(), np.linspace(0, 1, 31), f"rank of {name} (most values are nearly equal)"


def confusion_counts(labels: np.ndarray, predicted: np.ndarray, num_classes: int) -> np.ndarray:
    """Return the number of nodes per label (rows) and predicted class (columns); left-out classes are the last rows."""
    num_rows = max(num_classes, int(labels.max()) + 1)
    return np.bincount(labels * num_classes + predicted, minlength=num_rows * num_classes).reshape(-1, num_classes)


def confusion_chart(counts: np.ndarray, class_names: Sequence[str] | None = None) -> str:
    """Draw a confusion matrix, shaded by the share of each row.

    With more than 20 classes, small shares get no number. Names that do not fit are shortened at the axes and complete
    in the hover texts; without names, classes are numbered.
    """
    num_rows, num_classes = counts.shape
    names = [str(k) for k in range(num_rows)] if class_names is None else list(class_names)
    side = min(46.0, 900 / num_classes)
    step = 1 if side > 17 else 2
    chart = Chart(
        "confusion",
        "Confusion matrix",
        x=(0.0, float(num_classes)),
        y=(float(num_rows), 0.0),
        x_label="predicted class",
        y_label="class",
        size=(round(62 + side * num_classes), round(62 + side * num_rows)),
        x_ticks={k + 0.5: _shorten(names[k], side) for k in range(0, num_classes, step)},
        y_ticks={k + 0.5: _shorten(names[k], NAME_WIDTH) for k in range(0, num_rows, step)},
    )
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    for row, column in zip(*map(np.ndarray.tolist, np.nonzero(counts)), strict=True):
        count, share = counts[row, column], float(shares[row, column])
        text = f"class {names[row]} predicted as {names[column]}: {count} nodes, {100 * share:.1f} % of the class"
        color = COLORS[1] if row >= num_classes else COLORS[0]
        chart.rectangle((column, column + 1), (row + 1, row), color, text, opacity=0.06 + 0.69 * share, gap=1)
        if num_classes <= 20 or share >= 0.02:
            chart.text(column + 0.5, row + 0.5, str(count), size=min(12.0, side / max(2.6, 0.72 * len(str(count)))))
    return chart.svg(grid=False)


def _shorten(name: str, width: float) -> str:
    """Cut a name to what fits into a width in pixels."""
    length = max(2, int(width / LETTER_WIDTH))
    return name if len(name) <= length else f"{name[: length - 1]}…"
