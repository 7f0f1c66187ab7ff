"""The user's own graph: a PyG file, an npz file or two tables."""

from lopgpn_exp.data.custom.read import custom_graph, read_like

__all__ = ["custom_graph", "read_like"]
