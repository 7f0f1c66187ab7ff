"""Figures of our results: the paper's figure 4 (accuracy-rejection curves), and our values over the published ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lopgpn_exp.evaluation.statistics import CLEAN, aggregate_curves
from lopgpn_exp.paper.audit import NOISE_POINTS
from lopgpn_exp.paper.published import MEASURES
from lopgpn_exp.report.names import DATASET_NAMES, MODEL_COLORS, MODEL_NAMES, SCENARIO_NAMES, measure_name

# The paper's own colours, axes and file names.
PAPER_COLORS = {"gpn_sym": "#3bb335", "gpn_rw": "#355fb3", "lop_gpn": "#b33535"}
PAPER_MINIMUM = {
    "cora_ml": 0.8,
    "citeseer": 0.8,
    "amazon_photos": 0.85,
    "amazon_computers": 0.75,
    "pubmed": 0.8,
    "ogbn_arxiv": 0.45,
}
MEASURE_FILES = {
    "tu": "sample_total_entropy",
    "au": "sample_aleatoric_entropy",
    "eu": "sample_epistemic_entropy_diff",
    "eu_pc": "sample_epistemic",
    "eu_so": "sample_epistemic_entropy",
}
DATASET_FILES = {
    "cora_ml": "CoraML",
    "citeseer": "CiteSeer",
    "amazon_photos": "Photos",
    "amazon_computers": "Computers",
    "pubmed": "PubMed",
    "ogbn_arxiv": "Arxiv",
}
MODEL_COLUMNS = {
    "gpn_sym": "gpn",
    "gpn_rw": "gpnRW",
    "lop_gpn": "gpnLOP",
    "appnp": "appnp",
    "matern_ggp": "maternGGP",
    "gkde": "gkde",
}
SCENARIO_MARKERS = {"none": "D", "leave_out_classes": "o", "bernoulli": "^", "gaussian": "s"}
MeanCurves = Mapping[tuple[str, str, str], pd.DataFrame]  # by dataset, model and measure


def compute_mean_curves(curves: pd.DataFrame) -> MeanCurves:
    """Return `mean` and `se` over splits of clean runs by percent rejected, for each dataset, model and measure."""
    table = aggregate_curves(curves[curves["scenario"] == CLEAN]).set_index("percent")
    groups = table.groupby(["dataset", "model", "measure"])[["mean", "se"]]
    return {cast(tuple[str, str, str], key): curve for key, curve in groups}


def build_curve_tables(curves: MeanCurves) -> dict[str, pd.DataFrame]:
    """Return the paper's `acc_rej_<measure>_<dataset>.csv` by name: `p`, then `<model>Mean` and `<model>SE`.

    The paper's files contain three models, ours contain all of them.
    """
    tables = {}
    for dataset in _find_datasets(curves):
        for measure in MEASURES:
            columns: dict[str, pd.Series] = {}
            for model, name in MODEL_COLUMNS.items():
                if (curve := curves.get((dataset, model, measure))) is not None:
                    columns |= {f"{name}Mean": curve["mean"], f"{name}SE": curve["se"]}
            table = pd.DataFrame(columns).round(6)
            table.insert(0, "p", table.index / 100)
            tables[f"acc_rej_{MEASURE_FILES[measure]}_{DATASET_FILES[dataset]}.csv"] = table
    return tables


def draw_paper_curves(curves: MeanCurves) -> Figure:
    """Draw the paper's figure 4: datasets by row, measures by column, with the paper's models, colours and axes."""
    return _draw_curves(curves, PAPER_COLORS, PAPER_MINIMUM)


def draw_all_curves(curves: MeanCurves) -> Figure:
    """Draw the curves of all models."""
    return _draw_curves(curves, MODEL_COLORS, {})


def draw_scatter(cells: pd.DataFrame) -> Figure:
    """Draw our value over the published one for each printed cell.

    Filled points are computed as the published value was. Hollow ones are by definition, where that differs.
    """
    figure = Figure(figsize=(7.2, 5.3), layout="constrained")
    axes = figure.subplots()
    axes.fill_between(
        [0, 100], [-NOISE_POINTS, 100 - NOISE_POINTS], [NOISE_POINTS, 100 + NOISE_POINTS], color="#DDDDDD"
    )
    axes.plot([0, 100], [0, 100], color="#888888", lw=0.8)
    printed = cells[cells["printed"]]
    for (model, scenario), group in printed.groupby(["model", "scenario"]):
        color, has_recipe = MODEL_COLORS[str(model)], group["recipe"] != ""
        for points, column, face in ((group, "by_recipe", color), (group[has_recipe], "ours", "none")):
            axes.scatter(
                points["published"],
                points[column],
                s=20,
                marker=SCENARIO_MARKERS[str(scenario)],
                facecolors=face,
                edgecolors=color,
                linewidths=0.9,
                alpha=0.85,
            )
    axes.set(xlim=(0, 100), ylim=(0, 100), xlabel="published (%)", ylabel="ours (%)", aspect="equal")
    axes.grid(alpha=0.3, lw=0.5)
    models = [model for model in MODEL_NAMES if (printed["model"] == model).any()]
    handles = [Line2D([], [], ls="", marker="o", color=MODEL_COLORS[m], label=MODEL_NAMES[m]) for m in models]
    handles += [
        Line2D([], [], ls="", marker=marker, color="#555555", label=SCENARIO_NAMES[scenario])
        for scenario, marker in SCENARIO_MARKERS.items()
    ]
    handles.append(Line2D([], [], ls="", marker="o", mfc="none", color="#555555", label="by definition"))
    figure.legend(handles=handles, loc="outside right upper", frameon=False, fontsize=8)
    return figure


def _draw_curves(curves: MeanCurves, colors: Mapping[str, str], minimum: Mapping[str, float]) -> Figure:
    curves = {key: curve for key, curve in curves.items() if key[1] in colors} or curves
    datasets, present = _find_datasets(curves), {model for _, model, _ in curves}
    models = [model for model in colors if model in present]
    figure = Figure(figsize=(11, 1.75 * len(datasets) + 0.6), layout="constrained")
    grid = figure.subplots(len(datasets), len(MEASURES), sharex=True, sharey="row", squeeze=False)
    for row, dataset in zip(grid, datasets, strict=True):
        for axes, measure in zip(row, MEASURES, strict=True):
            panel = {model: curves[key] for model in models if (key := (dataset, model, measure)) in curves}
            _draw_panel(axes, panel, colors)
        row[0].set_ylabel(DATASET_NAMES[dataset], fontsize=9)
        row[0].set_ylim(minimum.get(dataset), 1.0 if minimum else None)
    for axes, measure in zip(grid[-1], MEASURES, strict=True):
        axes.set_xlabel(_to_math(measure_name(measure)), fontsize=10)
    handles = {line.get_label(): line for axes in grid.flat for line in axes.get_lines()}
    names = [MODEL_NAMES[model] for model in models if MODEL_NAMES[model] in handles]
    figure.legend([handles[n] for n in names], names, loc="outside upper center", ncols=len(names), frameon=False)
    figure.supxlabel("fraction of rejected test nodes, most uncertain first", fontsize=9)
    return figure


def _draw_panel(axes: Axes, curves: Mapping[str, pd.DataFrame], colors: Mapping[str, str]) -> None:
    for model, curve in curves.items():
        p, mean, error = curve.index / 100, curve["mean"], curve["se"].fillna(0)
        axes.plot(p, mean, color=colors[model], lw=1.3, label=MODEL_NAMES[model])
        axes.fill_between(p, mean - error, mean + error, color=colors[model], alpha=0.2, lw=0)
    axes.set_xlim(0, 0.99)
    axes.grid(alpha=0.35, lw=0.5)
    axes.tick_params(labelsize=7)


def _find_datasets(curves: MeanCurves) -> list[str]:
    present = {dataset for dataset, _, _ in curves}
    return [dataset for dataset in DATASET_NAMES if dataset in present]


def _to_math(name: str) -> str:
    head, _, index = name.partition("_")
    return rf"$\mathrm{{{head}}}_{{\mathrm{{{index}}}}}$" if index else rf"$\mathrm{{{head}}}$"
