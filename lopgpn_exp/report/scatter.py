"""Ours against theirs, cell by cell."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lopgpn_exp.report.audit import NOISE_POINTS, VERDICTS
from lopgpn_exp.report.names import MODEL_COLORS, MODEL_NAMES, SCENARIO_NAMES

MARKERS = {"none": "D", "leave_out_classes": "o", "bernoulli": "^", "gaussian": "s"}


def scatter(table: pd.DataFrame) -> Figure:
    """Printed cells; hollow where the public code does not give the published value either."""
    figure = Figure(figsize=(7.2, 5.3), layout="constrained")
    axes = figure.subplots()
    axes.fill_between(
        [0, 100], [-NOISE_POINTS, 100 - NOISE_POINTS], [NOISE_POINTS, 100 + NOISE_POINTS], color="#DDDDDD"
    )
    axes.plot([0, 100], [0, 100], color="#888888", lw=0.8)
    shown = table[table["printed"]]
    for (model, scenario), group in shown.groupby(["model", "scenario"]):
        outside = group["verdict"] == VERDICTS[3]
        for cells, face in ((group[~outside], MODEL_COLORS[model]), (group[outside], "none")):
            axes.scatter(
                cells["published"],
                cells["ours"],
                s=20,
                marker=MARKERS[scenario],
                facecolors=face,
                edgecolors=MODEL_COLORS[model],
                linewidths=0.9,
                alpha=0.85,
            )
    axes.set(xlim=(0, 100), ylim=(0, 100), xlabel="published (%)", ylabel="ours (%)", aspect="equal")
    axes.grid(alpha=0.3, lw=0.5)
    models = [m for m in MODEL_NAMES if (shown["model"] == m).any()]
    dots = [Line2D([], [], ls="", marker="o", color=MODEL_COLORS[m], label=MODEL_NAMES[m]) for m in models]
    dots += [Line2D([], [], ls="", marker=k, color="#555555", label=SCENARIO_NAMES[s]) for s, k in MARKERS.items()]
    dots.append(Line2D([], [], ls="", marker="o", mfc="none", color="#555555", label=VERDICTS[3]))
    figure.legend(handles=dots, loc="outside right upper", frameon=False, fontsize=8)
    return figure
