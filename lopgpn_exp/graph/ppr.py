"""The personalised PageRank matrix: mixture weights of LOP-GPN, computed once per graph.

Nothing in it is trained, so it never appears inside an epoch; it is kept on disk under a hash of what it depends on.
"""

import logging
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch

from lopgpn_exp.errors import InputError
from lopgpn_exp.graph.cache import Arrays, cache_key, stored_arrays
from lopgpn_exp.graph.dispersion import Scheme, check_dispersion
from lopgpn_exp.graph.graph import Graph
from lopgpn_exp.graph.matrix import DenseMatrix, Matrix, SparseMatrix
from lopgpn_exp.graph.operators import row_stochastic

log = logging.getLogger(__name__)

GIB = 2**30
# Real graphs have entries exactly at the threshold; float64 rounding (1e-16) must not decide about them.
TIE_TOLERANCE = 1e-9
ROWS_OF_A_TASK = 4096
# The matrix used last, by key: training, validation and each scenario of a run ask for the same one.
_last: dict[str, Matrix] = {}


def ppr_matrix(
    graph: Graph,
    *,
    num_steps: int = 10,
    teleport: float = 0.1,
    prune_threshold: float = 0.01,
    scheme: Scheme = "recursion",
    memory_limit_gib: float = 8.0,
    cache_dir: Path | None = None,
) -> Matrix:
    r"""Row-stochastic PPR matrix :math:`\Pi` of a graph. Paper: Eq. (10) and Sec. 4.2.

    The dispersion is applied to the identity. With `prune_threshold` delta > 0, after each of the L steps the entries
    below delta are dropped and each row's missing mass is added to its diagonal, so that a row has at most
    1/delta + 1 entries.

    - float64 throughout, fixed order of summation: the same graph gives the same bits.
    - Tie rule: an entry is kept if it is at least delta (1 - 1e-9).
    - delta = 0 gives the exact, dense matrix, meant for small graphs.

    Deviation: the paper's Pi is the power of Eq. (10); see `Dispersion` for why the recursion is the default.

    Raises:
        InputError: before anything is allocated, if the matrix could need more than `memory_limit_gib`.
    """
    check_ppr(num_steps=num_steps, teleport=teleport, prune_threshold=prune_threshold)
    _check_memory(graph.num_nodes, prune_threshold, memory_limit_gib)
    key = cache_key(f"ppr-3 {graph.structure_fingerprint} {num_steps} {teleport!r} {prune_threshold!r} {scheme}")
    if key not in _last:

        def compute() -> Arrays:
            bound = memory_bound_gib(graph.num_nodes, prune_threshold)
            log.info("Building the PPR matrix of %s nodes: at most %.2f GiB", f"{graph.num_nodes:,}", bound)
            return _compute(row_stochastic(graph), num_steps, teleport, prune_threshold, scheme)

        arrays = stored_arrays(cache_dir, f"ppr-{key}", compute)
        _last.clear()
        _last[key] = _matrix(arrays, graph.num_nodes)
    return _last[key]


def check_ppr(*, num_steps: int, teleport: float, prune_threshold: float) -> None:
    check_dispersion(num_steps=num_steps, teleport=teleport)
    if not 0 <= prune_threshold < 1:
        raise InputError(
            f"prune_threshold is {prune_threshold}",
            expected="from 0 to below 1",
            hint="model.prune_threshold=0.01",
        )


def _compute(operator: sp.csr_array, num_steps: int, teleport: float, delta: float, scheme: Scheme) -> Arrays:
    if delta == 0:
        return {"dense": _dense(operator, num_steps, teleport, scheme)}
    matrix = _pruned(operator, num_steps, teleport, delta, scheme)
    return {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}


def _matrix(arrays: Arrays, num_nodes: int) -> Matrix:
    if "dense" in arrays:
        return DenseMatrix(torch.from_numpy(arrays["dense"]))
    parts = (arrays["data"], arrays["indices"], arrays["indptr"])
    return SparseMatrix(sp.csr_array(parts, shape=(num_nodes, num_nodes)))


def memory_bound_gib(num_nodes: int, prune_threshold: float) -> float:
    """Most memory that building the matrix can take, in GiB.

    Dense: the matrix, the product of a step and a term, float64. Sparse: two generations of rows of 1/delta + 1
    entries (8 bytes of value, 4 of index), the second once in blocks and once joined, and for each
    thread a dense row and the rows of a task.
    """
    if prune_threshold == 0:
        return 3 * 8 * num_nodes**2 / GIB
    row_length = min(1 / prune_threshold + 1, num_nodes)
    of_thread = 16 * num_nodes + 12 * min(ROWS_OF_A_TASK, num_nodes) * row_length
    return (3 * 12 * num_nodes * row_length + of_thread * torch.get_num_threads()) / GIB


def _check_memory(num_nodes: int, prune_threshold: float, limit_gib: float) -> None:
    bound = memory_bound_gib(num_nodes, prune_threshold)
    if bound > limit_gib:
        larger = 0.01 if prune_threshold == 0 else prune_threshold * 5
        raise InputError(
            f"the PPR matrix of {num_nodes:,} nodes at prune_threshold={prune_threshold} can take {bound:.2g} GiB",
            expected=f"at most {limit_gib:g} GiB (model.memory_limit_gib)",
            hint=f"model.prune_threshold={larger:g} or model.memory_limit_gib={np.ceil(bound):g}",
        )


def _dense(operator: sp.csr_array, num_steps: int, teleport: float, scheme: Scheme) -> np.ndarray:
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


def _pruned(operator: sp.csr_array, num_steps: int, teleport: float, delta: float, scheme: Scheme) -> sp.csr_array:
    from lopgpn_exp.graph.ppr_kernel import pruned_step  # brings numba

    current = sp.eye_array(operator.shape[0], format="csr")
    for _ in range(num_steps):
        current = pruned_step(
            operator,
            current,
            teleport=teleport,
            threshold=delta * (1 - TIE_TOLERANCE),
            to_self=scheme == "recursion",
            task=ROWS_OF_A_TASK,
        )
    return current
