"""The accuracy-rejection curves of the paper's figure 4, and the CSV files behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lopgpn_exp.report.aggregate import aggregate_curves
from lopgpn_exp.report.names import DATASET_NAMES, MEASURE_NAMES, MODEL_COLORS, MODEL_NAMES
from lopgpn_exp.report.published.columns import MEASURES

# The paper's own colours, axes and file names.
PAPER_COLORS = {"gpn_sym": "#3bb335", "gpn_rw": "#355fb3", "lop_gpn": "#b33535"}
PAPER_FLOOR = {
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


def mean_curves(curves: pd.DataFrame) -> pd.DataFrame:
    """Mean and standard error over splits of the clean runs, by dataset, model, measure and percent."""
    table = aggregate_curves(curves[curves["scenario"] == "none"])
    return table.set_index(["dataset", "model", "measure", "percent"])[["mean", "se"]].sort_index()


def arc_tables(means: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The paper's `acc_rej_<measure>_<dataset>.csv`: `p`, then `<model>Mean` and `<model>SE`; ours has all models."""
    tables = {}
    for dataset in [d for d in DATASET_NAMES if d in means.index.unique("dataset")]:
        for measure in MEASURES:
            columns = {}
            for model, name in MODEL_COLUMNS.items():
                if (dataset, model, measure, 0) in means.index:
                    curve = means.loc[(dataset, model, measure)]
                    columns |= {f"{name}Mean": curve["mean"], f"{name}SE": curve["se"]}
            table = pd.DataFrame(columns).round(6)
            table.insert(0, "p", table.index / 100)
            tables[f"acc_rej_{MEASURE_FILES[measure]}_{DATASET_FILES[dataset]}.csv"] = table
    return tables


def paper_figure(means: pd.DataFrame) -> Figure:
    """Datasets by rows, measures by columns, the three models, colours and axes of the paper."""
    return _figure(means, PAPER_COLORS, PAPER_FLOOR)


def all_models_figure(means: pd.DataFrame) -> Figure:
    return _figure(means, MODEL_COLORS, {})


def _figure(means: pd.DataFrame, colors: Mapping[str, str], floors: Mapping[str, float]) -> Figure:
    datasets = [d for d in DATASET_NAMES if d in means.index.unique("dataset")]
    models = [m for m in colors if m in means.index.unique("model")]
    figure = Figure(figsize=(11, 1.75 * len(datasets) + 0.6), layout="constrained")
    grid = figure.subplots(len(datasets), len(MEASURES), sharex=True, sharey="row", squeeze=False)
    for row, dataset in zip(grid, datasets, strict=True):
        for axes, measure in zip(row, MEASURES, strict=True):
            _draw(axes, means, dataset, measure, models, colors)
        row[0].set_ylabel(DATASET_NAMES[dataset], fontsize=9)
        row[0].set_ylim(floors.get(dataset), 1.0 if floors else None)
    for axes, measure in zip(grid[-1], MEASURES, strict=True):
        axes.set_xlabel(_math(MEASURE_NAMES[measure]), fontsize=10)
    handles = {h.get_label(): h for axes in grid.flat for h in axes.get_lines()}
    names = [MODEL_NAMES[model] for model in models if MODEL_NAMES[model] in handles]
    figure.legend([handles[n] for n in names], names, loc="outside upper center", ncols=len(names), frameon=False)
    figure.supxlabel("fraction of rejected test nodes, most uncertain first", fontsize=9)
    return figure


def _draw(
    axes: Axes, means: pd.DataFrame, dataset: str, measure: str, models: Sequence[str], colors: Mapping[str, str]
) -> None:
    for model in models:
        if (dataset, model, measure, 0) not in means.index:
            continue
        curve = means.loc[(dataset, model, measure)]
        p, mean, error = curve.index / 100, curve["mean"], curve["se"].fillna(0)
        axes.plot(p, mean, color=colors[model], lw=1.3, label=MODEL_NAMES[model])
        axes.fill_between(p, mean - error, mean + error, color=colors[model], alpha=0.2, lw=0)
    axes.set_xlim(0, 0.99)
    axes.grid(alpha=0.35, lw=0.5)
    axes.tick_params(labelsize=7)


def _math(name: str) -> str:
    head, _, index = name.partition("_")
    return rf"$\mathrm{{{head}}}_{{\mathrm{{{index}}}}}$" if index else rf"$\mathrm{{{head}}}$"
