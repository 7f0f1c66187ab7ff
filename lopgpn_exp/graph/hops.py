"""Hop distances from many nodes at once, by bit-parallel breadth-first search.

Each source is one bit of a 64-bit word, and each node has a row of words, so that one step along an edge advances a
thousand searches. Only the number of sources at each distance from each node is stored, never which sources.

Not imported by `lopgpn_exp.graph`, because numba is slow to import.
"""

import numpy as np
import scipy.sparse as sp
from jaxtyping import Int

from lopgpn_exp.graph.compilation import compile_kernel

# 64-bit words per node: 1,024 sources per search. A node's row fills two cache lines; with fewer words, the edges are
# read more often.
NUM_WORDS = 16


def count_hops(
    adjacency: sp.csr_array, sources: Int[np.ndarray, " sources"], *, max_hops: int
) -> Int[np.ndarray, "hops nodes"]:
    """Count the `sources` that are exactly 0, 1, ..., `max_hops` hops away from each node.

    A source is at distance 0 from itself; unreachable sources are not counted. The values of `adjacency` and self loops
    do not matter. Memory is a few hundred bytes per node, regardless of the number of sources.
    """
    num_nodes = adjacency.shape[0]
    counts = np.zeros((max_hops + 1, num_nodes), dtype=np.int32)
    indptr, indices = adjacency.indptr.astype(np.int64), adjacency.indices.astype(np.int32)
    visited, frontier, next_frontier = (np.empty((num_nodes, NUM_WORDS), dtype=np.uint64) for _ in range(3))
    for start in range(0, len(sources), 64 * NUM_WORDS):
        block = np.asarray(sources[start : start + 64 * NUM_WORDS], dtype=np.int64)
        visited[:] = 0
        for bit, source in enumerate(block):
            visited[source, bit // 64] |= np.uint64(1) << np.uint64(bit % 64)
        frontier[:] = visited
        active = visited.any(axis=1)
        all_sources = np.bitwise_or.reduce(visited, axis=0)
        counts[0] += np.bincount(block, minlength=num_nodes).astype(np.int32)
        for hop in range(1, max_hops + 1):
            active = _advance(indptr, indices, frontier, active, visited, all_sources, next_frontier, counts[hop])
            if not active.any():
                break
            frontier, next_frontier = next_frontier, frontier
    return counts


@compile_kernel
def _advance(indptr, indices, frontier, active, visited, all_sources, next_frontier, counts):  # type: ignore[no-untyped-def]
    """Advance all searches of a block by one hop; return which nodes were reached.

    Rows of `frontier` are read only where `active`.
    """
    num_nodes, words = visited.shape
    reached = np.zeros(num_nodes, dtype=np.bool_)
    incoming = np.empty(words, dtype=np.uint64)
    for node in range(num_nodes):
        is_complete = True
        for w in range(words):
            if visited[node, w] != all_sources[w]:
                is_complete = False
                break
        if is_complete:
            continue
        incoming[:] = 0
        for edge in range(indptr[node], indptr[node + 1]):
            neighbor = indices[edge]
            if active[neighbor]:
                for w in range(words):
                    incoming[w] |= frontier[neighbor, w]
        num_new = 0
        for w in range(words):
            new = incoming[w] & ~visited[node, w]
            next_frontier[node, w] = new
            visited[node, w] |= new
            num_new += _popcount(new)
        if num_new:
            counts[node] += num_new
            reached[node] = True
    return reached


@compile_kernel
def _popcount(word):  # type: ignore[no-untyped-def]
    """Count the set bits of a 64-bit word by summing fields of increasing width."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))
