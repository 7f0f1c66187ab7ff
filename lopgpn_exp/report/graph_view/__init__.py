"""The interactive drawing of a graph on the page of a run: layout, data and script."""

from lopgpn_exp.report.graph_view.layout import compute_layout
from lopgpn_exp.report.graph_view.node_graph import STYLE, graph_section

__all__ = ["STYLE", "compute_layout", "graph_section"]
