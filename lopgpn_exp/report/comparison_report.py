"""Comparison of groups of runs: tables in the terminal, and an HTML page with forest plots."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from string import ascii_uppercase
from typing import Any, NamedTuple

import pandas as pd
from rich.text import Text

from lopgpn_exp.evaluation.comparison import Comparison, ComparisonSection
from lopgpn_exp.evaluation.metrics import IN_NATS, is_lower_better
from lopgpn_exp.report.charts import STYLE, Chart, legend, span
from lopgpn_exp.report.charts.svg import MARKERS, ticks
from lopgpn_exp.report.console import Console, new_table, print_table
from lopgpn_exp.report.console import Table as RichTable
from lopgpn_exp.report.document import Block, Bullets, Heading, Paragraph, Picture, Table, to_html
from lopgpn_exp.report.names import NO_VALUE, metric_name

NOT_PLOTTED = (*IN_NATS, "change")  # on another scale than the other metrics
COLORS = ("currentColor", "#4477AA", "#EE6677", "#228833")  # visible on light and dark pages
MAX_HEADING = 18
MAX_LEGEND = 60
ROW_HEIGHT = 20  # pixels per row of a forest plot
KEY = (
    "Percent; differences in percentage points (NLL: nats). [ ]: 95 % interval; *: the interval excludes 0, without "
    "correction for the number of metrics; ↓: lower is better."
)
CAPTION = "Difference from the reference in percentage points, with 95 % intervals. Filled: the interval excludes 0."

Row = Mapping[Hashable, Any]  # one metric and group, with the columns of `ComparisonSection.rows`


class DifferenceTexts(NamedTuple):
    """A difference with its interval, whether that excludes 0, and the p-value."""

    text: str
    excludes_zero: bool
    p: str


@dataclass(frozen=True)
class MetricRow:
    """One metric: the value of every group, and the difference of every group but the first."""

    name: str
    values: list[str]
    differences: list[DifferenceTexts]


def print_comparison(comparison: Comparison, descriptions: Sequence[str]) -> None:
    """Print one table per dataset and scenario; `descriptions` say what each group is."""
    console = Console(soft_wrap=True)
    groups = _describe_groups(comparison, descriptions)
    width = max(len(heading) for heading, _ in groups)
    console.print()
    for heading, text in groups:
        console.print(f"{heading.ljust(width)}  {text}")
    for section in comparison.sections:
        console.print()
        print_table(_build_terminal_table(section, comparison.labels))
        for note in section.notes:
            console.print(Text(f" {note}", style="dim"))
    console.print()
    for note in (*comparison.notes, KEY):
        console.print(note)


def comparison_page(comparison: Comparison, descriptions: Sequence[str]) -> str:
    """Return a self-contained HTML page with the tables and forest plots of the differences."""
    blocks: list[Block] = [
        Heading(1, "Comparison"),
        Bullets([f"**{heading}** {text}" for heading, text in _describe_groups(comparison, descriptions)]),
        Paragraph(KEY),
        *([Bullets(comparison.notes)] if comparison.notes else []),
    ]
    for section in comparison.sections:
        rows = [[row.name, *row.values, *_html_cells(row)] for row in _metric_rows(section, comparison.labels)]
        blocks += [
            Heading(2, section.title),
            Table(_table_columns(comparison.labels), rows),
            Bullets(section.notes),
        ]
        if plot := _draw_forest_plot(section, comparison.labels):
            blocks.append(Picture("", CAPTION, plot))
    return to_html(f"Comparison: {', '.join(comparison.labels)}", blocks, style=STYLE)


def column_headings(labels: Sequence[str]) -> list[str]:
    """Return the labels of the groups or, if one is too long for a column, letters."""
    if max(map(len, labels)) <= MAX_HEADING:
        return list(labels)
    return [ascii_uppercase[i % 26] + "'" * (i // 26) for i in range(len(labels))]


def _describe_groups(comparison: Comparison, descriptions: Sequence[str]) -> list[tuple[str, str]]:
    """Return the column heading of each group with what it stands for."""
    groups = zip(column_headings(comparison.labels), comparison.labels, descriptions, strict=True)
    texts = [(heading, text if heading == label else f"{label}  ({text})") for heading, label, text in groups]
    return [(heading, text + ", the reference" * (i == 0)) for i, (heading, text) in enumerate(texts)]


def _table_columns(labels: Sequence[str]) -> list[str]:
    reference, *others = column_headings(labels)
    return ["metric", reference, *others, *(text for other in others for text in (f"{other} - {reference}", "p"))]


def _build_terminal_table(section: ComparisonSection, labels: Sequence[str]) -> RichTable:
    table = new_table(_table_columns(labels), left=["metric"], title=section.title)
    for row in _metric_rows(section, labels):
        cells = [
            cell
            for text, excludes_zero, p in row.differences
            for cell in (Text(f"{text} *" if excludes_zero else f"{text}  ", "bold" if excludes_zero else ""), Text(p))
        ]
        table.add_row(Text(row.name), *map(Text, row.values), *cells)
    return table


def _html_cells(row: MetricRow) -> list[str]:
    return [
        cell for text, excludes_zero, p in row.differences for cell in (f"**{text}** *" if excludes_zero else text, p)
    ]


def _metric_rows(section: ComparisonSection, labels: Sequence[str]) -> Iterator[MetricRow]:
    for metric, rows in section.rows.groupby("metric", sort=False):
        scale = 1 if metric in IN_NATS else 100
        by_group = {row["group"]: row for row in rows.to_dict("records")}
        values = [next(iter(by_group.values()))["reference_value"]]
        values += [by_group[label]["value"] if label in by_group else float("nan") for label in labels[1:]]
        digits = 1 if scale == 100 else 3
        texts = [NO_VALUE if pd.isna(value) else f"{scale * value:.{digits}f}" for value in values]
        differences = [_format_difference(by_group.get(label), scale) for label in labels[1:]]
        yield MetricRow(_metric_label(str(metric)), texts, differences)


def _format_difference(row: Row | None, scale: int) -> DifferenceTexts:
    if row is None or pd.isna(row["difference"]):
        return DifferenceTexts(NO_VALUE, False, "")
    digits = 2 if scale == 100 else 3
    difference, low, high = (f"{scale * row[key]:+.{digits}f}" for key in ("difference", "low", "high"))
    if pd.isna(row["low"]):
        return DifferenceTexts(difference, False, "")
    p = "< 0.001" if row["p"] < 0.001 else f"{row['p']:.3f}"
    return DifferenceTexts(f"{difference} [{low}, {high}]", _excludes_zero(row), p)


def _excludes_zero(row: Row) -> bool:
    return bool(row["low"] > 0 or row["high"] < 0)


def _metric_label(metric: str) -> str:
    return metric_name(metric) + " ↓" * is_lower_better(metric)


def _draw_forest_plot(section: ComparisonSection, labels: Sequence[str]) -> str | None:
    """Draw the differences with their intervals, one row per metric with one marker per group; None without any."""
    rows = section.rows[section.rows["difference"].notna() & ~section.rows["metric"].str.startswith(NOT_PLOTTED)]
    if rows.empty:
        return None
    groups = [label for label in labels[1:] if label in set(rows["group"])]
    metrics = list(dict.fromkeys(rows["metric"]))
    ends = rows[["difference", "low", "high"]].to_numpy(dtype=float).ravel()
    x = span([0.0, *(100 * ends[~pd.isna(ends)])])
    spacing = 0.65  # of the markers in a row, in units of ROW_HEIGHT
    height = 1.0 if len(groups) == 1 else spacing * len(groups) + 0.5
    chart = Chart(
        "forest",
        f"Differences: {section.title}",
        x=x,
        y=(float(len(metrics)), 0.0),
        x_label="percentage points",
        size=(760, round(62 + ROW_HEIGHT * height * len(metrics))),
        x_ticks={value: f"{value:+g}" if value else "0" for value in ticks(*x, about=8)},
        y_ticks={i + 0.5: _metric_label(metric) for i, metric in enumerate(metrics)},
        left=150.0,
    )
    chart.line([0, 0], [0, len(metrics)], "var(--text)", "no difference")
    markers, colors = (list(islice(cycle(styles), len(groups))) for styles in (MARKERS, COLORS))
    for row in rows.to_dict("records"):
        i = groups.index(row["group"])
        offset = spacing * (i - (len(groups) - 1) / 2) / height
        has_interval = not pd.isna(row["low"])
        chart.dot(
            100 * row["difference"],
            metrics.index(row["metric"]) + 0.5 + offset,
            colors[i],
            f"{row['group']}: {_metric_label(row['metric'])} {_format_difference(row, 100).text}",
            x_interval=(100 * row["low"], 100 * row["high"]) if has_interval else None,
            marker=markers[i],
            filled=has_interval and _excludes_zero(row),
        )
    key = legend(((group[:MAX_LEGEND], color) for group, color in zip(groups, colors, strict=True)), markers=markers)
    return chart.svg() if len(groups) == 1 else key + chart.svg()
