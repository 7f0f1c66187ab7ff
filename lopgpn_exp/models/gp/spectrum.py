"""The smallest eigenpairs of the combinatorial Laplacian of a graph."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float, Int
from scipy.linalg import eigh
from scipy.sparse.csgraph import connected_components

from lopgpn_exp.errors import InputError, check_parameter
from lopgpn_exp.graph import Graph, adjacency_matrix
from lopgpn_exp.graph.cache import cache_key, load_or_compute
from lopgpn_exp.models.gp.eigensolver import NotConvergedError, smallest_eigenpairs
from lopgpn_exp.threads import limit_threads

log = logging.getLogger(__name__)

# Up to this many nodes the dense solver of LAPACK is faster than an iterative one and needs less than a gigabyte.
DENSE_UP_TO = 5_000


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues in ascending order, and their orthonormal eigenvectors as columns."""

    values: Float[np.ndarray, " pairs"]
    vectors: Float[np.ndarray, "nodes pairs"]


def laplacian_spectrum(
    graph: Graph,
    *,
    num_eigenpairs: int,
    eigen_tolerance: float = 1e-6,
    cache_dir: Path | None = None,
    report: Callable[[str], None] = lambda text: None,
) -> Spectrum:
    r"""Return the `num_eigenpairs` smallest eigenpairs of :math:`L = D - A`, cached by the edges of the graph.

    - The null space is known: one constant vector per connected component, including isolated nodes. If there are more
      components than eigenpairs requested, the largest components are used.
    - The other pairs are computed by LAPACK or, for large graphs, by a block Krylov method (see `eigensolver`).
    - If the last eigenvalue is a multiple one, the choice of vectors from its eigenspace is arbitrary.

    Args:
        eigen_tolerance: largest residual |L x - lambda x| of an eigenpair with |x| = 1.

    Raises:
        InputError: if there are fewer nodes than pairs, or the solver does not reach the tolerance.
    """
    nearest_valid = max(1, min(num_eigenpairs, graph.num_nodes))
    expected, is_valid = f"from 1 to {graph.num_nodes}, the number of nodes", num_eigenpairs == nearest_valid
    check_parameter("num_eigenpairs", num_eigenpairs, is_valid, expected=expected, suggestion=nearest_valid)
    threads = torch.get_num_threads()  # the last bits depend on it
    key = cache_key(f"spectrum-2 {graph.structure_fingerprint} {num_eigenpairs} {eigen_tolerance!r} {threads}")

    def compute() -> dict[str, np.ndarray]:
        with limit_threads(threads):
            spectrum = _compute(adjacency_matrix(graph), num_eigenpairs, eigen_tolerance, report)
        return {"values": spectrum.values, "vectors": spectrum.vectors}

    return Spectrum(**load_or_compute(cache_dir, f"spectrum-{key}", compute))


def _compute(adjacency: sp.csr_array, count: int, tolerance: float, report: Callable[[str], None]) -> Spectrum:
    degree = np.asarray(adjacency.sum(axis=1)).ravel()
    laplacian = (sp.dia_array((degree[None], [0]), shape=adjacency.shape) - adjacency).tocsr()
    num_components, component = connected_components(adjacency, directed=False)
    null_space = _indicators(component, num_components)[:, :count]
    num_nonzero = count - null_space.shape[1]
    log.info("Laplacian of %d nodes: %d zero eigenvalues, %d eigenpairs requested", len(degree), num_components, count)
    if num_nonzero == 0:
        return Spectrum(np.zeros(count), null_space)
    if len(degree) <= DENSE_UP_TO:
        # The zero eigenvalues, whose vectors are known, are shifted beyond all others.
        shifted = laplacian.toarray() + (4 * degree.max() + 1) * (null_space @ null_space.T)
        values, vectors = eigh(shifted, subset_by_index=[0, num_nonzero - 1])
    else:
        try:
            values, vectors = smallest_eigenpairs(laplacian, component, num_nonzero, tolerance=tolerance, report=report)
        except NotConvergedError as error:
            raise InputError(
                f"the eigensolver stopped at a residual of {error.residual:.1e} ({error.converged} of {num_nonzero} "
                "non-zero pairs converged)",
                expected=f"at most eigen_tolerance, {tolerance:g}; fewer eigenpairs (num_eigenpairs) converge sooner",
                parameter="eigen_tolerance",
                suggestion=float(f"{2 * error.residual:.0e}"),
            ) from None
    return Spectrum(np.concatenate([np.zeros(count - num_nonzero), values]), np.hstack([null_space, vectors]))


def _indicators(component: Int[np.ndarray, " nodes"], num_components: int) -> Float[np.ndarray, "nodes components"]:
    """Return the normalised indicator vectors of the components, largest first, then by their first node."""
    size = np.bincount(component)
    order = np.argsort(-size, kind="stable")
    rank = np.empty(num_components, dtype=np.int64)
    rank[order] = np.arange(num_components)
    vectors = np.zeros((len(component), num_components))
    vectors[np.arange(len(component)), rank[component]] = size[component] ** -0.5
    return vectors
