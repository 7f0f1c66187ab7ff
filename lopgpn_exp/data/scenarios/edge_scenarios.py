"""Scenarios that move the ends of edges. Labels, features and the split stay as they are."""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Bool, Int

from lopgpn_exp.errors import InputError, check_parameter
from lopgpn_exp.graph import Graph

MAX_DRAWS = 100  # of a new end, before an edge stays as it is

Nodes = Int[np.ndarray, " any"]


def random_edges(graph: Graph, *, budget: float, seed: int) -> Graph:
    """Give a share of the edges a new end. OOD are the nodes whose neighbourhood changed.

    Of each chosen edge, one end is kept and the other becomes a random node that was no neighbour before. The number of
    edges stays the same. An edge stays as it is if 100 draws find no such node, as in a nearly complete graph.

    Args:
        budget: share of the undirected edges, from 0 (the graph as it is) to 1.
    """
    edges = _list_edges(graph, budget)
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(graph.num_edges)[: round(budget * graph.num_edges)]
    return _move_edges(graph, edges, chosen, lambda kept, new: kept != new, rng)


def dice(graph: Graph, *, budget: float, seed: int) -> Graph:
    """Delete edges within classes and insert as many across classes. OOD are the nodes whose neighbourhood changed.

    Of the edges within each class, a share is moved as in `random_edges`, with a new end of another class. The labels
    of all nodes are used. Source: Waniek et al. (2018), "disconnect internally, connect externally".

    Args:
        budget: share of the undirected edges within each class, from 0 (the graph as it is) to 1.
    """
    edges = _list_edges(graph, budget)
    rng = np.random.default_rng(seed)
    labels = graph.labels.numpy()
    first, second = labels[edges]
    groups = [np.flatnonzero((first == label) & (second == label)) for label in range(labels.max() + 1)]
    chosen = np.concatenate([rng.permutation(group)[: round(budget * len(group))] for group in groups])

    def join_classes(kept: Nodes, new: Nodes) -> Bool[np.ndarray, " any"]:
        return (labels[kept] != labels[new]) & (labels[new] >= 0)

    return _move_edges(graph, edges, chosen, join_classes, rng)


def _list_edges(graph: Graph, budget: float) -> Int[np.ndarray, "2 edges"]:
    """Check the input and return each undirected edge once, the smaller node first."""
    check_parameter("budget", budget, 0 <= budget <= 1, expected="from 0 to 1, a share of the edges", suggestion=0.1)
    if graph.num_edges == 0:
        expected = "a graph with edges, since the scenario moves them"
        raise InputError("the graph has no edges", expected=expected, parameter="ood", suggestion="none")
    edges = graph.edge_index.numpy()
    return edges[:, edges[0] < edges[1]]


def _move_edges(
    graph: Graph,
    edges: Int[np.ndarray, "2 edges"],
    chosen: Nodes,
    is_allowed: Callable[[Nodes, Nodes], Bool[np.ndarray, " any"]],
    rng: np.random.Generator,
) -> Graph:
    """Replace the chosen edges by pairs of one of their ends and a new node. No new pair was an edge before."""
    moved = edges.copy()
    used = np.sort(_pair_keys(edges, graph.num_nodes))
    left = chosen
    for _ in range(MAX_DRAWS):
        kept = edges[rng.integers(2, size=len(left)), left]
        pairs = np.stack([kept, rng.integers(graph.num_nodes, size=len(left))])
        keys = _pair_keys(pairs, graph.num_nodes)
        is_first = np.isin(np.arange(len(keys)), np.unique(keys, return_index=True)[1])
        is_used = used[np.searchsorted(used, keys).clip(max=len(used) - 1)] == keys  # `np.isin` would sort them again
        is_new = is_allowed(*pairs) & is_first & ~is_used
        moved[:, left[is_new]] = pairs[:, is_new]
        used = np.sort(np.concatenate([used, keys[is_new]]), kind="stable")
        left = left[~is_new]
        if len(left) == 0:
            break
    is_moved = (moved != edges).any(axis=0)
    is_ood = torch.zeros(graph.num_nodes, dtype=torch.bool)
    is_ood[torch.from_numpy(np.concatenate([edges[:, is_moved], moved[:, is_moved]]).ravel())] = True
    return graph.replace(edge_index=torch.from_numpy(moved), is_ood=is_ood)


def _pair_keys(pairs: Int[np.ndarray, "2 pairs"], num_nodes: int) -> Nodes:
    """Return a number for each pair of nodes, whatever their order."""
    return np.minimum(*pairs) * num_nodes + np.maximum(*pairs)
