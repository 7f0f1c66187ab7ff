"""One pruned step of the PPR recursion, row by row.

A general sparse product stores every entry before most are dropped. Here each row is summed in a dense array, pruned
and then written, so a step needs only the memory of its result. Rows are independent and distributed over threads. Sums
follow the order of the edges: the same graph gives the same bits.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from lopgpn_exp.graph.compilation import compile_kernel, run_in_blocks


def pruned_step(
    operator: sp.csr_array,
    current: sp.csr_array,
    *,
    teleport: float,
    threshold: float,
    to_self: bool,
    rows_per_task: int,
) -> sp.csr_array:
    """Return (1 - teleport) operator @ current + teleport base, with entries below `threshold` moved to the diagonal.

    The base is the identity if `to_self`, else `current`. Rows sum to 1 before and after, so a row keeps its diagonal
    and at most 1 / threshold other entries. A thread computes `rows_per_task` rows at a time.
    """
    n = operator.shape[0]
    max_length = min(int(1 / threshold) + 2, n)
    matrices = [part for matrix in (operator, current) for part in (matrix.indptr, matrix.indices, matrix.data)]
    lengths = np.empty(n, dtype=np.int64)
    rows: list[tuple[np.ndarray, np.ndarray]] = [(np.empty(0), np.empty(0))] * -(-n // rows_per_task)

    def compute(task: int, start: int, stop: int) -> None:
        indices = np.empty((stop - start) * max_length, dtype=np.int32)
        data = np.empty((stop - start) * max_length)
        count = _compute_rows(*matrices, teleport, threshold, to_self, start, stop, lengths, indices, data)
        rows[task] = (indices[:count].copy(), data[:count].copy())

    run_in_blocks(compute, n, size=rows_per_task)
    indices, data = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    if indptr[-1] < np.iinfo(np.int32).max:
        indptr = indptr.astype(np.int32)
    return sp.csr_array((data, indices, indptr), shape=(n, n))


@compile_kernel
def _compute_rows(  # type: ignore[no-untyped-def]
    o_indptr, o_indices, o_data, c_indptr, c_indices, c_data, teleport, threshold, to_self, start, stop,
    lengths, indices, data,
):  # fmt: skip
    """Write rows `start` to `stop`, one after the other, to `indices` and `data`; return their number of entries.

    The operator has self loops and `current` has its diagonal, so every row has an entry in its own column.
    """
    total = np.empty(o_indptr.size - 1)
    last_row = np.full(total.size, -1, dtype=np.int32)  # the last row that had an entry in this column
    touched = np.empty(total.size, dtype=np.int32)
    num_written = 0
    for row in range(start, stop):
        num_touched = 0
        for e in range(o_indptr[row], o_indptr[row + 1]):
            weight = (1 - teleport) * o_data[e]
            for f in range(c_indptr[o_indices[e]], c_indptr[o_indices[e] + 1]):
                column = c_indices[f]
                if last_row[column] != row:
                    last_row[column] = row
                    total[column] = 0
                    touched[num_touched] = column
                    num_touched += 1
                total[column] += weight * c_data[f]
        if to_self:
            total[row] += teleport
        else:
            for f in range(c_indptr[row], c_indptr[row + 1]):
                total[c_indices[f]] += teleport * c_data[f]
        pruned_mass = 0.0
        for t in range(num_touched):
            if total[touched[t]] < threshold:
                pruned_mass += total[touched[t]]
                total[touched[t]] = 0
        total[row] += pruned_mass
        first = num_written
        for t in range(num_touched):
            if total[touched[t]] > 0:
                indices[num_written] = touched[t]
                num_written += 1
        indices[first:num_written].sort()
        for t in range(first, num_written):
            data[t] = total[indices[t]]
        lengths[row] = num_written - first
    return num_written
