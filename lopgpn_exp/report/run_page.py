"""The HTML page of one run: its scores, how well each measure works, and which nodes are uncertain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

import numpy as np
import pandas as pd

from lopgpn_exp.evaluation.metrics import PER_MEASURE, aurc, coverage_at_risk, risk_at_coverage
from lopgpn_exp.graph import Graph
from lopgpn_exp.records import RunResult
from lopgpn_exp.report import charts, graph_view
from lopgpn_exp.report.charts import run_charts
from lopgpn_exp.report.charts.calibration_charts import cumulative_chart, equal_mass_chart, reliability_charts
from lopgpn_exp.report.document import Table, render_page
from lopgpn_exp.report.names import (
    ACCURACY,
    CALIBRATION,
    find_measures,
    measure_color,
    measure_column,
    measure_name,
    metric_name,
    model_name,
    scenario_name,
)

STYLE = """
.figures { display: flex; flex-wrap: wrap; gap: .5rem; padding: 0; margin: 1rem 0; }
.figures div { background: var(--soft); border-radius: 5px; padding: .35rem .8rem; }
.figures dt { color: var(--dim); font-size: .8rem; } .figures dd { margin: 0; font-size: 1.15rem; }
.column .note { max-width: 36rem; }
"""
COVERAGE, RISK = 0.8, 0.05  # at which the table of measures gives the error and the coverage
NUM_UNCERTAIN = 10  # rows in the table of the most uncertain nodes
CUMULATIVE_NOTE = (
    '<p class="note">The cumulative gap rises where accuracy exceeds confidence and falls where confidence exceeds '
    "accuracy. A calibrated model stays inside the grey band in 95 % of cases; p is the probability that a calibrated "
    "model would reach a gap as large as this one.</p>"
)


SETS_NOTE = (
    '<p class="note">A set is meant to contain the class of its node with the nominal coverage. This holds for nodes '
    "that are exchangeable with the validation nodes, and thus not for OOD nodes; it is approximate, because early "
    "stopping has seen the validation nodes. The table is about the coverage that the run asked for.</p>"
)
SET_METRICS = (  # with their names and formats
    ("sets/coverage", "contain the class", "{:.1%}"),
    ("sets/size", "mean number of classes", "{:.2f}"),
    ("sets/size_ood", "mean number of classes, OOD nodes", "{:.2f}"),
    ("sets/singletons", "exactly one class", "{:.1%}"),
    ("sets/empty", "no class", "{:.1%}"),
)


def run_page(result: RunResult, predictions: pd.DataFrame, *, graph: Graph, cache_dir: Path | None) -> str:
    """Return a self-contained HTML page.

    Args:
        predictions: one row per node, as in `predictions.parquet`.
        graph: the graph of the predictions.
        cache_dir: keeps the layout of the graph for the next run.
    """
    body = "\n".join(_render_body(result, predictions, graph, cache_dir))
    return render_page(result.title, body, style=charts.STYLE + graph_view.STYLE + STYLE)


def _render_body(result: RunResult, table: pd.DataFrame, graph: Graph, cache_dir: Path | None) -> Iterator[str]:
    measures = find_measures(result.curves, "arc")
    is_test = ((table["part"] == "test") & (table["label"] >= 0)).to_numpy()
    is_scored = is_test & (table["label"] < graph.num_classes).to_numpy()  # without the nodes of left-out classes
    is_correct = (table["predicted"] == table["label"]).to_numpy()
    has_ood = table.loc[is_test, "is_ood"].nunique() == 2  # where all neighbourhoods changed, none is left to compare
    correct, confidence = is_correct[is_scored], table.loc[is_scored, "confidence"].to_numpy()
    uncertainties = {measure: table.loc[is_scored, measure].to_numpy() for measure in measures}

    yield f"<h1>{escape(result.title)}</h1>"
    yield from _render_headline(result)
    yield "<h2>Accuracy and rejection</h2>"
    yield charts.legend((measure_name(measure), measure_color(measure)) for measure in measures)
    drawings = [run_charts.rejection_chart(result.curves), run_charts.error_chart(uncertainties, correct)]
    if has_ood:
        drawings.append(run_charts.roc_chart(table[is_test], measures))
    yield charts.chart_row([*drawings, _render_measures(result.metrics, uncertainties, correct)])
    yield from _render_distributions(result.metrics, table[is_test], is_correct[is_test], measures, has_ood)
    yield "<h2>Calibration and confusion</h2>"
    columns = (
        reliability_charts(confidence, correct),
        (equal_mass_chart(confidence, correct), cumulative_chart(confidence, correct)),
    )
    yield charts.chart_row("\n".join(['<div class="column">', *column, "</div>"]) for column in columns)
    yield CUMULATIVE_NOTE
    class_names = None if graph.legend is None else graph.legend.classes
    yield charts.chart_row([_render_confusion(table[is_test], graph.num_classes, class_names)])
    yield from _render_sets(result)
    if result.history:  # empty for models fitted in closed form
        yield "<h2>Training</h2>"
        yield charts.chart_row(run_charts.history_charts(result.history))
    yield from _render_most_uncertain(table[is_test], measures)
    yield "<h2>Graph</h2>"
    yield graph_view.graph_section(graph, table, measures, is_wrong=is_scored & ~is_correct, cache_dir=cache_dir)


def _render_headline(result: RunResult) -> Iterator[str]:
    tiles = {
        metric_name(key): f"{result.metrics[key]:.4f}" for key in (*ACCURACY, *CALIBRATION) if key in result.metrics
    }
    tiles |= {"epochs": str(result.epochs), "training": f"{result.seconds['train']:.1f} s"}
    tiles |= {"all phases": f"{sum(result.seconds.values()):.1f} s", "peak memory": f"{result.peak_rss_mb:.0f} MB"}
    items = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>" for name, text in tiles.items())
    facts = [
        model_name(result.model),
        result.dataset,
        f"split {result.split}",
        f"init {result.init}",
        f"scenario {scenario_name(result.scenario)}",
        *(f"{package} {version}" for package, version in result.versions.items()),
    ]
    yield f'<dl class="figures">{items}</dl>'
    yield f'<p class="note">{escape(" · ".join(facts))}</p>'


def _render_measures(metrics: Mapping[str, float], uncertainties: Mapping[str, np.ndarray], correct: np.ndarray) -> str:
    paths = [path for path in PER_MEASURE if path != "change" and find_measures(metrics, path)]
    rows = [
        [
            measure_name(measure),
            *(f"{metrics[key]:.4f}" if (key := f"{path}/{measure}") in metrics else "" for path in paths),
            f"{aurc(values, correct):.4f}",
            f"{100 * risk_at_coverage(values, correct, COVERAGE):.1f} %",
            f"{100 * coverage_at_risk(values, correct, RISK):.1f} %",
        ]
        for measure, values in uncertainties.items()
    ]
    selective = ["AURC", f"error at {100 * COVERAGE:g} % coverage", f"coverage at {100 * RISK:g} % error"]
    return Table(["measure", *map(measure_column, paths), *selective], rows).html()


def _render_distributions(
    metrics: Mapping[str, float], test: pd.DataFrame, is_correct: np.ndarray, measures: Sequence[str], has_ood: bool
) -> Iterator[str]:
    """Compare ID with OOD nodes; if there is only one kind, correct with wrong predictions."""
    if has_ood:
        is_second, groups = test["is_ood"].to_numpy(), ("ID", "OOD")
        titles = {m: f"{measure_name(m)}, AUC-ROC {metrics[f'ood/auroc/{m}']:.3f}" for m in measures}
    else:
        is_second, groups = ~is_correct, ("predicted correctly", "predicted wrongly")
        titles = {m: measure_name(m) for m in measures}
    yield f"<h2>Uncertainty of test nodes: {groups[0]} and {groups[1]}</h2>"
    if is_second.all() or not is_second.any():
        yield f'<p class="note">All test nodes are {groups[int(is_second.all())]}: there is nothing to compare.</p>'
        return
    sizes = (int((~is_second).sum()), int(is_second.sum()))
    labels = [f"{group} ({size:,} nodes)" for group, size in zip(groups, sizes, strict=True)]
    yield charts.legend(zip(labels, run_charts.COLORS, strict=True))
    yield charts.chart_row(run_charts.distribution_charts(test, is_second, groups, titles))
    yield '<p class="note">The 0.5 % of nodes at either end are counted in the outermost bins.</p>'


def _render_sets(result: RunResult) -> Iterator[str]:
    """Show coverage and size of the prediction sets, if the run has any."""
    rows = [[name, form.format(result.metrics[key])] for key, name, form in SET_METRICS if key in result.metrics]
    if not rows:
        return
    drawings = run_charts.set_charts(result.curves) if "sets/nominal" in result.curves else ()
    yield "<h2>Prediction sets</h2>"
    yield charts.chart_row([*drawings, Table(["sets of test nodes", ""], rows).html()])
    yield SETS_NOTE


def _render_confusion(test: pd.DataFrame, num_classes: int, class_names: Sequence[str] | None) -> str:
    """Show all labelled test nodes, including those of left-out classes."""
    counts = run_charts.confusion_counts(test["label"].to_numpy(), test["predicted"].to_numpy(), num_classes)
    if len(counts) > run_charts.MAX_CLASSES:
        return f"<p>The confusion matrix of {len(counts)} classes is left out: it would not be readable.</p>"
    note = "Shades show the share of a row, numbers count test nodes. Point at a cell for both."
    if len(counts) > num_classes:
        note += (
            f" Rows from class {num_classes} on, in the other colour, are left-out classes: the model does not know "
            "them, so they have no column and every prediction in these rows is wrong."
        )
    return f'<div class="column">{run_charts.confusion_chart(counts, class_names)}<p class="note">{note}</p></div>'


def _render_most_uncertain(test: pd.DataFrame, measures: Sequence[str]) -> Iterator[str]:
    measure = "eu" if "eu" in measures else "tu"
    nodes = test.sort_values([measure, "node"], ascending=[False, True]).head(NUM_UNCERTAIN)
    columns = ("id", "label_name", "predicted_name") if "id" in test else ("node", "label", "predicted")
    rows = [
        [
            *(str(row[column]) for column in columns),
            "yes" if row["is_ood"] else "no",
            f"{row['confidence']:.3f}",
            *(f"{row[m]:.4g}" for m in measures),
        ]
        for row in nodes.to_dict("records")
    ]
    yield f"<h2>Most uncertain test nodes by {escape(measure_name(measure))}</h2>"
    head = ["node", "class", "predicted", "OOD", "confidence", *map(measure_name, measures)]
    yield Table(head, rows, 0).html()
