"""Charts of calibration: whether nodes are right as often as their confidence says."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lopgpn_exp.evaluation.calibration import cumulative_difference, equal_mass_bins
from lopgpn_exp.report.pages.run_charts import COLORS, UNIT
from lopgpn_exp.report.pages.svg import Chart, span

NUM_BINS = 15  # those of `expected_calibration_error`
MOST_POINTS = 300  # of a path: no more can be seen


def reliability_charts(confidence: np.ndarray, correct: np.ndarray) -> Iterator[str]:
    """Accuracy by confidence, and how many nodes each bin has."""
    bins = np.minimum((confidence * NUM_BINS).astype(int), NUM_BINS - 1)
    count = np.bincount(bins, minlength=NUM_BINS)
    filled = np.flatnonzero(count)
    accuracy, meant = (
        np.bincount(bins, weights=values, minlength=NUM_BINS)[filled] / count[filled]
        for values in (correct, confidence)
    )
    top = Chart("reliability", "Reliability", x=UNIT, y=UNIT, y_label="accuracy", size=(390, 240))
    bottom = Chart(
        "bins",
        "Nodes in each bin",
        x=UNIT,
        y=(0.0, 1.08 * float(count.max())),
        x_label="confidence",
        y_label="test nodes",
        size=(390, 150),
    )
    for at, reached, said in zip(filled.tolist(), accuracy.tolist(), meant.tolist(), strict=True):
        left, right = at / NUM_BINS, (at + 1) / NUM_BINS
        name = f"confidence {left:.2f} to {right:.2f}: {count[at]} nodes, accuracy {reached:.3f}, mean {said:.3f}"
        top.bar(left, right, reached, COLORS[0], name, shade=0.6)
        top.dot(said, reached, "currentColor", name)
        bottom.bar(left, right, float(count[at]), "var(--dim)", name)
    top.line([0, 1], [0, 1], "var(--dim)", "confidence equals accuracy", dash="3 4")
    yield top.svg()
    yield bottom.svg()


def equal_mass_chart(confidence: np.ndarray, correct: np.ndarray) -> str:
    """Accuracy by confidence in bins of equally many nodes, each with an interval: sparse bins mislead no one."""
    bins = equal_mass_bins(confidence, correct, num_bins=NUM_BINS)
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
    for size, said, reached, *interval in zip(bins.size, bins.score, bins.rate, bins.low, bins.high, strict=True):
        low, high = map(float, interval)
        name = f"{size} nodes, confidence {said:.3f}, accuracy {reached:.3f} [{low:.3f}, {high:.3f}]"
        chart.dot(float(said), float(reached), COLORS[0], name, interval=(low, high))
    return chart.svg()


def cumulative_chart(confidence: np.ndarray, correct: np.ndarray) -> str:
    """No bins at all: how far apart accuracy and confidence come, and how far those of a calibrated model would."""
    found = cumulative_difference(confidence, correct)
    farthest = int(np.abs(found.difference).argmax())
    shown = np.unique([*np.linspace(0, len(found.difference) - 1, MOST_POINTS).astype(int), farthest])
    chart = Chart(
        "cumulative",
        f"Cumulated gap, at most {found.error:.4f}, p {_p(found.p_value)}",
        x=(0.0, 100.0),
        y=span([*found.difference, -found.band, found.band]),
        x_label="test nodes, least confident first (%)",
        y_label="accuracy - confidence",
        size=(390, 200),
    )
    chart.band([0, 100], [-found.band] * 2, [found.band] * 2, "var(--dim)")
    name = "rises where nodes are right more often than they say, falls where less often"
    chart.line(100 * found.coverage[shown], found.difference[shown], COLORS[0], name)
    return chart.svg()


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"= {value:.3f}"
