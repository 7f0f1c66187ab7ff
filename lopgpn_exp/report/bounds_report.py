"""Tightness of the entropy bounds: tables in the terminal, and an HTML page with charts."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

import numpy as np
import pandas as pd

from lopgpn_exp.evaluation.entropy_bounds import BOUNDS, SURROGATE, Tightness
from lopgpn_exp.report import charts
from lopgpn_exp.report.charts import run_charts
from lopgpn_exp.report.console import Console, new_table, print_table
from lopgpn_exp.report.document import Paragraph, Table, render_page
from lopgpn_exp.report.names import METRIC_NAMES, NO_VALUE

NAMES = {"lower": "lower bound", "exact": "exact", "upper": "upper bound (EU_SO)"}
COLORS = {"lower": "#228833", "exact": "#4477AA", "upper": "#EE6677"}
QUANTILES = [0.05, 0.25, 0.5, 0.75, 0.95]
KEY = (
    "Entropies are in nats. Position: 0 at the lower bound of Eq. (14), 1 at the upper bound, the paper's EU_SO. AUARC "
    "and AUC-ROC are in percent, differences from EU_SO in percentage points. [ ]: 95 % interval over test nodes."
)


def print_bounds(title: str, tightness: Tightness) -> None:
    console = Console(soft_wrap=True)
    console.print(f"\n{title}", style="bold")
    console.print(_describe_sample(tightness))
    for content in (_tabulate_entropies(tightness), _tabulate_scores(tightness)):
        table = new_table(content.head, left=content.head[:1])
        for row in content.rows:
            table.add_row(*row)
        console.print()
        print_table(table)
    console.print(f"\n{_describe_ranks(tightness)}\n{KEY}")


def bounds_page(title: str, tightness: Tightness) -> str:
    """Return a self-contained HTML page."""
    return render_page(f"Bounds: {title}", "\n".join(_render_body(title, tightness)), style=charts.STYLE)


def _render_body(title: str, tightness: Tightness) -> Iterator[str]:
    table = tightness.table
    yield f"<h1>Bounds on the differential entropy: {escape(title)}</h1>"
    yield Paragraph(f"{_describe_sample(tightness)} {_describe_ranks(tightness)} {KEY}").html()
    yield charts.legend((NAMES[bound], COLORS[bound]) for bound in BOUNDS)
    drawings = [_draw_entropies(table)]
    if table["position"].notna().any():
        drawings.append(_draw_positions(table["position"].dropna().to_numpy()))
    if 0 < table["is_ood"].sum() < len(table):
        colors = {NAMES[bound]: COLORS[bound] for bound in BOUNDS}
        drawings.append(run_charts.roc_chart(table.rename(columns=NAMES), list(colors), colors=colors))
    yield charts.chart_row(drawings)
    yield _tabulate_entropies(tightness).html()
    yield _tabulate_scores(tightness).html()


def _describe_sample(tightness: Tightness) -> str:
    size = len(tightness.table)
    share = "all" if size == tightness.num_test else f"{size:,} of"
    return f"{share} {tightness.num_test:,} test nodes, at least {tightness.num_draws:,} draws per node."


def _describe_ranks(tightness: Tightness) -> str:
    ranks = [f"{NAMES[bound]} {value:.4f}" for bound, value in tightness.rank_correlation.items()]
    return f"Rank correlation with the exact value (Spearman): {', '.join(ranks) or 'all nodes have the same value'}."


def _tabulate_entropies(tightness: Tightness) -> Table:
    """Return the distribution of entropies, gaps and positions over the nodes."""
    table = tightness.table
    columns = {NAMES[bound]: (table[bound], 3) for bound in BOUNDS}
    columns |= {
        "standard error of exact": (table["standard_error"], 4),
        "upper - exact": (table["upper"] - table["exact"], 3),
        "upper - lower": (table["upper"] - table["lower"], 3),
        "position": (table["position"].dropna(), 3),
        "components": (table["components"], 0),
    }
    rows = [
        [name, *(f"{value:.{digits}f}" for value in (values.mean(), *values.quantile(QUANTILES), values.max()))]
        for name, (values, digits) in columns.items()
        if len(values)
    ]
    return Table(["over nodes", "mean", *(f"{100 * quantile:g} %" for quantile in QUANTILES), "maximum"], rows)


def _tabulate_scores(tightness: Tightness) -> Table:
    """Return how well each bound ranks the nodes, and the difference from the surrogate."""
    rows = []
    for row in tightness.scores.to_dict("records"):
        value, low, high = (100 * row[key] for key in ("value", "low", "high"))
        name = f"{METRIC_NAMES[row['metric']]}, {NAMES[row['bound']]}"
        difference = NO_VALUE
        if row["bound"] != SURROGATE:
            ends = [100 * row[key] for key in ("difference_low", "difference_high")]
            difference = f"{100 * row['difference']:+.2f} [{ends[0]:+.2f}, {ends[1]:+.2f}]"
        rows.append([name, f"{value:.2f} [{low:.2f}, {high:.2f}]", difference])
    return Table(["nodes ranked by", "value", "difference"], rows)


def _draw_entropies(table: pd.DataFrame) -> str:
    """Draw the bounds and the exact value of all nodes, sorted by the exact value."""
    ordered = table.sort_values("exact", kind="stable")
    shown = ordered.iloc[np.unique(np.linspace(0, len(ordered) - 1, run_charts.MAX_POINTS).astype(int))]
    percent = np.linspace(0, 100, len(shown)) if len(shown) > 1 else np.array([50.0])
    chart = charts.Chart(
        "between",
        "Exact entropy and its bounds",
        x=(0.0, 100.0),
        y=charts.span([*shown["lower"], *shown["upper"]]),
        x_label="test nodes, smallest exact entropy first (%)",
        y_label="differential entropy",
        size=(440, 330),
    )
    chart.band(percent, shown["lower"].to_numpy(), shown["upper"].to_numpy(), "var(--dim)")
    for bound in BOUNDS:
        chart.line(percent, shown[bound], COLORS[bound], NAMES[bound])
    return chart.svg()


def _draw_positions(position: np.ndarray) -> str:
    edges = np.linspace(0, 1, 31)
    share = np.histogram(position, edges)[0] / len(position)
    chart = charts.Chart(
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
