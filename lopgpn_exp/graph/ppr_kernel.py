"""One pruned step of the PPR recursion, row by row.

A general sparse product stores every entry before most are dropped. Here each row is summed in a hash table that fits
into the cache, pruned and then written, so a step needs only the memory of its result. Rows are independent and
distributed over threads. Sums follow the order of the edges: the same graph gives the same bits.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from lopgpn_exp.graph.compilation import compile_kernel, run_in_blocks
from lopgpn_exp.graph.prefetch import prefetch

# Edges between the one that is processed and the one whose row is loaded: long enough to hide the memory's latency.
LOOKAHEAD = 8
# Slots of the hash table per entry that is added: enough that two columns seldom share a slot.
SLOTS_PER_ENTRY = 4
HASH_FACTOR = np.uint32(2654435769)  # 2^32 / golden ratio: the high bits of its multiples are spread evenly
EMPTY = np.int32(-1)


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
    indptr = np.zeros(n + 1, dtype=np.int64)
    tasks: list[tuple[np.ndarray, np.ndarray]] = [(np.empty(0), np.empty(0))] * -(-n // rows_per_task)

    def compute(task: int, start: int, stop: int) -> None:
        indices = np.empty((stop - start) * max_length, dtype=np.int32)
        data = np.empty((stop - start) * max_length)
        count = _compute_rows(*matrices, teleport, threshold, to_self, start, stop, indptr[1:], indices, data)
        tasks[task] = (indices[:count].copy(), data[:count].copy())

    run_in_blocks(compute, n, size=rows_per_task)
    np.cumsum(indptr, out=indptr)
    if indptr[-1] < np.iinfo(np.int32).max:
        indptr = indptr.astype(np.int32)
    indices, data = np.empty(indptr[-1], dtype=np.int32), np.empty(indptr[-1])
    for start in reversed(range(0, n, rows_per_task)):  # each task's rows are freed once they are copied
        stop = min(start + rows_per_task, n)
        indices[indptr[start] : indptr[stop]], data[indptr[start] : indptr[stop]] = tasks.pop()
    return sp.csr_array((data, indices, indptr), shape=(n, n))


@compile_kernel
def _compute_rows(  # type: ignore[no-untyped-def]
    o_indptr, o_indices, o_data, c_indptr, c_indices, c_data, teleport, threshold, to_self, start, stop,
    lengths, indices, data,
):  # fmt: skip
    """Write rows `start` to `stop`, one after the other, to `indices` and `data`; return their number of entries.

    The operator has self loops and `current` has its diagonal, so every row has an entry in its own column.
    """
    num_added = _count_added(o_indptr, o_indices, c_indptr, start, stop)  # entries of `current`, for each row
    num_slots, _ = _table_size(num_added.max(), o_indptr.size - 1)
    columns, total = np.full(num_slots, EMPTY, dtype=np.int32), np.zeros(num_slots)  # the hash table
    touched = np.empty(num_slots + 1, dtype=np.int32)  # slots in use; the last is written to when all are
    last_edge = o_indptr[stop] - 1
    num_written = 0
    for row in range(start, stop):
        num_slots, shift = _table_size(num_added[row - start], o_indptr.size - 1)
        num_touched = 0
        for e in range(o_indptr[row], o_indptr[row + 1]):
            prefetch(c_indptr, np.intp(o_indices[min(e + 2 * LOOKAHEAD, last_edge)]))
            ahead = np.intp(c_indptr[o_indices[min(e + LOOKAHEAD, last_edge)]])
            for offset in (0, 16):  # a cache line holds 16 indices or 8 values; most rows have fewer than 24 entries
                prefetch(c_indices, ahead + offset)
                prefetch(c_data, ahead + offset)
            prefetch(c_data, ahead + 8)
            weight = (1 - teleport) * o_data[e]
            for f in range(c_indptr[o_indices[e]], c_indptr[o_indices[e] + 1]):
                slot, is_new = _find_slot(columns, c_indices[f], num_slots, shift)
                columns[slot] = c_indices[f]
                touched[num_touched] = slot
                num_touched += is_new  # not a branch, which the processor could not predict
                total[slot] += weight * c_data[f]
        diagonal, _ = _find_slot(columns, row, num_slots, shift)
        if to_self:
            total[diagonal] += teleport
        else:
            for f in range(c_indptr[row], c_indptr[row + 1]):
                slot, _ = _find_slot(columns, c_indices[f], num_slots, shift)
                total[slot] += teleport * c_data[f]
        pruned_mass = 0.0
        for t in range(num_touched):
            slot = touched[t]
            if total[slot] < threshold:
                pruned_mass += total[slot]
                total[slot] = 0
        total[diagonal] += pruned_mass
        first = num_written
        for t in range(num_touched):
            slot = touched[t]
            if total[slot] > 0:  # insert it in the order of columns
                position = num_written
                while position > first and indices[position - 1] > columns[slot]:
                    indices[position], data[position] = indices[position - 1], data[position - 1]
                    position -= 1
                indices[position], data[position] = columns[slot], total[slot]
                num_written += 1
            columns[slot], total[slot] = EMPTY, 0
        lengths[row] = num_written - first
    return num_written


@compile_kernel
def _count_added(o_indptr, o_indices, c_indptr, start, stop):  # type: ignore[no-untyped-def]
    """Return the number of entries of `current` that are added up in each row."""
    num_added = np.zeros(stop - start, dtype=np.int64)
    for row in range(start, stop):
        for e in range(o_indptr[row], o_indptr[row + 1]):
            num_added[row - start] += c_indptr[o_indices[e] + 1] - c_indptr[o_indices[e]]
    return num_added


@compile_kernel
def _table_size(num_added, num_columns):  # type: ignore[no-untyped-def]
    """Return the number of slots, a power of two, and the shift that maps 32-bit hashes to them.

    There are at least two slots for each column that can occur, so that a search always ends.
    """
    num_slots, shift = 2, 31
    while num_slots < min(SLOTS_PER_ENTRY * num_added, 2 * num_columns):
        num_slots, shift = 2 * num_slots, shift - 1
    return num_slots, np.uint32(shift)


@compile_kernel
def _find_slot(columns, column, num_slots, shift):  # type: ignore[no-untyped-def]
    """Return the slot of a column, or the empty slot for it, and whether it is empty."""
    slot = np.intp(np.uint32(np.uint32(column) * HASH_FACTOR) >> shift)
    while columns[slot] != column and columns[slot] != EMPTY:
        slot = (slot + 1) & (num_slots - 1)
    return slot, columns[slot] == EMPTY
