"""Feature matrices, dense or sparse: a `torch.sparse_csr` tensor if most values are zero.

Sparse features are in canonical form: sorted column indices, no duplicates and no stored zeros.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float
from torch import Tensor

# torch warns at the first CSR tensor.
warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")

# Below this fraction of non-zeros, features are stored as a sparse matrix, and a sparse first layer is faster.
SPARSE_BELOW = 0.25
BLOCK_BYTES = 2**24  # of dense rows that are in memory at the same time
# Up to this size as a dense matrix, sparse features have the fingerprint and, to the bit, the row sums of dense ones.
# This takes a pass over the dense rows, about a second per GiB.
MAX_DENSE_BYTES = 2**33


def is_sparse(features: Tensor) -> bool:
    """Return whether the features are a CSR tensor."""
    return features.layout is torch.sparse_csr


def compact(matrix: sp.csr_array) -> sp.csr_array | np.ndarray:
    """Return a matrix in canonical form if most values are zero, otherwise as a dense array."""
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix if matrix.nnz < SPARSE_BELOW * np.prod(matrix.shape, dtype=float) else matrix.toarray()


def from_scipy(matrix: sp.csr_array) -> Tensor:
    """Return a CSR tensor with 32-bit indices where possible; `matrix` is brought into canonical form."""
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    indices = np.int32 if max(matrix.nnz, *matrix.shape) < 2**31 else np.int64
    return torch.sparse_csr_tensor(
        torch.from_numpy(matrix.indptr.astype(indices, copy=False)),
        torch.from_numpy(matrix.indices.astype(indices, copy=False)),
        torch.from_numpy(matrix.data),
        size=matrix.shape,
        check_invariants=False,
    )


def to_scipy(features: Float[Tensor, "nodes features"]) -> sp.csr_array:
    """Return dense or sparse features as a scipy array, which shares the memory of a CSR tensor."""
    if not is_sparse(features):
        return sp.csr_array(features.numpy())
    parts = (features.values(), features.col_indices(), features.crow_indices())
    matrix = sp.csr_array(tuple(part.numpy() for part in parts), shape=tuple(features.shape))
    matrix.has_canonical_format = True
    return matrix


def to_canonical(tensor: Tensor) -> Tensor:
    """Return a sparse tensor (COO, CSR or CSC) as a CSR tensor in canonical form: duplicates are added.

    Raises:
        ValueError: if its indices are invalid, or it has another layout.
    """
    tensor = tensor.detach().to(torch.float64 if tensor.dtype == torch.float64 else torch.float32)
    shape = tuple(tensor.shape)
    if tensor.layout is torch.sparse_coo:
        rows, columns = tensor._indices().numpy()
        return from_scipy(sp.coo_array((tensor._values().numpy(), (rows, columns)), shape=shape).tocsr())
    if tensor.layout is torch.sparse_csr:
        parts, build = (tensor.values(), tensor.col_indices(), tensor.crow_indices()), sp.csr_array
    elif tensor.layout is torch.sparse_csc:
        parts, build = (tensor.values(), tensor.row_indices(), tensor.ccol_indices()), sp.csc_array
    else:
        raise ValueError(f"the layout is {tensor.layout}, not COO, CSR or CSC")
    matrix = build(tuple(part.numpy() for part in parts), shape=shape)
    matrix.check_format(full_check=True)
    return from_scipy(matrix.tocsr(copy=True))


def count_density(features: Tensor) -> float:
    """Return the share of values that are not zero."""
    count = features.values().numel() if is_sparse(features) else int(torch.count_nonzero(features))
    return count / features.numel()


def select_rows(features: Float[Tensor, "nodes features"], index: Tensor) -> Float[Tensor, "chosen features"]:
    """Return some rows, given by their indices or by a mask, in the layout of the features."""
    if not is_sparse(features):
        return features[index]
    return from_scipy(to_scipy(features)[index.numpy()])


def replace_rows(
    features: Float[Tensor, "nodes features"], mask: Tensor, rows: Float[Tensor, "chosen features"]
) -> Float[Tensor, "nodes features"]:
    """Return a copy in which the rows of a mask are replaced by dense rows."""
    if not is_sparse(features):
        changed = features.clone()
        changed[mask] = rows
        return changed
    is_replaced = mask.numpy()
    stacked = sp.vstack([to_scipy(features)[~is_replaced], sp.csr_array(rows.numpy())], format="csr")
    order = np.concatenate([np.flatnonzero(~is_replaced), np.flatnonzero(is_replaced)])
    return from_scipy(stacked[np.argsort(order)])


def sum_rows(features: Float[Tensor, "nodes features"]) -> Float[Tensor, "nodes 1"]:
    """Return the sum of each row: the same bits for dense and sparse features."""
    if not is_sparse(features):
        return features.sum(dim=1, keepdim=True)
    if _dense_bytes(features) > MAX_DENSE_BYTES:
        return torch.from_numpy(to_scipy(features).sum(axis=1, dtype=np.float64)[:, None]).to(features.dtype)
    return torch.cat([torch.from_numpy(rows).sum(dim=1, keepdim=True) for rows in dense_blocks(features)])


def dense_blocks(features: Float[Tensor, "nodes features"]) -> Iterator[Float[np.ndarray, "rows features"]]:
    """Yield consecutive rows of sparse features as dense matrices, which are overwritten by the next one."""
    matrix = to_scipy(features)
    num_rows = max(1, BLOCK_BYTES // max(1, matrix.shape[1] * matrix.dtype.itemsize))
    buffer = np.empty((min(num_rows, matrix.shape[0]), matrix.shape[1]), dtype=matrix.dtype)
    for start in range(0, matrix.shape[0], num_rows):
        rows = matrix[start : start + num_rows]
        yield rows.toarray(out=buffer[: rows.shape[0]])


def hash_features(features: Float[Tensor, "nodes features"]) -> str:
    """Return a hash of sparse features that equals `fingerprint` of the same features as a dense matrix."""
    digest = hashlib.blake2b(digest_size=16)
    matrix = to_scipy(features)
    if _dense_bytes(features) > MAX_DENSE_BYTES:
        digest.update(f"csr{matrix.dtype.str}{matrix.shape}".encode())
        for array in (matrix.indptr, matrix.indices, matrix.data):
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()
    digest.update(f"{matrix.dtype.str}{matrix.shape}".encode())
    for rows in dense_blocks(features):
        digest.update(rows.data)
    return digest.hexdigest()


def find_not_finite(features: Float[Tensor, "nodes features"]) -> tuple[int, int, float] | None:
    """Return row, column and value of the first value that is not finite, None if there is none."""
    values = features.values() if is_sparse(features) else features
    if bool(torch.isfinite(values.sum())):  # fast
        return None
    bad = torch.nonzero(~torch.isfinite(values))
    if len(bad) == 0:  # the features are finite, but so large that their sum overflows
        return None
    row, column = locate_entry(to_scipy(features), int(bad[0])) if is_sparse(features) else bad[0].tolist()
    return row, column, float(values[tuple(bad[0])])


def locate_entry(matrix: sp.csr_array, position: int) -> tuple[int, int]:
    """Return row and column of a stored entry."""
    row = np.searchsorted(matrix.indptr, position, side="right") - 1
    return int(row), int(matrix.indices[position])


def _dense_bytes(features: Tensor) -> int:
    return features.numel() * features.element_size()
