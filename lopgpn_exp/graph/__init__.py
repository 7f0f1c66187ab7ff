"""A frozen graph, its normalised operators, dispersion, the sparse PPR matrix and the Laplacian spectrum."""

from lopgpn_exp.graph.dispersion import Dispersion, Scheme
from lopgpn_exp.graph.graph import Graph, Part, fingerprint, undirected_edges
from lopgpn_exp.graph.legend import Legend
from lopgpn_exp.graph.matrix import DenseMatrix, Matrix, SparseMatrix
from lopgpn_exp.graph.operators import adjacency_matrix, column_stochastic, row_stochastic, symmetric
from lopgpn_exp.graph.ppr import ppr_matrix
from lopgpn_exp.graph.spectrum import Spectrum, laplacian_spectrum

__all__ = [
    "DenseMatrix",
    "Dispersion",
    "Graph",
    "Legend",
    "Matrix",
    "Part",
    "Scheme",
    "SparseMatrix",
    "Spectrum",
    "adjacency_matrix",
    "column_stochastic",
    "fingerprint",
    "laplacian_spectrum",
    "ppr_matrix",
    "row_stochastic",
    "symmetric",
    "undirected_edges",
]
