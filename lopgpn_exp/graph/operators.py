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
    scale = _diagonal(degree**-0.5)
    return (scale @ adjacency @ scale).tocsr()


def column_stochastic(graph: Graph) -> sp.csr_array:
    """Return A D^-1, the operator of GPN (rw): columns sum to 1. Paper: Eq. (10)."""
    adjacency, degree = _add_self_loops(graph)
    return (adjacency @ _diagonal(degree**-1.0)).tocsr()


def row_stochastic(graph: Graph) -> sp.csr_array:
    """Return D^-1 A, the operator of LOP-GPN: rows sum to 1, so the rows of its powers are mixture weights.

    Deviation: the paper writes A D^-1 for both models (Eq. 10), whose rows do not sum to 1; its published numbers were
    computed with D^-1 A.
    """
    adjacency, degree = _add_self_loops(graph)
    return (_diagonal(degree**-1.0) @ adjacency).tocsr()


def adjacency_matrix(graph: Graph) -> sp.csr_array:
    """Return A, without self loops: 1 in both directions of each edge."""
    n = graph.num_nodes
    source, target = graph.edge_index.numpy()
    return sp.coo_array((np.ones(len(source)), (source, target)), shape=(n, n)).tocsr()


def _add_self_loops(graph: Graph) -> tuple[sp.csr_array, np.ndarray]:
    adjacency = (adjacency_matrix(graph) + sp.eye_array(graph.num_nodes, format="csr")).tocsr()
    return adjacency, np.asarray(adjacency.sum(axis=1)).ravel()


def _diagonal(values: np.ndarray) -> sp.dia_array:
    return sp.dia_array((values[None], [0]), shape=(len(values), len(values)))
