"""Charts of calibration: whether predictions are correct as often as their confidence says."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lopgpn_exp.evaluation.metrics import NUM_BINS, cumulative_difference, equal_mass_bins, equal_width_bins
from lopgpn_exp.report.charts.run_charts import COLORS, MAX_POINTS, UNIT
from lopgpn_exp.report.charts.svg import Chart, span


def reliability_charts(confidence: np.ndarray, correct: np.ndarray) -> Iterator[str]:
    """Draw the accuracy by confidence in bins of equal width, and below it the number of nodes per bin."""
    bins = equal_width_bins(confidence)
    count = np.bincount(bins, minlength=NUM_BINS)
    nonempty = np.flatnonzero(count)
    accuracy, mean_confidence = (
        np.bincount(bins, weights=values, minlength=NUM_BINS)[nonempty] / count[nonempty]
        for values in (correct, confidence)
    )
    top = Chart("reliability", "Reliability", x=UNIT, y=UNIT, y_label="accuracy", size=(390, 240))
    bottom = Chart(
        "bins",
        "Nodes per bin",
        x=UNIT,
        y=(0.0, 1.08 * float(count.max())),
        x_label="confidence",
        y_label="test nodes",
        size=(390, 150),
    )
    for index, rate, mean in zip(nonempty.tolist(), accuracy.tolist(), mean_confidence.tolist(), strict=True):
        left, right = index / NUM_BINS, (index + 1) / NUM_BINS
        name = f"confidence {left:.2f} to {right:.2f}: {count[index]} nodes, accuracy {rate:.3f}, mean {mean:.3f}"
        top.rectangle((left, right), (0.0, rate), COLORS[0], name, opacity=0.6)
        top.dot(mean, rate, "currentColor", name)
        bottom.rectangle((left, right), (0.0, float(count[index])), "var(--dim)", name)
    top.line([0, 1], [0, 1], "var(--dim)", "confidence equals accuracy", dash="3 4")
    yield top.svg()
    yield bottom.svg()


def equal_mass_chart(confidence: np.ndarray, correct: np.ndarray) -> str:
    """Draw the accuracy by confidence in bins of equal size, each with its 95 % interval."""
    bins = equal_mass_bins(confidence, correct)
    chart = Chart(
        "equal-mass",
        f"Bins of equal size, error {bins.error:.4f}",
        x=UNIT,
        y=UNIT,
        x_label="confidence",
        y_label="accuracy",
        size=(390, 240),
    )
    chart.line([0, 1], [0, 1], "var(--dim)", "confidence equals accuracy", dash="3 4")
    for size, mean, rate, *interval in zip(bins.size, bins.score, bins.rate, bins.low, bins.high, strict=True):
        low, high = map(float, interval)
        name = f"{size} nodes, confidence {mean:.3f}, accuracy {rate:.3f} [{low:.3f}, {high:.3f}]"
        chart.dot(float(mean), float(rate), COLORS[0], name, y_interval=(low, high))
    return chart.svg()


def cumulative_chart(confidence: np.ndarray, correct: np.ndarray) -> str:
    """Draw the cumulative gap between accuracy and confidence, and the 95 % band of a calibrated model."""
    gap = cumulative_difference(confidence, correct)
    largest = int(np.abs(gap.difference).argmax())
    shown = np.unique([*np.linspace(0, len(gap.difference) - 1, MAX_POINTS).astype(int), largest])
    p_value = "< 0.001" if gap.p_value < 0.001 else f"= {gap.p_value:.3f}"
    chart = Chart(
        "cumulative",
        f"Cumulative gap, at most {gap.error:.4f}, p {p_value}",
        x=(0.0, 100.0),
        y=span([*gap.difference, -gap.band, gap.band]),
        x_label="test nodes, least confident first (%)",
        y_label="accuracy - confidence",
        size=(390, 200),
    )
    chart.band([0, 100], [-gap.band] * 2, [gap.band] * 2, "var(--dim)")
    name = "rises where accuracy exceeds confidence, falls where confidence exceeds accuracy"
    chart.line(100 * gap.coverage[shown], gap.difference[shown], COLORS[0], name)
    return chart.svg()
