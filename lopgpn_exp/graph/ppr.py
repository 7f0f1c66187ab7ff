"""The personalised PageRank (PPR) matrix, whose rows are the mixture weights of LOP-GPN.

It does not depend on trained parameters: it is computed once per graph and cached on disk.
"""

import logging
from pathlib import Path
from typing import Literal

import numpy as np
import scipy.sparse as sp
import torch

from lopgpn_exp.errors import InputError, check_parameter
from lopgpn_exp.graph.cache import Arrays, cache_key, load_or_compute
from lopgpn_exp.graph.dispersion import Scheme, check_dispersion
from lopgpn_exp.graph.graph import Graph
from lopgpn_exp.graph.matrix import DenseMatrix, Matrix, SparseMatrix
from lopgpn_exp.graph.operators import row_stochastic
from lopgpn_exp.threads import count_threads

log = logging.getLogger(__name__)

Precision = Literal["float64", "float32"]
GIB = 2**30
# Real graphs have entries exactly at the threshold; rounding (1e-16) must not decide whether they are kept.
TIE_TOLERANCE = 1e-9
ROWS_PER_TASK = 1024
# Holds only the last matrix, which training, validation and all scenarios of a run share.
_cache: dict[str, Matrix] = {}


def ppr_matrix(
    graph: Graph,
    *,
    num_steps: int = 10,
    teleport: float = 0.1,
    prune_threshold: float = 0.01,
    scheme: Scheme = "recursion",
    precision: Precision = "float64",
    memory_limit_gib: float = 8.0,
    cache_dir: Path | None = None,
) -> Matrix:
    r"""Return the row-stochastic PPR matrix :math:`\Pi` of a graph. Paper: Eq. (10) and Sec. 4.2.

    The dispersion is applied to the identity. With `prune_threshold` delta > 0, each of the L steps drops the entries
    below delta and adds their sum to the diagonal of the row, so a row has at most 1/delta + 1 entries.

    - Computed in float64 with a fixed order of summation: the same graph gives the same bits.
    - Ties: an entry is kept if it is at least delta (1 - 1e-9). With `precision="float32"`, each step is computed and
      compared with delta in float32, as in the public code, where rounding decides about ties. This stores the product
      of a step before it is pruned, so it needs more memory than the bound below. It has no effect for delta = 0.
    - delta = 0 gives the exact, dense matrix, for small graphs.

    Deviation: the paper's Pi is the power of Eq. (10); see `Dispersion` for why the recursion is the default.

    Raises:
        InputError: before anything is allocated, if the matrix could take more than `memory_limit_gib`.
    """
    check_ppr(num_steps=num_steps, teleport=teleport, prune_threshold=prune_threshold)
    bound = _check_memory(graph.num_nodes, prune_threshold, memory_limit_gib)
    description = f"ppr-3 {graph.structure_fingerprint} {num_steps} {teleport!r} {prune_threshold!r} {scheme}"
    key = cache_key(description if precision == "float64" else f"{description} {precision}")
    if key not in _cache:

        def compute() -> Arrays:
            log.info("Building the PPR matrix of %s nodes: at most %.2f GiB", f"{graph.num_nodes:,}", bound)
            return _compute(row_stochastic(graph), num_steps, teleport, prune_threshold, scheme, precision)

        arrays = load_or_compute(cache_dir, f"ppr-{key}", compute)
        _cache.clear()
        _cache[key] = _build_matrix(arrays, graph.num_nodes)
    return _cache[key]


def check_ppr(*, num_steps: int, teleport: float, prune_threshold: float) -> None:
    """Raise an InputError if an option of `ppr_matrix` is out of range."""
    check_dispersion(num_steps=num_steps, teleport=teleport)
    is_valid = 0 <= prune_threshold < 1
    check_parameter("prune_threshold", prune_threshold, is_valid, expected="0 or more, less than 1", suggestion=0.01)


def _compute(
    operator: sp.csr_array, num_steps: int, teleport: float, delta: float, scheme: Scheme, precision: Precision
) -> Arrays:
    if delta == 0:
        return {"dense": _compute_dense(operator, num_steps, teleport, scheme)}
    compute_pruned = _compute_pruned if precision == "float64" else _compute_pruned_float32
    matrix = compute_pruned(operator, num_steps, teleport, delta, scheme)
    return {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}


def _build_matrix(arrays: Arrays, num_nodes: int) -> Matrix:
    if "dense" in arrays:
        return DenseMatrix(torch.from_numpy(arrays["dense"]))
    parts = (arrays["data"], arrays["indices"], arrays["indptr"])
    return SparseMatrix(sp.csr_array(parts, shape=(num_nodes, num_nodes)))


def memory_bound_gib(num_nodes: int, prune_threshold: float) -> float:
    """Return an upper bound on the memory that building the matrix takes, in GiB.

    Dense: the matrix, the product of a step and one term, in float64. Sparse: the rows before and after a step, with
    1/delta + 1 entries each (8 bytes per value, 4 per index), the latter twice, in blocks and concatenated; and for
    each thread the rows of a task and a hash table of at most four slots per node (16 bytes each).
    """
    if prune_threshold == 0:
        return 3 * 8 * num_nodes**2 / GIB
    row_length = min(1 / prune_threshold + 1, num_nodes)
    per_thread = 4 * 16 * num_nodes + 12 * min(ROWS_PER_TASK, num_nodes) * (row_length + 1)
    num_threads = count_threads(-(-num_nodes // ROWS_PER_TASK))
    return (3 * 12 * num_nodes * row_length + per_thread * num_threads) / GIB


def _check_memory(num_nodes: int, prune_threshold: float, limit_gib: float) -> float:
    """Return `memory_bound_gib`; raise an InputError if it exceeds the limit."""
    bound = memory_bound_gib(num_nodes, prune_threshold)
    if bound > limit_gib:
        larger = 0.01 if prune_threshold == 0 else prune_threshold * 5
        raise InputError(
            f"the PPR matrix of {num_nodes:,} nodes at prune_threshold={prune_threshold} can take {bound:.2g} GiB",
            expected=f"at most {limit_gib:g} GiB: a larger prune_threshold, or memory_limit_gib={np.ceil(bound):g}",
            parameter="prune_threshold",
            suggestion=float(f"{larger:g}"),
        )
    return bound


def _compute_dense(operator: sp.csr_array, num_steps: int, teleport: float, scheme: Scheme) -> np.ndarray:
    n = operator.shape[0]
    current = np.eye(n)
    for _ in range(num_steps):
        product = operator @ current
        product *= 1 - teleport
        if scheme == "recursion":
            product[np.arange(n), np.arange(n)] += teleport
        else:
            current *= teleport  # in place: its last use
            product += current
        current = product
    return current


def _compute_pruned(
    operator: sp.csr_array, num_steps: int, teleport: float, delta: float, scheme: Scheme
) -> sp.csr_array:
    from lopgpn_exp.graph.ppr_kernel import pruned_step  # deferred import: numba is slow to import

    current = sp.eye_array(operator.shape[0], format="csr")
    for _ in range(num_steps):
        current = pruned_step(
            operator,
            current,
            teleport=teleport,
            threshold=delta * (1 - TIE_TOLERANCE),
            to_self=scheme == "recursion",
            rows_per_task=ROWS_PER_TASK,
        )
    return current


def _compute_pruned_float32(
    operator: sp.csr_array, num_steps: int, teleport: float, delta: float, scheme: Scheme
) -> sp.csr_array:
    operator = operator.astype(np.float32)
    identity = sp.eye_array(operator.shape[0], format="csr", dtype=np.float32)
    current = identity
    for _ in range(num_steps):
        teleported = np.float32(teleport) * (identity if scheme == "recursion" else current)
        current = ((operator @ current) * np.float32(1 - teleport) + teleported).tocsr()
        current.data[current.data < np.float32(delta)] = 0
        current.eliminate_zeros()
        current = (current + sp.diags_array(1 - current.sum(axis=1), format="csr")).tocsr()
    current.sort_indices()
    return current.astype(np.float64)
