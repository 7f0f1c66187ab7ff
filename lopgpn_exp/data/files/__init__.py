"""Read a user's own graph: a PyG file, an npz file or two tables. `custom_graph` is the entry point."""

from lopgpn_exp.data.files.pyg_file import parse_pyg_data
from lopgpn_exp.data.files.raw_graph import build_graph, build_graph_like
from lopgpn_exp.data.files.reader import SUFFIXES, custom_graph, read_graph_like, read_tables_like
from lopgpn_exp.data.files.survey import describe_graph
from lopgpn_exp.data.files.tables import Columns

__all__ = [
    "SUFFIXES",
    "Columns",
    "build_graph",
    "build_graph_like",
    "custom_graph",
    "describe_graph",
    "parse_pyg_data",
    "read_graph_like",
    "read_tables_like",
]
