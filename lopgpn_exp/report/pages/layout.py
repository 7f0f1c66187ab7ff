"""Where the nodes of a graph are drawn: a function of its edges alone, computed once for all runs on it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse.csgraph import connected_components

from lopgpn_exp.graph import Graph
from lopgpn_exp.graph.cache import cache_key, stored_arrays
from lopgpn_exp.graph.operators import adjacency_matrix

Positions = Float[np.ndarray, "nodes 2"]
SEED = 0


def layout(graph: Graph, *, cache_dir: Path | None) -> Positions:
    """Positions between 0 and 1, the same for the same edges.

    Each connected component is laid out by springs on its own and gets the area of its nodes: together, small
    components would drift away from each other until nothing else is left to see.
    """
    key = cache_key(f"layout-1 {graph.structure_fingerprint}")
    return stored_arrays(cache_dir, f"layout-{key}", lambda: {"positions": _compute(graph)})["positions"]


def _compute(graph: Graph) -> Positions:
    _, component = connected_components(adjacency_matrix(graph), directed=False)
    sizes = np.bincount(component)
    order = np.argsort(-sizes, kind="stable")
    sides = np.sqrt(sizes[order].astype(float))
    positions = np.empty((graph.num_nodes, 2))
    source, target = graph.edge_index.numpy()
    for number, corner, side in zip(order, _packed(sides), sides, strict=True):
        nodes = np.flatnonzero(component == number)
        inside = (component[source] == number) & (source < target)
        edges = np.searchsorted(nodes, np.stack([source[inside], target[inside]]))
        gap = 0.15  # of the space of one node, at both ends
        positions[nodes] = corner + gap + (side - 2 * gap) * _springs(edges, len(nodes))
    return positions / positions.max()


def _packed(sides: Float[np.ndarray, " squares"]) -> Float[np.ndarray, "squares 2"]:
    """Corners of squares that come largest first: the others in rows beside the first one, then in rows below it."""
    first = float(sides[0])
    width = max(first, 1.05 * float(np.sqrt(np.square(sides).sum())))
    corners = np.zeros((len(sides), 2))
    left, x, y, row = first, first, 0.0, 0.0
    for number, side in enumerate(sides[1:].tolist(), start=1):
        if x + side > width:
            x, y, row = left, y + row, 0.0
        if left > 0 and (left + side > width or y + side > first):
            left, x, y, row = 0.0, 0.0, first, 0.0
        corners[number] = x, y
        x, row = x + side, max(row, side)
    return corners


def _springs(edges: Int[np.ndarray, "2 edges"], num_nodes: int) -> Positions:
    """Positions between 0 and 1 of one component.

    Halfway to the ranks of the coordinates: springs pull hubs and all around them into one spot.
    """
    import rustworkx  # a tenth of the time of networkx

    if num_nodes == 1:
        return np.full((1, 2), 0.5)
    graph = rustworkx.PyGraph(multigraph=False)
    graph.add_nodes_from(range(num_nodes))
    graph.add_edges_from_no_data([(a, b) for a, b in edges.T.tolist()])
    found = rustworkx.spring_layout(graph, seed=SEED)
    raw = np.array([found[node] for node in range(num_nodes)])
    scaled = (raw - raw.min(axis=0)) / np.maximum(np.ptp(raw, axis=0), 1e-9)
    ranks = np.argsort(np.argsort(raw, axis=0, kind="stable"), axis=0) / (num_nodes - 1)
    return (scaled + ranks) / 2
