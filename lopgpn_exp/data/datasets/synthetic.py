"""A degree-corrected stochastic block model of any size, for scaling tests."""

import math

import numpy as np
import torch

from lopgpn_exp.errors import InputError, check_in_range, check_parameter
from lopgpn_exp.graph import Graph
from lopgpn_exp.graph.graph import sorted_unique

MAX_VALUES = 2**32  # of the feature matrix: 16 GiB


def block_model(
    *,
    num_nodes: int = 10_000,
    num_edges: int = 50_000,
    num_classes: int = 7,
    num_features: int = 64,
    homophily: float = 0.8,
    degree_exponent: float = 2.5,
    signal: float = 1.0,
    seed: int = 0,
) -> Graph:
    """Generate a graph with exactly `num_edges` undirected edges, balanced classes and Gaussian class features.

    Args:
        homophily: probability that an edge joins two nodes of the same class.
        degree_exponent: exponent of the power law of expected degrees (more than 2).
        signal: distance of the class means from the origin, relative to the expected norm of the noise.
    """
    _check_size(num_nodes, num_edges, num_classes)
    check_parameter("homophily", homophily, 0 <= homophily <= 1, expected="from 0 to 1", suggestion=0.8)
    is_valid, expected = 2 < degree_exponent < math.inf, "more than 2, so that degrees have a finite mean"
    check_parameter("degree_exponent", degree_exponent, is_valid, expected=expected, suggestion=2.5)
    reason = f"{num_nodes:,} nodes have {MAX_VALUES // num_nodes:,} features in 16 GiB"
    check_in_range("num_features", num_features, low=1, high=MAX_VALUES // num_nodes, reason=reason, suggestion=1)
    check_in_range("signal", signal, low=0, suggestion=1.0)
    check_in_range("seed", seed, low=0, suggestion=0)
    rng = np.random.default_rng([0xB10C, seed])
    labels = np.sort(rng.permutation(num_nodes) % num_classes)  # sorted: each class is a range of node indices
    starts = np.searchsorted(labels, np.arange(num_classes + 1))
    propensity = np.cumsum((1.0 - rng.random(num_nodes)) ** (-1.0 / (degree_exponent - 1.0)))
    class_bounds = np.concatenate([[0.0], propensity])[starts]
    keys = np.empty(0, dtype=np.int64)
    while len(keys) < num_edges:
        num_missing = num_edges - len(keys)
        drawn = _draw_edges(rng, num_missing + num_missing // 8 + 16, propensity, class_bounds, homophily)
        keys = sorted_unique(np.concatenate([keys, drawn]))
    if (surplus := len(keys) - num_edges) > 0:
        keys = np.delete(keys, rng.choice(len(keys), surplus, replace=False, shuffle=False))
    order = rng.permutation(num_nodes)  # so that node indices carry no information about classes
    edge_index = np.stack([order[keys // num_nodes], order[keys % num_nodes]])
    shuffled = np.empty_like(labels)
    shuffled[order] = labels
    means = rng.standard_normal((num_classes, num_features), dtype=np.float32)
    means *= signal / np.linalg.norm(means, axis=1, keepdims=True)
    features = rng.standard_normal((num_nodes, num_features), dtype=np.float32)
    features *= 1.0 / np.float32(np.sqrt(num_features))
    features += means[shuffled]
    return Graph.build(
        features=torch.from_numpy(features),
        edge_index=torch.from_numpy(edge_index),
        labels=torch.from_numpy(shuffled),
        num_classes=num_classes,
    )


def _draw_edges(
    rng: np.random.Generator, count: int, propensity: np.ndarray, class_bounds: np.ndarray, homophily: float
) -> np.ndarray:
    """Draw about `count` edges, both ends by propensity; return keys source * num_nodes + target, source < target.

    Args:
        propensity: cumulative sum over the nodes, which are sorted by class.
        class_bounds: values of `propensity` at which the classes begin and end.
    """
    num_nodes, num_classes = len(propensity), len(class_bounds) - 1
    # Sorted, so that the search reads the table in order instead of missing the cache with every draw.
    source = np.searchsorted(propensity, np.sort(rng.random(count)) * propensity[-1], side="right")
    source_class = np.searchsorted(class_bounds, propensity[source], side="left") - 1
    other_class = (source_class + rng.integers(1, max(num_classes, 2), count)) % num_classes
    target_class = np.where(rng.random(count) < homophily, source_class, other_class)
    low, high = class_bounds[target_class], class_bounds[target_class + 1]
    target = np.searchsorted(propensity, low + rng.random(count) * (high - low), side="right")
    target = np.minimum(target, num_nodes - 1)  # rounding can exceed the end of the last class
    keep = source != target
    first, second = np.minimum(source, target)[keep], np.maximum(source, target)[keep]
    return first * num_nodes + second


def _check_size(num_nodes: int, num_edges: int, num_classes: int) -> None:
    for name, value in (("num_nodes", num_nodes), ("num_edges", num_edges)):
        check_in_range(name, value, low=0, high=10**9, reason="the graph is held in memory", suggestion=10_000)
    if num_classes < 2 or num_nodes < 2 * num_classes:
        raise InputError(
            f"{num_nodes} nodes in {num_classes} classes",
            expected="at least 2 classes with at least 2 nodes each",
            parameter="num_classes" if num_classes < 2 else "num_nodes",
            suggestion=2 if num_classes < 2 else max(1000, 2 * num_classes),
        )
    limit = num_nodes * (num_nodes - 1) // 8  # a quarter of all pairs: beyond it, drawing without repetition stalls
    if not 0 <= num_edges <= limit:
        raise InputError(
            f"{num_edges} edges for {num_nodes} nodes",
            expected=f"from 0 to {limit}",
            parameter="num_edges",
            suggestion=limit if num_edges > limit else 0,
        )
