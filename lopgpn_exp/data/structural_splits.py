"""Splits by a structural property of the nodes, which also mark the nodes that are out-of-distribution.

Source: Bazhenov et al. (2023), "Evaluating Robustness and Uncertainty of Graph Models Under Structural Distributional
Shifts", and `NodePropertySplit` in PyG.
"""

import numpy as np
import torch
from jaxtyping import Float

from lopgpn_exp.data.splits import check_index
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Graph, Part
from lopgpn_exp.graph.centrality import clustering, pagerank

# Shares of all labelled nodes, in descending order of the property. The first three are drawn from the first half.
ID_PARTS = {Part.TRAIN: 0.3, Part.VAL: 0.1, Part.TEST: 0.1}
UNUSED = 0.1  # OOD nodes for validation in the source, where nothing here may use them


def popularity_split(graph: Graph, *, index: int, count: int = 10) -> Graph:
    """Train on the nodes with the largest PageRank; the others are OOD."""
    return _split_by(graph, pagerank(_check_edges(graph)), index, count)


def locality_split(graph: Graph, *, index: int, count: int = 10) -> Graph:
    """Train on the nodes nearest to the one with the largest PageRank, by personalised PageRank; the others are OOD."""
    start = int(pagerank(_check_edges(graph)).argmax())
    return _split_by(graph, pagerank(graph, start=start), index, count)


def density_split(graph: Graph, *, index: int, count: int = 10) -> Graph:
    """Train on the nodes with the largest clustering coefficients; the others are OOD."""
    return _split_by(graph, clustering(_check_edges(graph)), index, count)


def _check_edges(graph: Graph) -> Graph:
    if graph.num_edges == 0:
        expected = "edges, since the split orders the nodes by them"
        raise InputError("the graph has no edges", expected=expected, parameter="split", suggestion="random")
    return graph


def _split_by(graph: Graph, values: Float[np.ndarray, " nodes"], index: int, count: int) -> Graph:
    """Order the labelled nodes by descending values, ties at random, and cut them into parts.

    The split is seeded by `index` alone. Which half a node belongs to depends on it only where values are tied.
    """
    check_index(index, count)
    rng = np.random.default_rng([0x57A7E, index])
    labelled = rng.permutation(np.flatnonzero(graph.labels.numpy() >= 0))
    # In float32, as PyG has them: values that differ in the last bits of float64 are ties.
    order = labelled[np.argsort(-values[labelled].astype(np.float32), kind="stable")]
    sizes = [round(share * len(order)) for share in ID_PARTS.values()]
    num_id, num_unused = sum(sizes), round(UNUSED * len(order))
    if min(sizes) == 0 or num_id + num_unused >= len(order):
        raise InputError(f"the graph has {len(order)} labelled nodes", expected="at least 10, to cut into five parts")
    part = np.full(graph.num_nodes, Part.NONE, dtype=np.int8)
    drawn = rng.permutation(order[:num_id])
    for value, nodes in zip(ID_PARTS, np.split(drawn, np.cumsum(sizes)[:-1]), strict=True):
        part[nodes] = value
    part[order[num_id + num_unused :]] = Part.TEST
    is_ood = np.zeros(graph.num_nodes, dtype=bool)
    is_ood[order[num_id:]] = True
    return graph.replace(part=torch.from_numpy(part), is_ood=torch.from_numpy(is_ood))
