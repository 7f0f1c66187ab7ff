"""The paper's table for readers: LaTeX, Markdown and HTML from one grid of cells.

One decimal, since standard errors are around half a point. The CSV file has two, as published.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

import pandas as pd

from lopgpn_exp.paper.published import MEASURES
from lopgpn_exp.paper.table1 import CellKey, CellMean, compute_cells
from lopgpn_exp.report.document import render_page
from lopgpn_exp.report.names import DATASET_NAMES, MODEL_NAMES, NO_VALUE, SCENARIO_NAMES, measure_name

SCENARIOS = ("leave_out_classes", "bernoulli", "gaussian")
METRICS = ("id/accuracy", *(f"ood/auroc/{measure}" for measure in MEASURES))
TABLE_COLUMNS = (("none", "test/accuracy"), *((scenario, metric) for scenario in SCENARIOS for metric in METRICS))
ABBREVIATIONS = {"leave_out_classes": "LOC", "bernoulli": "Ber", "gaussian": "N"}
CAPTION = (
    "Accuracy on the clean graph; then, for each scenario, the accuracy on in-distribution nodes and the AUC-ROC with "
    "which each measure detects out-of-distribution nodes. In percent, means over splits. "
)
MARKS = (
    "In each column, the best value of a dataset is {best}; values that a paired t-test over splits (5 %) cannot "
    "distinguish from it are {tied}."
)


@dataclass(frozen=True)
class Cell:
    """A value as text, its mark (`best`, `tied` or nothing), and its mean and standard error as details."""

    text: str
    mark: str
    details: str


@dataclass(frozen=True)
class Row:
    """A model on a dataset; `is_first` of the `num_models` rows of the dataset or not."""

    dataset: str
    model: str
    is_first: bool
    num_models: int
    cells: tuple[Cell, ...]


def build_grid(results: pd.DataFrame, marks: Mapping[CellKey, str]) -> list[Row]:
    """Return one row per model, grouped by dataset, in the paper's order."""
    cell_means = compute_cells(results)
    rows = []
    for dataset, dataset_name in DATASET_NAMES.items():
        present = set(results.loc[results["dataset"] == dataset, "model"])
        models = [model for model in MODEL_NAMES if model in present]
        for model in models:
            keys = [(dataset, model, scenario, metric) for scenario, metric in TABLE_COLUMNS]
            cells = tuple(_create_cell(cell_means.get(key), marks.get(key, "")) for key in keys)
            rows.append(Row(dataset_name, MODEL_NAMES[model], model == models[0], len(models), cells))
    return rows


def _create_cell(cell: CellMean | None, mark: str) -> Cell:
    if cell is None:
        return Cell(NO_VALUE, "", "")
    error = "" if math.isnan(cell.se) else f" ± {cell.se:.2f}"
    return Cell(f"{cell.mean:.1f}", mark, f"{cell.mean:.2f}{error}, {cell.splits} splits")


def to_markdown(rows: Sequence[Row]) -> str:
    head = ["dataset", "model", "Acc"]
    head += [f"{ABBREVIATIONS[scenario]} {_heading(metric)}" for scenario, metric in TABLE_COLUMNS[1:]]
    lines = ["| " + " | ".join(head) + " |", "|---|---|" + "---:|" * len(TABLE_COLUMNS)]
    styles = {"best": "**{}**", "tied": "_{}_", "": "{}"}
    for row in rows:
        cells = [styles[cell.mark].format(cell.text) for cell in row.cells]
        lines.append("| " + " | ".join([row.dataset if row.is_first else "", row.model, *cells]) + " |")
    legend = "LOC: leave-out classes; Ber: features Ber(0.5); N: features N(0, 1). "
    return "\n".join([*lines, "", CAPTION + legend + MARKS.format(best="**bold**", tied="in _italics_"), ""])


def to_latex(rows: Sequence[Row]) -> str:
    """Return a complete document, from which the tabular can be copied (packages booktabs and multirow)."""
    styles = {"best": r"\textbf{{{}}}", "tied": r"\underline{{{}}}", "": "{}"}
    body: list[str] = []
    for row in rows:
        if row.is_first and body:
            body.append(r"\midrule")
        name = row.dataset.replace(" ", r"\\")
        dataset = rf"\multirow{{{row.num_models}}}{{*}}{{\shortstack{{{name}}}}}" if row.is_first else ""
        cells = [styles[cell.mark].format(cell.text) for cell in row.cells]
        body.append(" & ".join([dataset, rf"\textbf{{{row.model}}}", *cells]) + r" \\")
    scenarios = {"leave_out_classes": "Leave-out classes", "bernoulli": r"$\mathbf{x}^{(v)} \sim \mathrm{Ber}(0.5)$"}
    scenarios["gaussian"] = r"$\mathbf{x}^{(v)} \sim \mathcal{N}(0,1)$"
    groups = " & ".join(rf"\multicolumn{{6}}{{c}}{{{scenarios[name]}}}" for name in SCENARIOS)
    kinds = " & ".join([r"\multicolumn{1}{c}{\textbf{ID}} & \multicolumn{5}{c}{\textbf{OOD-AUC-ROC}}"] * len(SCENARIOS))
    names = [r"\textbf{Acc}", *map(_latex_measure, MEASURES)] * len(SCENARIOS)
    measures = " & ".join(rf"\multicolumn{{1}}{{c}}{{{name}}}" for name in names)
    caption = CAPTION + MARKS.format(best="bold", tied="underlined").replace("%", r"\%")
    return "\n".join(
        [
            r"\documentclass{article}",
            r"\usepackage[utf8]{inputenc}",
            r"\usepackage[T1]{fontenc}",
            r"\usepackage[a4paper,landscape,margin=1cm]{geometry}",
            r"\usepackage{booktabs,multirow}",
            r"\pagestyle{empty}",
            r"\begin{document}",
            r"\begin{table}",
            r"\centering\small\setlength{\tabcolsep}{3pt}",
            r"\caption{" + caption + "}",
            r"\begin{tabular}{c r | r" + " | r rrrrr" * len(SCENARIOS) + "}",
            rf"\multicolumn{{3}}{{c}}{{}} & {groups} \\",
            rf"\multicolumn{{2}}{{c}}{{}} & \multicolumn{{1}}{{c}}{{\textbf{{Clean}}}} & {kinds} \\",
            rf"\multicolumn{{2}}{{c}}{{}} & \multicolumn{{1}}{{c}}{{\textbf{{Acc}}}} & {measures} \\",
            r"\toprule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            r"\end{document}",
            "",
        ]
    )


def to_html(rows: Sequence[Row]) -> str:
    caption = escape(CAPTION + MARKS.format(best="bold", tied="underlined"))
    lines = [
        "<h1>Table 1</h1>",
        f"<p>{caption} Hover over a number for its standard error.</p>",
        *_html_table(rows),
    ]
    return render_page("Table 1", "\n".join(lines))


def _html_table(rows: Sequence[Row]) -> Iterator[str]:
    yield '<div class="wide"><table class="paper"><thead>'
    groups = "".join(f'<th colspan="6" class="group">{escape(SCENARIO_NAMES[name])}</th>' for name in SCENARIOS)
    yield f'<tr><th rowspan="2">dataset</th><th rowspan="2">model</th><th class="group">clean</th>{groups}</tr>'
    names = "".join(f"<th{_html_class(metric)}>{_html_heading(metric)}</th>" for _, metric in TABLE_COLUMNS)
    yield f"<tr>{names}</tr></thead>"
    for index, row in enumerate(rows):
        if row.is_first:
            yield "</tbody><tbody>" if index else "<tbody>"
        dataset = f'<th rowspan="{row.num_models}" class="dataset">{escape(row.dataset)}</th>' if row.is_first else ""
        cells = "".join(
            f'<td{_html_class(metric)} title="{escape(cell.details)}">{_html_value(cell)}</td>'
            for (_, metric), cell in zip(TABLE_COLUMNS, row.cells, strict=True)
        )
        yield f'<tr>{dataset}<th class="model">{escape(row.model)}</th>{cells}</tr>'
    yield "</tbody></table></div>"


def _html_value(cell: Cell) -> str:
    tag = {"best": "strong", "tied": "u"}.get(cell.mark)
    return f"<{tag}>{cell.text}</{tag}>" if tag else cell.text


def _html_class(metric: str) -> str:
    return ' class="group"' if metric.endswith("accuracy") else ""


def _html_heading(metric: str) -> str:
    name, _, index = _heading(metric).partition("_")
    return f"{name}<sub>{index}</sub>" if index else name


def _heading(metric: str) -> str:
    return "Acc" if metric.endswith("accuracy") else measure_name(metric.rpartition("/")[2])


def _latex_measure(measure: str) -> str:
    name, _, index = measure_name(measure).partition("_")
    return rf"$\mathrm{{{name}}}_{{\mathrm{{{index}}}}}$" if index else rf"$\mathrm{{{name}}}$"
