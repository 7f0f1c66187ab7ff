"""The page of one run: how good it is, which measure can be trusted, and what made nodes uncertain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lopgpn_exp.evaluation.selective import aurc, coverage_at_risk, risk_at_coverage
from lopgpn_exp.graph import Graph
from lopgpn_exp.posterior import MEASURES
from lopgpn_exp.report.document import Table
from lopgpn_exp.report.names import SCENARIO_NAMES, measure_color, measure_name, metric_name, model_name
from lopgpn_exp.report.page import page
from lopgpn_exp.report.pages import node_graph, svg
from lopgpn_exp.report.pages.calibration_charts import cumulative_chart, equal_mass_chart, reliability_charts
from lopgpn_exp.report.pages.run_charts import (
    COLORS,
    MOST_CLASSES,
    confusion_chart,
    confusion_counts,
    distribution_charts,
    error_chart,
    history_charts,
    rejection_chart,
    roc_chart,
)

STYLE = """
.figures { display: flex; flex-wrap: wrap; gap: .5rem; padding: 0; margin: 1rem 0; }
.figures div { background: var(--soft); border-radius: 5px; padding: .35rem .8rem; }
.figures dt { color: var(--dim); font-size: .8rem; } .figures dd { margin: 0; font-size: 1.15rem; }
.note { color: var(--dim); font-size: .9rem; max-width: 60rem; } .column .note { max-width: 36rem; }
"""
SCORES = ("test/accuracy", "id/accuracy", "ood/accuracy", "test/ece", "test/brier", "test/nll")
COLUMNS = {"test/auarc": "AUARC", "ood/auroc": "OOD AUC-ROC", "ood/aupr": "OOD AUPR", "ood/fpr95": "OOD FPR95"}
COVERAGE, RISK = 0.8, 0.05  # of which nodes are kept, and of which errors are bearable, in the table of measures
MOST_UNCERTAIN = 10
CUMULATED = (
    '<p class="note">The cumulated gap rises where nodes are right more often than they say, falls where less often. A '
    "calibrated model stays in the grey band in 95 % of the cases; p is the chance that it comes as far as this.</p>"
)


def run_page(
    result: dict[str, Any], predictions: pd.DataFrame, *, title: str, graph: Graph | None, cache_dir: Path | None
) -> str:
    """One HTML file that needs nothing beside it.

    Args:
        result: as in `result.json`.
        predictions: one row a node, as in `predictions.parquet`.
        graph: the one that was predicted on; None leaves its drawing out.
        cache_dir: where the layout of the graph is kept for the next run on it.
    """
    return page(
        title,
        "\n".join(_body(result, predictions, title, graph, cache_dir)),
        style=svg.STYLE + node_graph.STYLE + STYLE,
    )


def _body(
    result: dict[str, Any], table: pd.DataFrame, title: str, graph: Graph | None, cache_dir: Path | None
) -> Iterator[str]:
    measures = [name for name in MEASURES if name in table]
    num_classes = _num_classes(table) if graph is None else graph.num_classes
    labelled = (table["label"] >= 0).to_numpy()
    test = (table["part"] == "test").to_numpy() & labelled
    known = test & (table["label"] < num_classes).to_numpy()
    correct = (table["predicted"] == table["label"]).to_numpy()
    yield f"<h1>{escape(title)}</h1>"
    yield from _headline(result)
    yield "<h2>Accuracy and rejection</h2>"
    colors = svg.legend((measure_name(m), measure_color(m)) for m in measures)
    has_ood = bool(table.loc[test, "is_ood"].any())
    uncertainties = {m: table.loc[known, m].to_numpy() for m in measures}
    drawings = [rejection_chart(result["curves"]), error_chart(uncertainties, correct[known])]
    if has_ood:
        drawings.append(roc_chart(table[test], measures))
    yield colors + svg.charts([*drawings, _measures(result["metrics"], uncertainties, correct[known])])
    yield from _distributions(result["metrics"], table[test], correct[test], measures, has_ood)
    yield "<h2>Calibration and confusion</h2>"
    confidence = table.loc[known, "confidence"].to_numpy()
    by_width = [*reliability_charts(confidence, correct[known])]
    by_size = [equal_mass_chart(confidence, correct[known]), cumulative_chart(confidence, correct[known])]
    columns = ["\n".join(['<div class="column">', *drawn, "</div>"]) for drawn in (by_width, by_size)]
    names = None if graph is None or graph.legend is None else graph.legend.classes
    yield svg.charts(columns) + CUMULATED + svg.charts([_confusion(table[test], num_classes, names)])
    if result.get("history"):  # a closed form has none
        yield "<h2>Training</h2>"
        yield svg.charts(history_charts(result["history"]))
    yield from _most_uncertain(table[test], measures)
    yield "<h2>The graph</h2>"
    yield node_graph.graph_section(graph, table, measures, wrong=known & ~correct, cache_dir=cache_dir)


def _num_classes(table: pd.DataFrame) -> int:
    """Without a graph: left-out classes come last, are never predicted, and all their nodes are OOD."""
    return int(max(table["predicted"].max(), table.loc[~table["is_ood"], "label"].max())) + 1


def _headline(result: dict[str, Any]) -> Iterator[str]:
    metrics, seconds = result["metrics"], result["seconds"]
    figures = {metric_name(key): f"{metrics[key]:.4f}" for key in SCORES if key in metrics}
    figures |= {"epochs": str(result["epochs"]), "training": f"{seconds['train']:.1f} s"}
    figures |= {"all phases": f"{sum(seconds.values()):.1f} s", "peak memory": f"{result['peak_rss_mb']:.0f} MB"}
    tiles = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>" for name, text in figures.items())
    scenario = SCENARIO_NAMES.get(result["scenario"], result["scenario"])
    facts = [model_name(result["model"]), result["dataset"], f"split {result['split']}", f"init {result['init']}"]
    versions = [f"{name} {number}" for name, number in result["versions"].items()]
    yield f'<dl class="figures">{tiles}</dl>'
    yield f'<p class="note">{escape(" · ".join([*facts, f"scenario {scenario}", *versions]))}</p>'


def _measures(metrics: dict[str, float], uncertainties: dict[str, np.ndarray], correct: np.ndarray) -> str:
    columns = {p: name for p, name in COLUMNS.items() if any(f"{p}/{m}" in metrics for m in uncertainties)}
    rows = [
        [
            measure_name(m),
            *(f"{metrics[key]:.4f}" if (key := f"{p}/{m}") in metrics else "" for p in columns),
            f"{aurc(values, correct):.4f}",
            f"{100 * risk_at_coverage(values, correct, COVERAGE):.1f} %",
            f"{100 * coverage_at_risk(values, correct, RISK):.1f} %",
        ]
        for m, values in uncertainties.items()
    ]
    selective = ["AURC", f"error at {100 * COVERAGE:g} % coverage", f"coverage at {100 * RISK:g} % error"]
    return Table(["measure", *columns.values(), *selective], rows).html()


def _distributions(
    metrics: dict[str, float], test: pd.DataFrame, correct: np.ndarray, measures: Sequence[str], has_ood: bool
) -> Iterator[str]:
    """ID against OOD; where nothing is OOD, correct against wrong predictions, which uncertainty should tell apart."""
    if has_ood:
        doubtful, names = test["is_ood"].to_numpy(), ("ID", "OOD")
        titles = {m: f"{measure_name(m)}, AUC-ROC {metrics[f'ood/auroc/{m}']:.3f}" for m in measures}
    else:
        doubtful, names = ~correct, ("predicted correctly", "predicted wrongly")
        titles = {m: measure_name(m) for m in measures}
    yield f"<h2>Uncertainty of test nodes: {names[0]} and {names[1]}</h2>"
    if doubtful.all() or not doubtful.any():
        yield f'<p class="note">All test nodes are {names[int(doubtful.all())]}: there is nothing to compare.</p>'
        return
    sizes = (int((~doubtful).sum()), int(doubtful.sum()))
    labels = [f"{name} ({size:,} nodes)" for name, size in zip(names, sizes, strict=True)]
    yield svg.legend(zip(labels, COLORS, strict=True))
    yield svg.charts(distribution_charts(test, doubtful, names, titles))
    yield '<p class="note">Half a percent of the nodes at either end is counted in the outermost bins.</p>'


def _confusion(test: pd.DataFrame, num_classes: int, names: Sequence[str] | None) -> str:
    """All labelled test nodes, those of left-out classes too: it is telling what they are taken for."""
    counts = confusion_counts(test["label"].to_numpy(), test["predicted"].to_numpy(), num_classes)
    if len(counts) > MOST_CLASSES:
        return f"<p>The confusion matrix of {len(counts)} classes is left out: nobody could read it.</p>"
    note = "Shades are shares of a row, numbers count test nodes; point at a cell for both."
    if len(counts) > num_classes:
        note += (
            f" Rows from class {num_classes} on, in the other colour, are left-out classes: the model does not know "
            "them, so that every prediction in them is wrong, and no column is theirs."
        )
    return f'<div class="column">{confusion_chart(counts, names)}<p class="note">{note}</p></div>'


def _most_uncertain(test: pd.DataFrame, measures: Sequence[str]) -> Iterator[str]:
    by = "eu" if "eu" in measures else "tu"
    chosen = test.sort_values([by, "node"], ascending=[False, True]).head(MOST_UNCERTAIN)
    shown = ("id", "label_name", "predicted_name") if "id" in test else ("node", "label", "predicted")
    whole = dict(zip(shown, ("node", "class", "predicted"), strict=True))
    rows = [
        [
            *(str(row[key]) for key in whole),
            "yes" if row["is_ood"] else "no",
            f"{row['confidence']:.3f}",
            *(f"{row[m]:.4g}" for m in measures),
        ]
        for row in chosen.to_dict("records")
    ]
    yield f"<h2>Most uncertain test nodes by {escape(measure_name(by))}</h2>"
    yield Table([*whole.values(), "OOD", "confidence", *map(measure_name, measures)], rows, 0).html()
