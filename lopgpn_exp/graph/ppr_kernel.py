"""One pruned step of the PPR recursion, row by row.

A general sparse product forms every entry before most are thrown away. Here a row is summed up in one dense array,
pruned and written, so that a step takes the memory of its result; rows do not depend on each other, so threads share
them. Sums run in the order of the edges: the same graph gives the same bits.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from lopgpn_exp.graph.compiled import compiled, in_blocks


def pruned_step(
    operator: sp.csr_array, current: sp.csr_array, *, teleport: float, threshold: float, to_self: bool, task: int
) -> sp.csr_array:
    """(1 - teleport) operator @ current + teleport base, entries below `threshold` moved to the diagonal.

    The base is the identity if `to_self`, else `current`. Rows sum to 1 before and after, so that a row keeps
    1 / threshold entries at most, and its diagonal. A thread takes `task` rows at a time.
    """
    n = operator.shape[0]
    longest = min(int(1 / threshold) + 2, n)
    matrices = [part for matrix in (operator, current) for part in (matrix.indptr, matrix.indices, matrix.data)]
    lengths = np.empty(n, dtype=np.int64)
    rows: list[tuple[np.ndarray, np.ndarray]] = [(np.empty(0), np.empty(0))] * -(-n // task)

    def compute(number: int, start: int, stop: int) -> None:
        indices = np.empty((stop - start) * longest, dtype=np.int32)
        data = np.empty((stop - start) * longest)
        count = _rows(*matrices, teleport, threshold, to_self, start, stop, lengths, indices, data)
        rows[number] = (indices[:count].copy(), data[:count].copy())

    in_blocks(compute, n, size=task)
    indices, data = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    if indptr[-1] < np.iinfo(np.int32).max:
        indptr = indptr.astype(np.int32)
    return sp.csr_array((data, indices, indptr), shape=(n, n))


@compiled
def _rows(  # type: ignore[no-untyped-def]
    o_indptr, o_indices, o_data, c_indptr, c_indices, c_data, teleport, threshold, to_self, start, stop,
    lengths, indices, data,
):  # fmt: skip
    """Rows `start` to `stop`, one after the other, into `indices` and `data`; returns how many entries they have.

    The operator has self loops and `current` its diagonal, so that a row always meets its own column.
    """
    total = np.empty(o_indptr.size - 1)
    seen_by = np.full(total.size, -1, dtype=np.int32)  # the last row that had an entry in this column
    touched = np.empty(total.size, dtype=np.int32)
    written = 0
    for row in range(start, stop):
        found = 0
        for e in range(o_indptr[row], o_indptr[row + 1]):
            weight = (1 - teleport) * o_data[e]
            for f in range(c_indptr[o_indices[e]], c_indptr[o_indices[e] + 1]):
                column = c_indices[f]
                if seen_by[column] != row:
                    seen_by[column] = row
                    total[column] = 0
                    touched[found] = column
                    found += 1
                total[column] += weight * c_data[f]
        if to_self:
            total[row] += teleport
        else:
            for f in range(c_indptr[row], c_indptr[row + 1]):
                total[c_indices[f]] += teleport * c_data[f]
        moved = 0.0
        for t in range(found):
            if total[touched[t]] < threshold:
                moved += total[touched[t]]
                total[touched[t]] = 0
        total[row] += moved
        first = written
        for t in range(found):
            if total[touched[t]] > 0:
                indices[written] = touched[t]
                written += 1
        indices[first:written].sort()
        for t in range(first, written):
            data[t] = total[indices[t]]
        lengths[row] = written - first
    return written
