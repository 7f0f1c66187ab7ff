"""Figures of one run. Drawn without pyplot: no global state, no window."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from lopgpn_exp.evaluation import Evaluation
from lopgpn_exp.report.names import MEASURE_COLORS, MEASURE_NAMES


def save_figures(folder: Path, evaluation: Evaluation, *, title: str) -> None:
    """`arc.png` always; `ood.png` where nodes are out-of-distribution."""
    _arc(evaluation.curves, title).savefig(folder / "arc.png", dpi=120)
    test = evaluation.predictions.query("part == 'test'")
    if test["is_ood"].any():
        _ood(test, evaluation, title).savefig(folder / "ood.png", dpi=120)


def _arc(curves: dict[str, list[float]], title: str) -> Figure:
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for key, curve in curves.items():
        measure = key.removeprefix("arc/")
        axes.plot(np.arange(len(curve)), curve, label=MEASURE_NAMES[measure], color=MEASURE_COLORS[measure], lw=1.6)
    axes.set(xlabel="test nodes rejected, most uncertain first (%)", ylabel="accuracy of the rest", xlim=(0, 99))
    axes.set_title(title, fontsize=9)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)
    return figure


def _ood(test: pd.DataFrame, evaluation: Evaluation, title: str) -> Figure:
    """Each measure's distribution on ID and on OOD nodes, over its ranks: scales differ by many orders of magnitude."""
    measures = [key.removeprefix("arc/") for key in evaluation.curves]
    figure = Figure(figsize=(2.2 * len(measures), 2.6), layout="constrained")
    bins = np.linspace(0, 1, 31)
    for axes, measure in zip(np.atleast_1d(figure.subplots(1, len(measures), sharey=True)), measures, strict=True):
        ranks = test[measure].rank(pct=True)
        axes.hist(ranks[~test["is_ood"]], bins=bins, density=True, color="#4477AA", alpha=0.7, label="ID")
        axes.hist(ranks[test["is_ood"]], bins=bins, density=True, color="#EE6677", alpha=0.7, label="OOD")
        axes.set_title(
            f"{MEASURE_NAMES[measure]}  AUC-ROC {evaluation.metrics[f'ood/auroc/{measure}']:.3f}", fontsize=8
        )
        axes.set_xlabel("rank of uncertainty", fontsize=8)
        axes.tick_params(labelsize=7)
    figure.axes[0].legend(frameon=False, fontsize=8)
    figure.suptitle(title, fontsize=9)
    return figure
