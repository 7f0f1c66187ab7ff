"""Functions that load or generate a benchmark graph. Third-party loaders are imported on demand."""

from lopgpn_exp.data.datasets.digits import digits_graph
from lopgpn_exp.data.datasets.ogb import ogb_node
from lopgpn_exp.data.datasets.pyg import amazon, citation_full, coauthor, heterophilous
from lopgpn_exp.data.datasets.synthetic import block_model

__all__ = ["amazon", "block_model", "citation_full", "coauthor", "digits_graph", "heterophilous", "ogb_node"]
