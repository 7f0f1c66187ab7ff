"""The smooth end of a graph's spectrum: smallest eigenpairs of the combinatorial Laplacian."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int
from scipy.linalg import eigh
from scipy.sparse.csgraph import connected_components

from lopgpn_exp.errors import InputError
from lopgpn_exp.graph.cache import cache_key, stored_arrays
from lopgpn_exp.graph.eigensolver import NotConvergedError, smallest_eigenpairs
from lopgpn_exp.graph.graph import Graph
from lopgpn_exp.graph.operators import adjacency_matrix

log = logging.getLogger(__name__)

# Up to so many nodes LAPACK's dense solver is faster than any search, and takes under a gigabyte.
DENSE_UP_TO = 5_000


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues, ascending, and their orthonormal eigenvectors in columns."""

    values: Float[np.ndarray, " pairs"]
    vectors: Float[np.ndarray, "nodes pairs"]


def laplacian_spectrum(
    graph: Graph,
    *,
    num_eigenpairs: int,
    tolerance: float = 1e-6,
    cache_dir: Path | None = None,
    report: Callable[[str], None] = lambda text: None,
) -> Spectrum:
    r"""The `num_eigenpairs` smallest eigenpairs of :math:`L = D - A`, cached by the graph's edges.

    - The null space is written down, not computed: one constant vector for each connected component, an isolated node
      being one. If there are more components than wanted pairs, those of the largest components are taken.
    - The rest by a block Krylov space of the inverse in the complement (see `eigensolver`), deterministic.
    - Where the last pair falls into a multiple eigenvalue, which vectors of its eigenspace are taken is arbitrary.

    Args:
        tolerance: largest residual |L x - lambda x| of a pair, x of norm 1.

    Raises:
        InputError: if there are fewer nodes than pairs, or the solver does not reach the tolerance.
    """
    if not 1 <= num_eigenpairs <= graph.num_nodes:
        raise InputError(
            f"num_eigenpairs is {num_eigenpairs}",
            expected=f"from 1 to {graph.num_nodes}, the number of nodes",
            hint=f"model.num_eigenpairs={max(1, min(num_eigenpairs, graph.num_nodes))}",
        )
    key = cache_key(f"spectrum-1 {graph.structure_fingerprint} {num_eigenpairs} {tolerance!r}")

    def compute() -> dict[str, np.ndarray]:
        found = _compute(adjacency_matrix(graph), num_eigenpairs, tolerance, report)
        return {"values": found.values, "vectors": found.vectors}

    return Spectrum(**stored_arrays(cache_dir, f"spectrum-{key}", compute))


def _compute(adjacency: sp.csr_array, count: int, tolerance: float, report: Callable[[str], None]) -> Spectrum:
    degree = np.asarray(adjacency.sum(axis=1)).ravel()
    laplacian = (sp.dia_array((degree[None], [0]), shape=adjacency.shape) - adjacency).tocsr()
    num_components, component = connected_components(adjacency, directed=False)
    null_space = _indicators(component, num_components)[:, :count]
    wanted = count - null_space.shape[1]
    log.info("Laplacian of %d nodes has %d zero eigenvalues; %d pairs wanted", len(degree), num_components, count)
    if wanted == 0:
        return Spectrum(np.zeros(count), null_space)
    if len(degree) <= DENSE_UP_TO:
        # Zero eigenvalues lifted out of the way: theirs come from the null space, exact.
        lifted = laplacian.toarray() + (4 * degree.max() + 1) * (null_space @ null_space.T)
        values, vectors = eigh(lifted, subset_by_index=[0, wanted - 1])
    else:
        try:
            values, vectors = smallest_eigenpairs(laplacian, component, wanted, tolerance=tolerance, report=report)
        except NotConvergedError as error:
            raise InputError(
                f"the eigensolver stopped at a residual of {error.residual:.1e} ({error.converged} of {wanted} "
                "non-zero pairs converged)",
                expected=f"at most {tolerance:g} (model.eigen_tolerance)",
                hint=f"model.eigen_tolerance={2 * error.residual:.0e} or model.num_eigenpairs={max(1, count // 2)}",
            ) from None
    return Spectrum(np.concatenate([np.zeros(count - wanted), values]), np.hstack([null_space, vectors]))


def _indicators(component: Int[np.ndarray, " nodes"], num_components: int) -> Float[np.ndarray, "nodes components"]:
    """Normalised indicator vectors of the components, largest first, then by their first node."""
    size = np.bincount(component)
    order = np.argsort(-size, kind="stable")
    rank = np.empty(num_components, dtype=np.int64)
    rank[order] = np.arange(num_components)
    vectors = np.zeros((len(component), num_components))
    vectors[np.arange(len(component)), rank[component]] = size[component] ** -0.5
    return vectors
