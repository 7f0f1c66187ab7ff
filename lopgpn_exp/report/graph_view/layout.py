"""Positions at which the nodes of a graph are drawn. They depend on its edges alone and are cached for all its runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse.csgraph import connected_components

from lopgpn_exp.graph import Graph
from lopgpn_exp.graph.cache import cache_key, load_or_compute
from lopgpn_exp.graph.operators import adjacency_matrix

Positions = Float[np.ndarray, "nodes 2"]
SEED = 0
MARGIN = 0.15  # around each component, where 1 is the side of the square that a single node gets


def compute_layout(graph: Graph, *, cache_dir: Path | None) -> Positions:
    """Return positions between 0 and 1, the same for the same edges.

    Each connected component gets its own spring layout and an area proportional to its nodes. In a single layout, small
    components would drift apart until nothing else can be seen.
    """
    key = cache_key(f"layout-1 {graph.structure_fingerprint}")
    return load_or_compute(cache_dir, f"layout-{key}", lambda: {"positions": _arrange_components(graph)})["positions"]


def _arrange_components(graph: Graph) -> Positions:
    _, component = connected_components(adjacency_matrix(graph), directed=False)
    sizes = np.bincount(component)
    order = np.argsort(-sizes, kind="stable")
    sides = np.sqrt(sizes[order].astype(float))
    positions = np.empty((graph.num_nodes, 2))
    source, target = graph.edge_index.numpy()
    for number, corner, side in zip(order, _pack_squares(sides), sides, strict=True):
        nodes = np.flatnonzero(component == number)
        is_inside = (component[source] == number) & (source < target)
        edges = np.searchsorted(nodes, np.stack([source[is_inside], target[is_inside]]))
        positions[nodes] = corner + MARGIN + (side - 2 * MARGIN) * _lay_out_component(edges, len(nodes))
    return positions / positions.max()


def _pack_squares(sides: Float[np.ndarray, " squares"]) -> Float[np.ndarray, "squares 2"]:
    """Return corners of squares that do not overlap. The squares come largest first.

    The first square takes the top left corner; the others fill rows to its right, then rows below it.
    """
    first = float(sides[0])
    width = max(first, 1.05 * float(np.sqrt(np.square(sides).sum())))
    corners = np.zeros((len(sides), 2))
    row_start, x, y, row_height = first, first, 0.0, 0.0
    for number, side in enumerate(sides[1:].tolist(), start=1):
        if x + side > width:
            x, y, row_height = row_start, y + row_height, 0.0
        if row_start > 0 and (row_start + side > width or y + side > first):
            row_start, x, y, row_height = 0.0, 0.0, first, 0.0
        corners[number] = x, y
        x, row_height = x + side, max(row_height, side)
    return corners


def _lay_out_component(edges: Int[np.ndarray, "2 edges"], num_nodes: int) -> Positions:
    """Return positions between 0 and 1 for one connected component.

    They are the mean of a spring layout and the ranks of its coordinates, because springs alone pull hubs and their
    neighbours into one spot.
    """
    import rustworkx  # deferred import: cached layouts do not need it. It takes a tenth of networkx's time

    if num_nodes == 1:
        return np.full((1, 2), 0.5)
    graph = rustworkx.PyGraph(multigraph=False)
    graph.add_nodes_from(range(num_nodes))
    graph.add_edges_from_no_data([(a, b) for a, b in edges.T.tolist()])
    springs = rustworkx.spring_layout(graph, seed=SEED)
    raw = np.array([springs[node] for node in range(num_nodes)])
    scaled = (raw - raw.min(axis=0)) / np.maximum(np.ptp(raw, axis=0), 1e-9)
    ranks = np.argsort(np.argsort(raw, axis=0, kind="stable"), axis=0) / (num_nodes - 1)
    return (scaled + ranks) / 2
