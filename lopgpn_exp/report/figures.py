"""Matplotlib figures: those of one run, and saving any figure reproducibly. No pyplot: no global state, no window."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from lopgpn_exp.evaluation.evaluate import Evaluation
from lopgpn_exp.report.names import find_measures, measure_color, measure_name

# SVG ids are random unless salted; dates and versions would change every file at every build.
SETTINGS: dict[Any, Any] = {"svg.hashsalt": "lopgpn_exp", "pdf.fonttype": 42, "path.simplify": True}
METADATA = {
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
}


def save_run_figures(folder: Path, evaluation: Evaluation, *, title: str) -> None:
    """Write `arc.png`, and `ood.png` if there are both in-distribution and out-of-distribution test nodes."""
    measures = find_measures(evaluation.curves, "arc")
    curves = {measure: evaluation.curves[f"arc/{measure}"] for measure in measures}
    _draw_rejection_curves(curves, title).savefig(folder / "arc.png", dpi=120)
    test = evaluation.predictions.query("part == 'test'")
    if find_measures(evaluation.metrics, "ood/auroc"):
        titles = {m: f"{measure_name(m)}  AUC-ROC {evaluation.metrics[f'ood/auroc/{m}']:.3f}" for m in measures}
        _draw_ood_histograms(test, titles, title).savefig(folder / "ood.png", dpi=120)


def save_figure(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write `name.pdf`, `name.svg` and `name.png`, the same bytes each time; return the paths."""
    _fix_layout(figure)
    paths = []
    for kind, metadata in METADATA.items():
        path = folder / f"{name}.{kind}"
        with matplotlib.rc_context(SETTINGS):
            figure.savefig(path, metadata=metadata, dpi=150)
        paths.append(path)
    return paths


def figure_to_svg(figure: Figure) -> str:
    """Return the figure as an SVG element to embed in a page."""
    _fix_layout(figure)
    buffer = io.StringIO()
    with matplotlib.rc_context(SETTINGS):
        figure.savefig(buffer, format="svg", metadata=METADATA["svg"])
    text = buffer.getvalue()
    return text[text.index("<svg") :].strip()


def _fix_layout(figure: Figure) -> None:
    """Compute the layout once for all file formats, because that takes longest.

    The first of the two passes does not yet have all labels.
    """
    for _ in range(2):
        figure.draw_without_rendering()
    figure.set_layout_engine("none")


def _draw_rejection_curves(curves: dict[str, list[float]], title: str) -> Figure:
    figure = Figure(figsize=(6, 4))
    axes = figure.add_axes((0.13, 0.13, 0.84, 0.79))  # a computed layout takes longer than the drawing
    for measure, curve in curves.items():
        axes.plot(np.arange(len(curve)), curve, label=measure_name(measure), color=measure_color(measure), lw=1.6)
    axes.set(xlabel="test nodes rejected, most uncertain first (%)", ylabel="accuracy of the others", xlim=(0, 99))
    axes.set_title(title, fontsize=9)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)
    return figure


def _draw_ood_histograms(test: pd.DataFrame, titles: dict[str, str], title: str) -> Figure:
    """Draw the ranks of each measure for ID and OOD nodes: the values themselves span many orders of magnitude.

    The histograms share one pair of axes, side by side, since most of the time goes into axes and their ticks.
    """
    width = 0.6 + 2.2 * len(titles)  # inches
    figure = Figure(figsize=(width, 2.6))
    axes = figure.add_axes((0.45 / width, 0.2, 1 - 0.6 / width, 0.6))
    bins = np.linspace(0, 1, 31)
    for number, (measure, panel_title) in enumerate(titles.items()):
        ranks, left = test[measure].rank(pct=True), 1.1 * number
        for is_shown, color in ((~test["is_ood"], "#4477AA"), (test["is_ood"], "#EE6677")):
            density, _ = np.histogram(ranks[is_shown], bins=bins, density=True)
            axes.stairs(density, left + bins, fill=True, color=color, alpha=0.7)
        axes.text(left + 0.5, 1.03, panel_title, fontsize=8, ha="center", transform=axes.get_xaxis_transform())
    ticks = [1.1 * number + rank for number in range(len(titles)) for rank in (0, 0.5, 1)]
    axes.set_xticks(ticks, ["0", "0.5", "1"] * len(titles))
    axes.set_xlim(-0.05, ticks[-1] + 0.05)
    axes.set_xlabel("rank of uncertainty", fontsize=8)
    axes.tick_params(labelsize=7)
    axes.legend(axes.patches[:2], ["ID", "OOD"], frameon=False, fontsize=8)
    figure.suptitle(title, fontsize=9)
    return figure
