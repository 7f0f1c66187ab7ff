"""The adjacency, and its three normalised operators, self loops included.

They are three functions because they are three different matrices: what the literature calls "random walk" is
column-stochastic in one paper and row-stochastic in the next.
"""

import numpy as np
import scipy.sparse as sp

from lopgpn_exp.graph.graph import Graph


def symmetric(graph: Graph) -> sp.csr_array:
    """D^-1/2 A D^-1/2, the operator of GPN (sym) and APPNP. Paper: Sec. 5.1, Models."""
    adjacency, degree = _with_self_loops(graph)
    scale = sp.dia_array((degree[None] ** -0.5, [0]), shape=adjacency.shape)
    return (scale @ adjacency @ scale).tocsr()


def column_stochastic(graph: Graph) -> sp.csr_array:
    """A D^-1, the operator of GPN (rw): columns sum to 1. Paper: Eq. (10)."""
    adjacency, degree = _with_self_loops(graph)
    return (adjacency @ sp.dia_array((degree[None] ** -1.0, [0]), shape=adjacency.shape)).tocsr()


def row_stochastic(graph: Graph) -> sp.csr_array:
    """D^-1 A, the operator of LOP-GPN: rows sum to 1, so that its powers hold mixture weights.

    Deviation: the paper writes A D^-1 for both (Eq. 10), whose rows are no weights; its numbers were made with D^-1 A.
    """
    adjacency, degree = _with_self_loops(graph)
    return (sp.dia_array((degree[None] ** -1.0, [0]), shape=adjacency.shape) @ adjacency).tocsr()


def adjacency_matrix(graph: Graph) -> sp.csr_array:
    """A itself, without self loops: 1 in both directions of each edge."""
    n = graph.num_nodes
    source, target = graph.edge_index.numpy()
    return sp.coo_array((np.ones(len(source)), (source, target)), shape=(n, n)).tocsr()


def _with_self_loops(graph: Graph) -> tuple[sp.csr_array, np.ndarray]:
    n = graph.num_nodes
    loops = np.arange(n)
    source, target = graph.edge_index.numpy()
    rows, columns = np.concatenate([source, loops]), np.concatenate([target, loops])
    adjacency = sp.coo_array((np.ones(len(rows)), (rows, columns)), shape=(n, n)).tocsr()
    return adjacency, np.asarray(adjacency.sum(axis=1)).ravel()
