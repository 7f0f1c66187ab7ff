"""The adjacency matrix and its three normalisations with self loops.

Each normalisation has its own function, because "random walk" means column-stochastic in some papers and
row-stochastic in others.
"""

import numpy as np
import scipy.sparse as sp

from lopgpn_exp.graph.graph import Graph


def symmetric(graph: Graph) -> sp.csr_array:
    """Return D^-1/2 A D^-1/2, the operator of GPN (sym) and APPNP. Paper: Sec. 5.1, Models."""
    adjacency, degree = _add_self_loops(graph)
    return _scale_columns(_scale_rows(adjacency, degree**-0.5), degree**-0.5)


def column_stochastic(graph: Graph) -> sp.csr_array:
    """Return A D^-1, the operator of GPN (rw): columns sum to 1. Paper: Eq. (10)."""
    adjacency, degree = _add_self_loops(graph)
    return _scale_columns(_reverse_rows(adjacency), degree**-1.0)


def row_stochastic(graph: Graph) -> sp.csr_array:
    """Return D^-1 A, the operator of LOP-GPN: rows sum to 1, so the rows of its powers are mixture weights.

    Deviation: the paper writes A D^-1 for both models (Eq. 10), whose rows do not sum to 1; its published numbers were
    computed with D^-1 A.
    """
    adjacency, degree = _add_self_loops(graph)
    return _scale_rows(_reverse_rows(adjacency), degree**-1.0)


def neighbour_mean(graph: Graph) -> sp.csr_array:
    """Return D^-1 A without self loops, which averages over neighbours; a node without neighbours keeps its value."""
    adjacency = adjacency_matrix(graph)
    degree = np.diff(adjacency.indptr)
    return (sp.diags_array(1 / np.maximum(degree, 1)) @ adjacency + sp.diags_array((degree == 0) * 1.0)).tocsr()


def adjacency_matrix(graph: Graph) -> sp.csr_array:
    """Return A, without self loops: 1 in both directions of each edge."""
    n = graph.num_nodes
    source, target = graph.edge_index.numpy()  # sorted by source, then target
    indptr = np.searchsorted(source, np.arange(n + 1)).astype(_index_dtype(n, len(source)))
    return sp.csr_array((np.ones(len(target)), target.astype(indptr.dtype), indptr), shape=(n, n))


def _index_dtype(num_nodes: int, num_entries: int) -> type[np.signedinteger]:
    """Return the smaller type that holds all indices of a matrix with self loops."""
    return np.int32 if num_nodes + num_entries <= np.iinfo(np.int32).max else np.int64


def _add_self_loops(graph: Graph) -> tuple[sp.csr_array, np.ndarray]:
    adjacency = (adjacency_matrix(graph) + sp.eye_array(graph.num_nodes, format="csr")).tocsr()
    return adjacency, np.diff(adjacency.indptr).astype(np.float64)


def _reverse_rows(matrix: sp.csr_array) -> sp.csr_array:
    """Reverse the entries of each row: descending columns, the order in which all published sums were made.

    Any order is right, but another one changes the last bits of every PPR matrix and of GPN (rw).
    """
    order = np.repeat(matrix.indptr[:-1] + matrix.indptr[1:] - 1, np.diff(matrix.indptr))
    order -= np.arange(matrix.nnz, dtype=order.dtype)
    return sp.csr_array((matrix.data, matrix.indices[order], matrix.indptr), shape=matrix.shape)  # all entries are 1


def _scale_rows(matrix: sp.csr_array, factors: np.ndarray) -> sp.csr_array:
    """Multiply each row with its factor, in place."""
    matrix.data *= np.repeat(factors, np.diff(matrix.indptr))
    return matrix


def _scale_columns(matrix: sp.csr_array, factors: np.ndarray) -> sp.csr_array:
    """Multiply each column with its factor, in place."""
    matrix.data *= factors[matrix.indices]
    return matrix
