"""A degree-corrected stochastic block model of any size, for tests of scale."""

import math

import numpy as np
import torch

from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Graph
from lopgpn_exp.graph.graph import sorted_unique


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
    """A graph with exactly `num_edges` undirected edges, classes of near-equal size and Gaussian class features.

    Args:
        homophily: probability that an edge joins two nodes of one class.
        degree_exponent: tail exponent of the power law of expected degrees (more than 2).
        signal: distance of the class means from the origin, in units of the noise of the features as a whole.
    """
    _check(num_nodes, num_edges, num_classes, homophily, degree_exponent)
    for name, value, least in (("num_features", num_features, 1), ("seed", seed, 0)):
        if value < least:
            raise InputError(f"{name} is {value}", expected=f"{least} or more", hint=f"dataset.{name}={least}")
    rng = np.random.default_rng([0xB10C, seed])
    labels = np.sort(rng.permutation(num_nodes) % num_classes)  # sorted: a class is a range of node numbers
    starts = np.searchsorted(labels, np.arange(num_classes + 1))
    propensity = np.cumsum((1.0 - rng.random(num_nodes)) ** (-1.0 / (degree_exponent - 1.0)))
    mass = np.concatenate([[0.0], propensity])[starts]
    keys = np.empty(0, dtype=np.int64)
    while len(keys) < num_edges:
        wanted = num_edges - len(keys)
        fresh = _edges(rng, wanted + wanted // 8 + 16, propensity, mass, homophily)
        keys = sorted_unique(np.concatenate([keys, fresh]))
    if (surplus := len(keys) - num_edges) > 0:
        keys = np.delete(keys, rng.choice(len(keys), surplus, replace=False, shuffle=False))
    order = rng.permutation(num_nodes)  # node numbers say nothing about classes
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


def _edges(
    rng: np.random.Generator, count: int, propensity: np.ndarray, mass: np.ndarray, homophily: float
) -> np.ndarray:
    """Keys source * n + target, source < target, of about `count` edges; both ends drawn by propensity."""
    n, num_classes = len(propensity), len(mass) - 1
    # Sorted, so that the search walks the table once instead of missing the cache at every draw.
    source = np.searchsorted(propensity, np.sort(rng.random(count)) * propensity[-1], side="right")
    own = np.searchsorted(mass, propensity[source], side="left") - 1
    other = (own + rng.integers(1, max(num_classes, 2), count)) % num_classes
    target_class = np.where(rng.random(count) < homophily, own, other)
    low, high = mass[target_class], mass[target_class + 1]
    target = np.searchsorted(propensity, low + rng.random(count) * (high - low), side="right")
    target = np.minimum(target, n - 1)  # rounding at the very end of the last class
    keep = source != target
    first, second = np.minimum(source, target)[keep], np.maximum(source, target)[keep]
    return first * n + second


def _check(num_nodes: int, num_edges: int, num_classes: int, homophily: float, degree_exponent: float) -> None:
    if num_classes < 2 or num_nodes < 2 * num_classes:
        raise InputError(
            f"{num_nodes} nodes in {num_classes} classes",
            expected="at least 2 classes of at least 2 nodes",
            hint="dataset.num_nodes=1000 dataset.num_classes=7",
        )
    most = num_nodes * (num_nodes - 1) // 8  # a quarter of all pairs: beyond it, drawing without repetition stalls
    if not 0 <= num_edges <= most:
        raise InputError(f"{num_edges} edges among {num_nodes} nodes", expected=f"from 0 to {most}")
    if not 0 <= homophily <= 1:
        raise InputError(f"homophily is {homophily}", expected="from 0 to 1", hint="dataset.homophily=0.8")
    if not 2 < degree_exponent < math.inf:
        raise InputError(
            f"degree_exponent is {degree_exponent}",
            expected="more than 2, so that degrees have a mean",
            hint="dataset.degree_exponent=2.5",
        )
