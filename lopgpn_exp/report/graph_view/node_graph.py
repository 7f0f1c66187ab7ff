"""The graph of a run with nodes coloured by uncertainty, drawn in the browser from data that the page contains."""

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
from lopgpn_exp.measures import measures_of
from lopgpn_exp.report.graph_view.layout import compute_layout
from lopgpn_exp.report.names import measure_name

MAX_NODES = 5_000  # the layout of that many nodes takes about ten seconds, once
MAX_EDGES = 50_000

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

LEGEND = {
    "test": '<circle cx="6" cy="6" r="3.5"/>',
    "training": '<rect x="2.5" y="2.5" width="7" height="7"/>',
    "out-of-distribution": '<path d="M6 1L11 10H1Z"/>',
    "wrongly predicted test node": '<circle cx="6" cy="6" r="4" style="fill:none;stroke:currentColor;stroke-width:2"/>',
}

INSTRUCTIONS = (
    "Point at a node to see its values, click it to see its neighbours, double-click to zoom in, drag to move. Colours "
    "are ranks among all nodes, because the values of a measure may differ by orders of magnitude. Small circles are "
    "validation nodes and nodes outside of the split."
)


def graph_section(
    graph: Graph, table: pd.DataFrame, measures: Sequence[str], *, is_wrong: np.ndarray, cache_dir: Path | None
) -> str:
    """Return the interactive drawing as HTML, or a paragraph that says why there is none."""

    if graph.num_nodes > MAX_NODES or graph.num_edges > MAX_EDGES:
        return (
            f"<p>The graph is not drawn: it has {graph.num_nodes:,} nodes and {graph.num_edges:,} edges, and a drawing "
            f"of more than {MAX_NODES:,} nodes or {MAX_EDGES:,} edges would not be readable.</p>"
        )
    data = _collect_data(graph, table, measures, is_wrong, compute_layout(graph, cache_dir=cache_dir))
    selected = _choose_measures(measures)
    panels = "".join(_render_panel(measures, measure) for measure in selected)
    shapes = "".join(f'<span><svg width="12" height="12">{s}</svg>{escape(n)}</span>' for n, s in LEGEND.items())
    script = files(__package__).joinpath("node_graph.js").read_text()
    return "\n".join(
        [
            '<div class="graph">',
            f'<div class="legend"><span>certain <i class="scale"></i> uncertain</span>{shapes}</div>',
            f'<div class="panels">{panels}</div><div class="tip"></div>',
            f'<p class="note"><button type="button">show whole graph</button> {INSTRUCTIONS}</p>',
            "<noscript><p>The graph is drawn by a script in this page, and scripts are turned off.</p></noscript>",
            f'<script type="application/json" class="data">{_script_json(data)}</script>',
            f"<script>\n{script}</script>",
            "</div>",
        ]
    )


def _choose_measures(measures: Sequence[str]) -> list[str]:
    """Return the measures that the two panels start with: an aleatoric and an epistemic one, if there are both."""
    first = [*measures_of("aleatoric", measures)[:1], *measures_of("epistemic", measures)[:1]]
    return list(dict.fromkeys([*first, *measures]))[:2]


def _render_panel(measures: Sequence[str], selected: str) -> str:
    options = "".join(
        f'<option value="{escape(m)}"{" selected" if m == selected else ""}>{escape(measure_name(m))}</option>'
        for m in measures
    )
    return f"<div><label>coloured by <select>{options}</select></label><canvas></canvas></div>"


def _collect_data(
    graph: Graph, table: pd.DataFrame, measures: Sequence[str], is_wrong: np.ndarray, positions: np.ndarray
) -> dict[str, object]:
    """Return what the script reads: arrays as base64 of little-endian numbers, flags of a node as bits of a byte."""
    source, target = graph.edge_index.numpy()
    edges = np.stack([source, target], axis=1)[source < target]
    is_test, is_train = ((table["part"] == part).to_numpy() for part in ("test", "train"))
    return {
        "positions": _encode(np.rint(positions * 65535), "<u2"),
        "edges": _encode(edges, "<u2"),
        "kind": _encode(is_test * 1 + is_train * 2 + table["is_ood"].to_numpy() * 4 + is_wrong * 8, "u1"),
        "label": _encode(table["label"].to_numpy(), "<i2"),
        "predicted": _encode(table["predicted"].to_numpy(), "<i2"),
        "ids": [] if graph.legend is None else [str(node) for node in graph.legend.nodes],
        "classes": [] if graph.legend is None else list(graph.legend.classes),
        "measures": {m: {"name": measure_name(m), "values": _encode(table[m].to_numpy(), "<f4")} for m in measures},
    }


def _script_json(data: dict[str, object]) -> str:
    """Return JSON that cannot end the script element it is written into."""
    return json.dumps(data).replace("<", r"\u003c")


def _encode(values: np.ndarray, dtype: str) -> str:
    return b64encode(values.astype(dtype).tobytes()).decode()
