"""The paper's table as people read it: LaTeX, Markdown and HTML from one grid of cells.

One decimal: the standard errors are around half a point. The CSV has two, as published.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

import pandas as pd

from lopgpn_exp.report.names import DATASET_NAMES, MEASURE_NAMES, MODEL_NAMES, NO_VALUE, SCENARIO_NAMES
from lopgpn_exp.report.page import page
from lopgpn_exp.report.published.columns import MEASURES
from lopgpn_exp.report.table1 import marks, percent_means

SCENARIOS = ("leave_out_classes", "bernoulli", "gaussian")
METRICS = ("id/accuracy", *(f"ood/auroc/{measure}" for measure in MEASURES))
SHOWN = (("none", "test/accuracy"), *((scenario, metric) for scenario in SCENARIOS for metric in METRICS))
CAPTION = (
    "Accuracy on the clean graph, then for each scenario the accuracy of in-distribution nodes and the AUC-ROC by "
    "which each measure finds the others, in percent, means over splits. "
)
MARKED = "the best of a dataset is {best}, what a paired t-test over splits (5 %) cannot tell from it {tied}."


@dataclass(frozen=True)
class Cell:
    text: str
    mark: str  # best, tied or nothing
    details: str  # mean and standard error, to be shown on demand


@dataclass(frozen=True)
class Row:
    dataset: str
    model: str
    first: bool  # of its dataset
    size: int  # rows of its dataset
    cells: tuple[Cell, ...]


def grid(results: pd.DataFrame) -> list[Row]:
    """Models by rows, grouped by dataset, in the paper's order."""
    means = percent_means(results)
    marked = marks(results, [metric for metric in dict.fromkeys(m for _, m in SHOWN) if metric in results])
    rows = []
    for dataset in DATASET_NAMES:
        models = [m for m in MODEL_NAMES if ((results["dataset"] == dataset) & (results["model"] == m)).any()]
        for model in models:
            keys = [(dataset, model, scenario, metric) for scenario, metric in SHOWN]
            cells = tuple(_cell(means, key, marked.get(key, "")) for key in keys)
            rows.append(Row(DATASET_NAMES[dataset], MODEL_NAMES[model], model == models[0], len(models), cells))
    return rows


def _cell(means: pd.DataFrame, key: tuple[str, str, str, str], mark: str) -> Cell:
    if key not in means.index:
        return Cell(NO_VALUE, "", "")
    mean, error, splits = means.loc[key, ["mean", "se", "splits"]]
    spread = "" if pd.isna(error) else f" ± {error:.2f}"
    return Cell(f"{mean:.1f}", mark, f"{mean:.2f}{spread}, {splits:.0f} splits")


def to_markdown(rows: Sequence[Row]) -> str:
    head = ["dataset", "model", "Acc"]
    head += [f"{_short(scenario)} {_head(metric)}" for scenario, metric in SHOWN[1:]]
    lines = ["| " + " | ".join(head) + " |", "|---|---|" + "---:|" * len(SHOWN)]
    wrap = {"best": "**{}**", "tied": "_{}_", "": "{}"}
    for row in rows:
        cells = [wrap[cell.mark].format(cell.text) for cell in row.cells]
        lines.append("| " + " | ".join([row.dataset if row.first else "", row.model, *cells]) + " |")
    legend = "LOC: leave-out classes; Ber: features Ber(0.5); N: features N(0, 1). "
    note = CAPTION + legend + "In each column " + MARKED.format(best="**bold**", tied="in _italics_")
    return "\n".join([*lines, "", note, ""])


def to_latex(rows: Sequence[Row]) -> str:
    """A document of its own; the tabular can be lifted out of it (packages booktabs and multirow)."""
    wrap = {"best": r"\textbf{{{}}}", "tied": r"\underline{{{}}}", "": "{}"}
    body = []
    for row in rows:
        if row.first and body:
            body.append(r"\midrule")
        words = row.dataset.replace(" ", r"\\")
        name = rf"\multirow{{{row.size}}}{{*}}{{\shortstack{{{words}}}}}"
        cells = [wrap[cell.mark].format(cell.text) for cell in row.cells]
        body.append(" & ".join([name if row.first else "", rf"\textbf{{{row.model}}}", *cells]) + r" \\")
    scenarios = {"leave_out_classes": "Leave-out classes", "bernoulli": r"$\mathbf{x}^{(v)} \sim \mathrm{Ber}(0.5)$"}
    scenarios["gaussian"] = r"$\mathbf{x}^{(v)} \sim \mathcal{N}(0,1)$"
    groups = " & ".join(rf"\multicolumn{{6}}{{c}}{{{scenarios[name]}}}" for name in SCENARIOS)
    kinds = " & ".join([r"\multicolumn{1}{c}{\textbf{ID}} & \multicolumn{5}{c}{\textbf{OOD-AUC-ROC}}"] * len(SCENARIOS))
    names = [r"\textbf{Acc}", *map(_latex_measure, MEASURES)] * len(SCENARIOS)
    measures = " & ".join(rf"\multicolumn{{1}}{{c}}{{{name}}}" for name in names)
    note = CAPTION + "In each column " + MARKED.format(best="bold", tied="underlined").replace("%", r"\%")
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
            r"\caption{" + note + "}",
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
    note = CAPTION + "In each column " + MARKED.format(best="bold", tied="underlined")
    lines = [
        "<h1>Table 1</h1>",
        f"<p>{escape(note)} Point at a number for its standard error.</p>",
        *_html_table(rows),
    ]
    return page("Table 1", "\n".join(lines))


def _html_table(rows: Sequence[Row]) -> Iterator[str]:
    yield '<div class="wide"><table class="paper"><thead>'
    groups = "".join(f'<th colspan="6" class="group">{escape(SCENARIO_NAMES[name])}</th>' for name in SCENARIOS)
    yield f'<tr><th rowspan="2">dataset</th><th rowspan="2">model</th><th class="group">clean</th>{groups}</tr>'
    names = "".join(f"<th{_group(metric)}>{_html_head(metric)}</th>" for _, metric in SHOWN)
    yield f"<tr>{names}</tr></thead>"
    body: list[str] = []
    for row in rows:
        if row.first:
            body.append("</tbody><tbody>" if body else "<tbody>")
        dataset = f'<th rowspan="{row.size}" class="dataset">{escape(row.dataset)}</th>' if row.first else ""
        cells = "".join(
            f'<td{_group(metric)} title="{escape(cell.details)}">{_html_mark(cell)}</td>'
            for (_, metric), cell in zip(SHOWN, row.cells, strict=True)
        )
        body.append(f'<tr>{dataset}<th class="model">{escape(row.model)}</th>{cells}</tr>')
    yield from body
    yield "</tbody></table></div>"


def _html_mark(cell: Cell) -> str:
    tag = {"best": "strong", "tied": "u"}.get(cell.mark)
    return f"<{tag}>{cell.text}</{tag}>" if tag else cell.text


def _group(metric: str) -> str:
    return ' class="group"' if metric.endswith("accuracy") else ""


def _head(metric: str) -> str:
    return "Acc" if metric.endswith("accuracy") else MEASURE_NAMES[metric.rpartition("/")[2]]


def _html_head(metric: str) -> str:
    name, _, index = _head(metric).partition("_")
    return f"{name}<sub>{index}</sub>" if index else name


def _short(scenario: str) -> str:
    return {"leave_out_classes": "LOC", "bernoulli": "Ber", "gaussian": "N"}[scenario]


def _latex_measure(measure: str) -> str:
    name, _, index = MEASURE_NAMES[measure].partition("_")
    return rf"$\mathrm{{{name}}}_{{\mathrm{{{index}}}}}$" if index else rf"$\mathrm{{{name}}}$"
