"""Matplotlib figures: those of one run, and saving any figure reproducibly. No pyplot: no global state, no window."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from lopgpn_exp.evaluation import Evaluation
from lopgpn_exp.report.names import find_measures, measure_color, measure_name

# SVG ids are random unless salted; dates and versions would change every file at every build.
SETTINGS: dict[Any, Any] = {"svg.hashsalt": "lopgpn_exp", "pdf.fonttype": 42, "path.simplify": True}
METADATA = {
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
}


def save_run_figures(folder: Path, evaluation: Evaluation, *, title: str) -> None:
    """Write `arc.png`, and `ood.png` if there are out-of-distribution test nodes."""
    measures = find_measures(evaluation.curves, "arc")
    curves = {measure: evaluation.curves[f"arc/{measure}"] for measure in measures}
    _draw_rejection_curves(curves, title).savefig(folder / "arc.png", dpi=120)
    test = evaluation.predictions.query("part == 'test'")
    if test["is_ood"].any():
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
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for measure, curve in curves.items():
        axes.plot(np.arange(len(curve)), curve, label=measure_name(measure), color=measure_color(measure), lw=1.6)
    axes.set(xlabel="test nodes rejected, most uncertain first (%)", ylabel="accuracy of the others", xlim=(0, 99))
    axes.set_title(title, fontsize=9)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)
    return figure


def _draw_ood_histograms(test: pd.DataFrame, titles: dict[str, str], title: str) -> Figure:
    """Draw the ranks of each measure for ID and OOD nodes: the values themselves span many orders of magnitude."""
    figure = Figure(figsize=(2.2 * len(titles), 2.6), layout="constrained")
    bins = np.linspace(0, 1, 31)
    panels = np.atleast_1d(figure.subplots(1, len(titles), sharey=True))
    for axes, (measure, panel_title) in zip(panels, titles.items(), strict=True):
        ranks = test[measure].rank(pct=True)
        axes.hist(ranks[~test["is_ood"]], bins=bins, density=True, color="#4477AA", alpha=0.7, label="ID")
        axes.hist(ranks[test["is_ood"]], bins=bins, density=True, color="#EE6677", alpha=0.7, label="OOD")
        axes.set_title(panel_title, fontsize=8)
        axes.set_xlabel("rank of uncertainty", fontsize=8)
        axes.tick_params(labelsize=7)
    figure.axes[0].legend(frameon=False, fontsize=8)
    figure.suptitle(title, fontsize=9)
    return figure
