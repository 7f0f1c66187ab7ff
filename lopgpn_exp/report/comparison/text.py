"""A comparison as people read it: tables in the terminal, a page with forest plots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from lopgpn_exp.report.comparison.forest import Point, forest
from lopgpn_exp.report.comparison.sides import Cell, Comparison
from lopgpn_exp.report.document import Block, Bullets, Heading, Paragraph, Picture, Table, to_html
from lopgpn_exp.report.names import NO_VALUE, metric_name

LOWER_IS_BETTER = ("test/ece", "test/brier", "test/nll", "val/nll", "ood/fpr95")
NOT_IN_PERCENT = ("test/nll", "val/nll")
NOT_PLOTTED = (*NOT_IN_PERCENT, "change")  # on another scale than the rest
WIDEST = 1000
KEY = (
    "Percent; differences in percentage points (NLL: nats). [ ] 95 % interval; * it excludes 0, with no correction for "
    "the number of metrics; ↓ lower is better."
)


@dataclass(frozen=True)
class Line:
    """One metric of a cell: the value of every side, and the difference of every side but the first."""

    name: str
    values: list[str]
    differences: list[tuple[str, bool, str]]  # text, whether its interval excludes 0, p


def show(comparison: Comparison, sides: Sequence[str]) -> None:
    """Tables in the terminal, a table a dataset and scenario; `sides` says in words what each side is."""
    console = Console(highlight=False, soft_wrap=True, markup=False)
    heads = comparison.heads
    console.print()
    for head, text in _legend(comparison, sides):
        console.print(f"{head.ljust(max(map(len, heads)))}  {text}")
    for cell in comparison.cells:
        console.print()
        table = _terminal_table(cell, comparison.labels, heads)
        width = Console(width=WIDEST).measure(table).maximum  # a line too long can be read, one cut short cannot
        Console(highlight=False, width=width).print(table)
        for note in cell.notes:
            console.print(Text(f" {note}", style="dim"))
    console.print()
    for note in (*comparison.notes, KEY):
        console.print(note)


def page(comparison: Comparison, sides: Sequence[str]) -> str:
    """One HTML file: the tables, and the differences drawn."""
    heads = comparison.heads
    blocks: list[Block] = [
        Heading(1, "Comparison"),
        Bullets([f"**{head}** {text}" for head, text in _legend(comparison, sides)]),
        Paragraph(KEY),
        *([Bullets(comparison.notes)] if comparison.notes else []),
    ]
    for cell in comparison.cells:
        rows = [[line.name, *line.values, *_cells(line)] for line in _lines(cell, comparison.labels)]
        blocks += [Heading(2, cell.title), Table(_columns(heads), rows), Bullets(cell.notes)]
        if svg := _forest(cell, comparison.labels):
            caption = (
                "Difference from the reference in percentage points, with its 95 % interval; filled: it excludes 0."
            )
            blocks.append(Picture("", caption, svg))
    return to_html(f"Comparison: {', '.join(comparison.labels)}", blocks)


def _name(metric: str) -> str:
    return metric_name(metric) + " ↓" * metric.startswith(LOWER_IS_BETTER)


def _legend(comparison: Comparison, sides: Sequence[str]) -> list[tuple[str, str]]:
    """The head of each side, and what it stands for."""
    named = zip(comparison.heads, comparison.labels, sides, strict=True)
    texts = [(head, side if head == label else f"{label}  ({side})") for head, label, side in named]
    return [(head, text + ", the reference" * (i == 0)) for i, (head, text) in enumerate(texts)]


def _columns(heads: Sequence[str]) -> list[str]:
    return ["metric", *heads, *(text for head in heads[1:] for text in (f"{head} - {heads[0]}", "p"))]


def _terminal_table(cell: Cell, labels: Sequence[str], heads: Sequence[str]) -> RichTable:
    table = RichTable(title=Text(cell.title), title_justify="left", box=None, padding=(0, 1), header_style="bold")
    for i, head in enumerate(_columns(heads)):
        table.add_column(Text(head), justify="right" if i else "left", no_wrap=True)
    for line in _lines(cell, labels):
        differences = [
            cell
            for text, excludes_zero, p in line.differences
            for cell in (Text(f"{text} *" if excludes_zero else f"{text}  ", "bold" if excludes_zero else ""), Text(p))
        ]
        table.add_row(Text(line.name), *map(Text, line.values), *differences)
    return table


def _cells(line: Line) -> list[str]:
    return [cell for text, sure, p in line.differences for cell in (f"**{text}** *" if sure else text, p)]


def _lines(cell: Cell, labels: Sequence[str]) -> Iterator[Line]:
    for metric, rows in cell.rows.groupby("metric", sort=False):
        scale = _scale(str(metric))
        by_side = {row.side: row for row in rows.itertuples()}
        values = [next(iter(by_side.values())).reference_value]
        values += [by_side[label].value if label in by_side else float("nan") for label in labels[1:]]
        differences = [_difference(by_side.get(label), scale) for label in labels[1:]]
        digits = 1 if scale == 100 else 3
        shown = [NO_VALUE if pd.isna(value) else f"{scale * value:.{digits}f}" for value in values]
        yield Line(_name(str(metric)), shown, differences)


def _difference(row: object, scale: int) -> tuple[str, bool, str]:
    if row is None or pd.isna(row.difference):
        return NO_VALUE, False, ""
    digits = 2 if scale == 100 else 3
    difference, low, high = (f"{scale * value:+.{digits}f}" for value in (row.difference, row.low, row.high))
    if pd.isna(row.low):
        return difference, False, ""
    return (
        f"{difference} [{low}, {high}]",
        bool(row.low > 0 or row.high < 0),
        "< 0.001" if row.p < 0.001 else f"{row.p:.3f}",
    )


def _scale(metric: str) -> int:
    return 1 if metric in NOT_IN_PERCENT else 100


def _forest(cell: Cell, labels: Sequence[str]) -> str | None:
    """The differences that have a common scale, drawn; None without any."""
    rows = cell.rows[cell.rows["difference"].notna() & ~cell.rows["metric"].str.startswith(NOT_PLOTTED)]
    points = [
        Point(_name(row.metric), row.side, 100 * row.difference, 100 * row.low, 100 * row.high)
        for row in rows.itertuples()
    ]
    return forest(points, [label for label in labels[1:] if label in set(rows["side"])], title=cell.title)
