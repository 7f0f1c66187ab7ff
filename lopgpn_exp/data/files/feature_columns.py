"""Collect the feature columns of a table block by block, as a sparse matrix if most values are zero."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from jaxtyping import Int

from lopgpn_exp.data.files.memory import estimate_feature_bytes, estimate_sparse_bytes
from lopgpn_exp.data.files.table_file import is_number
from lopgpn_exp.data.scaling import RawMatrix
from lopgpn_exp.graph.features import SPARSE_BELOW


class FeatureColumns:
    """The rows read so far of some columns. Each block of rows is dense or sparse, so that few zeros are stored."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._blocks: list[RawMatrix] = []
        self._num_nonzero = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Append the next rows; raise a `NotNumbersError` at the first column that does not only contain numbers."""
        columns = [_to_numbers(batch.column(name), name) for name in self._names]
        counts = np.array([np.count_nonzero(column) for column in columns])
        self._num_nonzero += int(counts.sum())
        is_sparse = counts.sum() < SPARSE_BELOW * batch.num_rows * len(columns)
        self._blocks.append(_stack_sparse(columns, counts) if is_sparse else _stack_dense(columns))

    @property
    def required_bytes(self) -> int:
        """An upper estimate of the memory that the rows read so far need until they are features of a graph."""
        dense = sum(block.size for block in self._blocks if isinstance(block, np.ndarray))
        sparse = sum(block.nnz for block in self._blocks if not isinstance(block, np.ndarray))
        return estimate_feature_bytes(dense, 1) + estimate_sparse_bytes(0, sparse)

    def take_matrix(self) -> RawMatrix:
        """Return all rows, and release the blocks."""
        num_rows, num_columns = sum(block.shape[0] for block in self._blocks), len(self._names)
        if self._num_nonzero < SPARSE_BELOW * num_rows * num_columns:
            blocks, self._blocks = self._blocks, []
            return sp.vstack([sp.csr_array(block) for block in blocks], format="csr")
        matrix, start = np.empty((num_rows, num_columns)), 0
        while self._blocks:
            block = self._blocks.pop(0)
            matrix[start : start + block.shape[0]] = block if isinstance(block, np.ndarray) else block.toarray()
            start += block.shape[0]
        return matrix


class NotNumbersError(Exception):
    """The column of this name contains blanks, or is not numeric."""


def _to_numbers(column: pa.Array, name: str) -> np.ndarray:
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    if column.null_count or not is_number(column.type):
        raise NotNumbersError(name)
    return column.to_numpy(zero_copy_only=False)


def _stack_dense(columns: Sequence[np.ndarray]) -> np.ndarray:
    matrix = np.empty((len(columns[0]), len(columns)))
    for index, column in enumerate(columns):
        matrix[:, index] = column
    return matrix


def _stack_sparse(columns: Sequence[np.ndarray], counts: Int[np.ndarray, " columns"]) -> sp.csr_array:
    ends = np.concatenate([[0], np.cumsum(counts)])
    rows, values = np.empty(ends[-1], dtype=np.int32), np.empty(ends[-1])
    for index in np.flatnonzero(counts).tolist():
        entries = slice(ends[index], ends[index + 1])
        rows[entries] = np.flatnonzero(columns[index])
        values[entries] = columns[index][rows[entries]]
    return sp.csc_array((values, rows, ends.astype(np.int32)), shape=(len(columns[0]), len(columns))).tocsr()
