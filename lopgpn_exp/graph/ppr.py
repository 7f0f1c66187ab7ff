"""The personalised PageRank matrix: mixture weights of LOP-GPN, computed once per graph.

Nothing in it is trained, so it never appears inside an epoch; it is kept on disk under a hash of what it depends on.
"""

import hashlib
import logging
import os
import zipfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch

from lopgpn_exp.errors import InputError
from lopgpn_exp.graph.dispersion import Scheme, check_dispersion
from lopgpn_exp.graph.graph import Graph
from lopgpn_exp.graph.matrix import DenseMatrix, Matrix, SparseMatrix
from lopgpn_exp.graph.operators import row_stochastic

log = logging.getLogger(__name__)

GIB = 2**30
# Real graphs have entries exactly at the threshold; float64 rounding (1e-16) must not decide about them.
TIE_TOLERANCE = 1e-9
# Products of so many entries at most are formed at once before pruning: 24 bytes each, under 0.4 GiB.
BLOCK_ENTRIES = 2**24
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
    what = f"ppr-1 {graph.structure_fingerprint} {num_steps} {teleport!r} {prune_threshold!r} {scheme}"
    key = hashlib.blake2b(what.encode(), digest_size=16).hexdigest()
    if key in _last:
        return _last[key]
    path = cache_dir / f"ppr-{key}.npz" if cache_dir is not None else None
    matrix = _load(path) if path is not None else None
    if matrix is None:
        bound = memory_bound_gib(graph.num_nodes, prune_threshold)
        log.info("Building the PPR matrix of %s nodes: at most %.2f GiB", f"{graph.num_nodes:,}", bound)
        matrix = _compute(row_stochastic(graph), num_steps, teleport, prune_threshold, scheme)
        if path is not None:
            _store(path, matrix)
    _last.clear()
    _last[key] = matrix
    return matrix


def check_ppr(*, num_steps: int, teleport: float, prune_threshold: float) -> None:
    check_dispersion(num_steps=num_steps, teleport=teleport)
    if not 0 <= prune_threshold < 1:
        raise InputError(
            f"prune_threshold is {prune_threshold}",
            expected="from 0 to below 1",
            hint="model.prune_threshold=0.01",
        )


def _compute(operator: sp.csr_array, num_steps: int, teleport: float, delta: float, scheme: Scheme) -> Matrix:
    if delta == 0:
        return DenseMatrix(torch.from_numpy(_dense(operator, num_steps, teleport, scheme)))
    return SparseMatrix(_pruned(operator, num_steps, teleport, delta, scheme))


def memory_bound_gib(num_nodes: int, prune_threshold: float) -> float:
    """Most memory that building the matrix can take, in GiB.

    Dense: the matrix and the product of a step, float64. Sparse: two generations of rows of 1/delta + 1 entries
    (8 bytes of value, 4 of index) and one block of products.
    """
    if prune_threshold == 0:
        return 2 * 8 * num_nodes**2 / GIB
    row_length = min(1 / prune_threshold + 1, num_nodes)
    return (2 * 12 * num_nodes * row_length + 24 * BLOCK_ENTRIES) / GIB


def _check_memory(num_nodes: int, prune_threshold: float, limit_gib: float) -> None:
    bound = memory_bound_gib(num_nodes, prune_threshold)
    if bound > limit_gib:
        larger = 0.01 if prune_threshold == 0 else prune_threshold * 5
        raise InputError(
            f"the PPR matrix of {num_nodes:,} nodes at prune_threshold={prune_threshold} can take {bound:.1f} GiB",
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
            product += teleport * current
        current = product
    return current


def _pruned(operator: sp.csr_array, num_steps: int, teleport: float, delta: float, scheme: Scheme) -> sp.csr_array:
    n = operator.shape[0]
    current = sp.eye_array(n, format="csr")
    for _ in range(num_steps):
        blocks = []
        for start, stop in _row_blocks(operator, current):
            product = (1 - teleport) * (operator[start:stop] @ current)
            base = (
                sp.eye_array(stop - start, n, k=start, format="csr") if scheme == "recursion" else current[start:stop]
            )
            blocks.append(_prune((product + teleport * base).tocsr(), start, delta))
        current = sp.vstack(blocks, format="csr")
    return current


def _row_blocks(operator: sp.csr_array, current: sp.csr_array) -> list[tuple[int, int]]:
    """Consecutive rows whose product has at most BLOCK_ENTRIES entries together (one row at least)."""
    entries = operator.astype(bool).astype(np.int64) @ np.diff(current.indptr).astype(np.int64)
    block = np.cumsum(entries) // BLOCK_ENTRIES
    starts = np.flatnonzero(np.diff(block, prepend=-1))
    return list(zip(starts.tolist(), [*starts[1:].tolist(), len(entries)], strict=True))


def _prune(block: sp.csr_array, start: int, delta: float) -> sp.csr_array:
    """Drop entries below delta and give their mass to the diagonal of their row."""
    total = np.asarray(block.sum(axis=1)).ravel()
    block.data[block.data < delta * (1 - TIE_TOLERANCE)] = 0
    block.eliminate_zeros()
    missing = total - np.asarray(block.sum(axis=1)).ravel()
    rows = np.arange(block.shape[0])
    diagonal = sp.csr_array((missing, (rows, rows + start)), shape=block.shape)
    result = (block + diagonal).tocsr()
    result.eliminate_zeros()
    result.sort_indices()
    return result


def _store(path: Path, matrix: Matrix) -> None:
    """Atomic: a killed process or a full disk leaves no half-written file under the final name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.npz")
    try:
        if isinstance(matrix, DenseMatrix):
            np.savez(temporary, dense=matrix.values.numpy())
        else:
            csr = matrix.scipy()
            np.savez(temporary, data=csr.data, indices=csr.indices, indptr=csr.indptr, shape=csr.shape)
        os.replace(temporary, path)
    except OSError as error:
        log.warning("the PPR matrix is used but not kept: %s cannot be written (%s)", path, error)
    finally:
        temporary.unlink(missing_ok=True)


def _load(path: Path) -> Matrix | None:
    if not path.is_file():
        return None
    try:
        # Our own handle: numpy leaves it open when the archive is damaged.
        with path.open("rb") as file, np.load(file) as archive:
            if "dense" in archive:
                return DenseMatrix(torch.from_numpy(archive["dense"]))
            parts = (archive["data"], archive["indices"], archive["indptr"])
            return SparseMatrix(sp.csr_array(parts, shape=tuple(archive["shape"])))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        log.warning("cached PPR matrix %s cannot be read (%s): computing it again", path, error)
        return None
