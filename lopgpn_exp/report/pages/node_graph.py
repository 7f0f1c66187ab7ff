"""The graph of a run with its nodes coloured by uncertainty, drawn in the browser from what the page carries."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd

from lopgpn_exp.graph import Graph
from lopgpn_exp.report.names import measure_name
from lopgpn_exp.report.pages.layout import layout

MOST_NODES = 5_000  # a spring layout of so many takes some ten seconds, once
MOST_EDGES = 50_000
FIRST = ("au", "eu", "tu", "lconf")  # what the two panels show at first, as far as the posterior has it

STYLE = """
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); gap: 1rem; }
.panels canvas { width: 100%; aspect-ratio: 1; border: 1px solid var(--line); border-radius: 4px; cursor: crosshair; }
.panels select, .graph button { font: inherit; color: inherit; background: var(--soft);
  border: 1px solid var(--line); border-radius: 3px; }
.graph { position: relative; }
.graph .tip { position: absolute; display: none; pointer-events: none; background: var(--back); white-space: pre;
  border: 1px solid var(--dim); border-radius: 4px; padding: .3rem .5rem; font-size: .8rem; z-index: 1; }
.graph .scale { display: inline-block; width: 9em; height: .8em; border-radius: 2px; vertical-align: middle;
  background: linear-gradient(90deg, #4477AA, #B9B9B9 50%, #CC3311); }
.legend svg { vertical-align: -.2em; margin-right: .3em; fill: var(--dim); }
"""

SHAPES = {
    "test": '<circle cx="6" cy="6" r="3.5"/>',
    "training": '<rect x="2.5" y="2.5" width="7" height="7"/>',
    "out-of-distribution": '<path d="M6 1L11 10H1Z"/>',
    "wrongly predicted test node": '<circle cx="6" cy="6" r="4" style="fill:none;stroke:currentColor;stroke-width:2"/>',
}

HOW = (
    "Point at a node for its values, click it for its neighbours, double-click to look closer, drag to move. Colours "
    "are ranks among all nodes: values of a measure may differ by orders of magnitude. Small circles are validation "
    "nodes and those of no part."
)


def graph_section(
    graph: Graph | None, table: pd.DataFrame, measures: Sequence[str], *, wrong: np.ndarray, cache_dir: Path | None
) -> str:
    """The drawing, or why there is none."""
    if graph is None:
        return "<p>The graph is not drawn: this page was written without it.</p>"
    if graph.num_nodes > MOST_NODES or graph.num_edges > MOST_EDGES:
        return (
            f"<p>The graph is not drawn: it has {graph.num_nodes:,} nodes and {graph.num_edges:,} edges, and more than "
            f"{MOST_NODES:,} nodes or {MOST_EDGES:,} edges cannot be told apart on a screen.</p>"
        )
    data = _data(graph, table, measures, wrong, layout(graph, cache_dir=cache_dir))
    first = [m for m in FIRST if m in measures][:2] or list(measures[:1])
    panels = "".join(_panel(measures, chosen) for chosen in first)
    shapes = "".join(f'<span><svg width="12" height="12">{s}</svg>{escape(n)}</span>' for n, s in SHAPES.items())
    script = files(__package__).joinpath("node_graph.js").read_text()
    return "\n".join(
        [
            '<div class="graph">',
            f'<div class="legend"><span>certain <i class="scale"></i> uncertain</span>{shapes}</div>',
            f'<div class="panels">{panels}</div><div class="tip"></div>',
            f'<p class="note"><button type="button">whole graph</button> {HOW}</p>',
            "<noscript><p>The graph is drawn by a script in this page, and scripts are turned off.</p></noscript>",
            f'<script type="application/json" class="data">{_json(data)}</script>',
            f"<script>\n{script}</script>",
            "</div>",
        ]
    )


def _panel(measures: Sequence[str], chosen: str) -> str:
    options = "".join(
        f'<option value="{escape(m)}"{" selected" if m == chosen else ""}>{escape(measure_name(m))}</option>'
        for m in measures
    )
    return f"<div><label>coloured by <select>{options}</select></label><canvas></canvas></div>"


def _data(
    graph: Graph, table: pd.DataFrame, measures: Sequence[str], wrong: np.ndarray, positions: np.ndarray
) -> dict[str, object]:
    """Arrays as base64 of little-endian numbers; what a node is, in the bits of one byte."""
    source, target = graph.edge_index.numpy()
    edges = np.stack([source, target], axis=1)[source < target]
    test, train = ((table["part"] == part).to_numpy() for part in ("test", "train"))
    return {
        "positions": _packed(np.rint(positions * 65535), "<u2"),
        "edges": _packed(edges, "<u2"),
        "kind": _packed(test * 1 + train * 2 + table["is_ood"].to_numpy() * 4 + wrong * 8, "u1"),
        "label": _packed(table["label"].to_numpy(), "<i2"),
        "predicted": _packed(table["predicted"].to_numpy(), "<i2"),
        "ids": [] if graph.legend is None else [str(node) for node in graph.legend.nodes],
        "classes": [] if graph.legend is None else list(graph.legend.classes),
        "measures": {m: {"name": measure_name(m), "values": _packed(table[m].to_numpy(), "<f4")} for m in measures},
    }


def _json(data: dict[str, object]) -> str:
    """Inside a script element, where only `</script>` could end it."""
    return json.dumps(data).replace("<", r"\u003c")


def _packed(values: np.ndarray, dtype: str) -> str:
    return b64encode(values.astype(dtype).tobytes()).decode()
