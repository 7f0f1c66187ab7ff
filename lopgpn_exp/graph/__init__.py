"""The graph type and what is computed from a graph alone: operators, dispersion, the PPR matrix, hop distances."""

from lopgpn_exp.graph.dispersion import Dispersion, Scheme
from lopgpn_exp.graph.graph import Graph, Part, fingerprint, undirected_edges
from lopgpn_exp.graph.legend import Legend
from lopgpn_exp.graph.matrix import DenseMatrix, Matrix, SparseMatrix
from lopgpn_exp.graph.operators import (
    adjacency_matrix,
    column_stochastic,
    neighbour_mean,
    row_stochastic,
    symmetric,
)
from lopgpn_exp.graph.ppr import ppr_matrix

__all__ = [
    "DenseMatrix",
    "Dispersion",
    "Graph",
    "Legend",
    "Matrix",
    "Part",
    "Scheme",
    "SparseMatrix",
    "adjacency_matrix",
    "column_stochastic",
    "fingerprint",
    "neighbour_mean",
    "ppr_matrix",
    "row_stochastic",
    "symmetric",
    "undirected_edges",
]
