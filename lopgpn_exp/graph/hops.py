"""Hop distances from many nodes at once: a breadth-first search over bits.

One source is one bit of a word, so that a step along an edge moves 64 searches, and a row of words a thousand. What is
kept is how many sources lie at each distance from each node, never which ones: no nodes-by-sources matrix.

Imported by name where it is used, and not by `lopgpn_exp.graph`: numba's import takes longer than many a run's start.
"""

import numpy as np
import scipy.sparse as sp
from jaxtyping import Int

from lopgpn_exp.graph.compiled import compiled

# Sources of one search: 16 words of 64. A node's row is then two cache lines; fewer reread the edges more often.
WORDS = 16


def hop_counts(
    adjacency: sp.csr_array, sources: Int[np.ndarray, " sources"], *, max_hops: int
) -> Int[np.ndarray, "hops nodes"]:
    """How many of the `sources` lie exactly 0, 1, ..., `max_hops` hops away from each node.

    A source is at distance 0 from itself. Unreachable is at no distance. Values of `adjacency` and self loops do not
    matter. Exact integers; memory is a few hundred bytes a node, whatever the number of sources.
    """
    num_nodes = adjacency.shape[0]
    counts = np.zeros((max_hops + 1, num_nodes), dtype=np.int32)
    indptr, indices = adjacency.indptr.astype(np.int64), adjacency.indices.astype(np.int32)
    visited, frontier, following = (np.empty((num_nodes, WORDS), dtype=np.uint64) for _ in range(3))
    for start in range(0, len(sources), 64 * WORDS):
        block = np.asarray(sources[start : start + 64 * WORDS], dtype=np.int64)
        visited[:] = 0
        for bit, source in enumerate(block):
            visited[source, bit // 64] |= np.uint64(1) << np.uint64(bit % 64)
        frontier[:] = visited
        active = visited.any(axis=1)
        everything = np.bitwise_or.reduce(visited, axis=0)
        counts[0] += np.bincount(block, minlength=num_nodes).astype(np.int32)
        for hop in range(1, max_hops + 1):
            active = _advance(indptr, indices, frontier, active, visited, everything, following, counts[hop])
            if not active.any():
                break
            frontier, following = following, frontier
    return counts


@compiled
def _advance(indptr, indices, frontier, active, visited, everything, following, counts):  # type: ignore[no-untyped-def]
    """One hop of all searches of a block. Rows of `frontier` are only read where `active`; returns the next flags."""
    num_nodes, words = visited.shape
    reached = np.zeros(num_nodes, dtype=np.bool_)
    incoming = np.empty(words, dtype=np.uint64)
    for node in range(num_nodes):
        complete = True
        for w in range(words):
            if visited[node, w] != everything[w]:
                complete = False
                break
        if complete:
            continue
        incoming[:] = 0
        for edge in range(indptr[node], indptr[node + 1]):
            neighbor = indices[edge]
            if active[neighbor]:
                for w in range(words):
                    incoming[w] |= frontier[neighbor, w]
        found = 0
        for w in range(words):
            new = incoming[w] & ~visited[node, w]
            following[node, w] = new
            visited[node, w] |= new
            found += _popcount(new)
        if found:
            counts[node] += found
            reached[node] = True
    return reached


@compiled
def _popcount(word):  # type: ignore[no-untyped-def]
    """Set bits of a 64-bit word, by sums of ever wider fields."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))
