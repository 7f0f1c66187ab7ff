"""How tight the bounds are, as people read it: tables in the terminal, a page with charts."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table as RichTable

from lopgpn_exp.report.bounds import BOUNDS, SURROGATE, Tightness
from lopgpn_exp.report.document import Paragraph, Table
from lopgpn_exp.report.names import NO_VALUE, metric_name
from lopgpn_exp.report.page import page as framed
from lopgpn_exp.report.pages import svg
from lopgpn_exp.report.pages.run_charts import roc_chart

NAMES = {"lower": "lower bound", "exact": "exact", "upper": "upper bound (EU_SO)"}
COLORS = {"lower": "#228833", "exact": "#4477AA", "upper": "#EE6677"}
QUANTILES = [0.05, 0.25, 0.5, 0.75, 0.95]
MOST_POINTS = 300  # of a line: no more can be seen
WIDEST = 1000
KEY = (
    "Entropies are in nats. Position: 0 at the lower bound of Eq. (14), 1 at the upper one, the paper's EU_SO. AUARC "
    "and AUC-ROC are in percent, [ ] 95 % over test nodes; differences from EU_SO in percentage points."
)


def show(title: str, found: Tightness) -> None:
    console = Console(highlight=False, soft_wrap=True, markup=False)
    console.print(f"\n{title}", style="bold")
    console.print(_what(found))
    for head, rows in (_distribution(found), _uses(found)):
        table = RichTable(box=None, padding=(0, 1), header_style="bold")
        for i, name in enumerate(head):
            table.add_column(name, justify="right" if i else "left", no_wrap=True)
        for row in rows:
            table.add_row(*row)
        console.print()
        width = Console(width=WIDEST).measure(table).maximum  # a line too long can be read, one cut short cannot
        Console(highlight=False, width=width).print(table)
    console.print(f"\n{_agreement(found)}\n{KEY}")


def page(title: str, found: Tightness) -> str:
    return framed(f"Bounds: {title}", "\n".join(_body(title, found)), style=svg.STYLE)


def _body(title: str, found: Tightness) -> Iterator[str]:
    yield f"<h1>Bounds on the differential entropy: {escape(title)}</h1>"
    yield Paragraph(f"{_what(found)} {_agreement(found)} {KEY}").html()
    yield svg.legend((NAMES[bound], COLORS[bound]) for bound in BOUNDS)
    drawings = [_between(found.table)]
    if found.table["position"].notna().any():
        drawings.append(_positions(found.table["position"].dropna().to_numpy()))
    if 0 < found.table["is_ood"].sum() < len(found.table):
        colors = {NAMES[bound]: COLORS[bound] for bound in BOUNDS}
        drawings.append(roc_chart(found.table.rename(columns=NAMES), list(colors), colors=colors))
    yield svg.charts(drawings)
    for head, rows in (_distribution(found), _uses(found)):
        yield Table(head, rows).html()


def _what(found: Tightness) -> str:
    share = "all" if len(found.table) == found.num_test else f"{len(found.table):,} of"
    return f"{share} {found.num_test:,} test nodes, each by {found.num_draws:,} draws or a few more."


def _agreement(found: Tightness) -> str:
    ranks = [f"{NAMES[bound]} {value:.4f}" for bound, value in found.rank_correlation.items()]
    return "Order of nodes against the exact one (Spearman): " + (", ".join(ranks) or "all nodes are the same") + "."


def _distribution(found: Tightness) -> tuple[list[str], list[list[str]]]:
    table = found.table
    lines = {NAMES[bound]: (table[bound], 3) for bound in BOUNDS}
    lines |= {
        "standard error of exact": (table["standard_error"], 4),
        "upper - exact": (table["upper"] - table["exact"], 3),
        "upper - lower": (table["upper"] - table["lower"], 3),
        "position": (table["position"].dropna(), 3),
        "components": (table["components"], 0),
    }
    rows = [
        [name, *(f"{value:.{digits}f}" for value in (values.mean(), *values.quantile(QUANTILES), values.max()))]
        for name, (values, digits) in lines.items()
        if len(values)
    ]
    return ["over nodes", "mean", *(f"{100 * q:g} %" for q in QUANTILES), "largest"], rows


def _uses(found: Tightness) -> tuple[list[str], list[list[str]]]:
    rows = []
    for row in found.scores.itertuples():
        low, high = 100 * row.difference_low, 100 * row.difference_high
        difference = NO_VALUE if row.bound == SURROGATE else f"{100 * row.difference:+.2f} [{low:+.2f}, {high:+.2f}]"
        value = f"{100 * row.value:.2f} [{100 * row.low:.2f}, {100 * row.high:.2f}]"
        rows.append([f"{metric_name(f'{row.metric}/x').removesuffix(' x')}, {NAMES[row.bound]}", value, difference])
    return ["nodes ordered by", "value", "difference"], rows


def _between(table: pd.DataFrame) -> str:
    """All nodes in the order of the exact value, with what the bounds leave open around it."""
    ordered = table.sort_values("exact", kind="stable")
    shown = ordered.iloc[np.unique(np.linspace(0, len(ordered) - 1, MOST_POINTS).astype(int))]
    places = np.linspace(0, 100, len(shown)) if len(shown) > 1 else np.array([50.0])
    chart = svg.Chart(
        "between",
        "Entropy between its bounds",
        x=(0.0, 100.0),
        y=svg.span([*shown["lower"], *shown["upper"]]),
        x_label="test nodes, smallest exact entropy first (%)",
        y_label="differential entropy",
        size=(440, 330),
    )
    chart.band(places, shown["lower"].to_numpy(), shown["upper"].to_numpy(), "var(--dim)")
    for bound in BOUNDS:
        chart.line(places, shown[bound], COLORS[bound], NAMES[bound])
    return chart.svg()


def _positions(position: np.ndarray) -> str:
    edges = np.linspace(0, 1, 31)
    share = np.histogram(position, edges)[0] / len(position)
    chart = svg.Chart(
        "position",
        f"Position, median {np.median(position):.3f}",
        x=(0.0, 1.0),
        y=(0.0, 1.08 * float(share.max())),
        x_label="0: lower bound, 1: upper bound",
        y_label="share of nodes",
        size=(350, 330),
    )
    chart.steps(edges, share, COLORS["exact"], f"{len(position):,} nodes")
    return chart.svg()
