"""Explain the uncertainty of a node: which nodes' opinions it was pooled from, and what they contribute."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from scipy.sparse.csgraph import dijkstra
from torch import Tensor

from lopgpn_exp.graph import Graph, Part, adjacency_matrix
from lopgpn_exp.posterior import Dirichlet, DirichletMixture, Posterior

MAX_NEIGHBOURS = 12
NO_CLASS = -1  # the prediction of a node for which all classes are equally likely
UNIFORM_BELOW = 1.05  # times 1/K: if the largest probability is below this, all classes count as equally likely


@dataclass(frozen=True)
class Explanation:
    """The explanation of the uncertainty of one node.

    Args:
        neighbours: the nodes with the largest shares of the pool, possibly including the node itself: `node, share,
            hops, part, label, predicted, confidence` and the measures of each node's own opinion.
        other_share: share of all other nodes together.
        pooled, alone: mean class probabilities with and without the graph.
        measures: one row per measure: `measure, pooled, alone`.
        disagreement, ignorance: the two parts of EU if beliefs were pooled: how much the opinions contradict each
            other, and how uncertain each of them is.
        votes: share of the pool by predicted class; the last entry is that of `NO_CLASS`.
    """

    node: int
    neighbours: pd.DataFrame
    other_share: float
    pooled: Float[np.ndarray, " classes"]
    alone: Float[np.ndarray, " classes"]
    measures: pd.DataFrame
    disagreement: float | None
    ignorance: float | None
    votes: Float[np.ndarray, " classes_and_none"]


def explain(
    graph: Graph,
    node: int,
    *,
    posterior: Posterior,
    weights: Float[Tensor, " nodes"],
    alone: Posterior,
    pooled: str,
    max_neighbours: int = MAX_NEIGHBOURS,
) -> Explanation:
    """Return the explanation of one node.

    Args:
        posterior: the posterior of all nodes.
        weights, alone, pooled: the opinions that the node's posterior is pooled from (see `Model.opinions`).
    """
    share = compute_shares(weights, alone, pooled)
    largest = np.argsort(-share, kind="stable")[:max_neighbours]
    largest = largest[share[largest] > 0]
    index = torch.tensor([node])
    node_posterior, node_alone = posterior[index], alone[index]
    mean_alone = alone.mean.double()
    num_classes = mean_alone.shape[1]
    _, predicted = predict_classes(mean_alone)
    votes = predicted.masked_fill(predicted == NO_CLASS, num_classes).numpy()
    eu_parts = split_eu(node_posterior) if isinstance(node_posterior, DirichletMixture) else (None, None)
    names = [name for name in node_posterior.measures if name in node_alone.measures]
    return Explanation(
        node=node,
        neighbours=_tabulate_neighbours(graph, node, largest, share, alone),
        other_share=max(0.0, 1.0 - float(share[largest].sum())),
        pooled=node_posterior.mean.double()[0].numpy(),
        alone=mean_alone[node].numpy(),
        measures=pd.DataFrame(
            {
                "measure": names,
                "pooled": [float(node_posterior.measure(name)[0]) for name in names],
                "alone": [float(node_alone.measure(name)[0]) for name in names],
            }
        ),
        disagreement=eu_parts[0],
        ignorance=eu_parts[1],
        votes=np.bincount(votes, weights=share, minlength=num_classes + 1),
    )


def predict_classes(mean: Float[Tensor, "nodes classes"]) -> tuple[Float[Tensor, " nodes"], Int[Tensor, " nodes"]]:
    """Return the confidence and the predicted class of each node; `NO_CLASS` if all classes are equally likely."""
    confidence, predicted = mean.max(dim=1)
    return confidence, predicted.masked_fill(confidence * mean.shape[1] < UNIFORM_BELOW, NO_CLASS)


def compute_shares(weights: Float[Tensor, " nodes"], alone: Posterior, pooled: str) -> Float[np.ndarray, " nodes"]:
    """Return each node's contribution, summing to 1: its weight, times its evidence if evidence is pooled."""
    amount = weights.double()
    if pooled == "evidence" and isinstance(alone, Dirichlet):
        evidence = amount * (alone.alpha.double() - 1).sum(dim=1)
        amount = evidence if float(evidence.sum()) > 0 else amount
    return (amount / amount.sum()).numpy()


def split_eu(mixture: DirichletMixture) -> tuple[float, float]:
    """Return disagreement and ignorance: EU = [H(mean) - sum_j w_j H(mean_j)] + sum_j w_j EU_j. Paper: Eq. (4)."""
    weights = mixture.weights.to(torch.float64)
    ignorance = float((weights @ Dirichlet(mixture.components.alpha.double()).eu()[:, None])[0, 0])
    return float(mixture.eu()[0]) - ignorance, ignorance


def _tabulate_neighbours(
    graph: Graph,
    node: int,
    neighbours: Int[np.ndarray, " chosen"],
    share: Float[np.ndarray, " nodes"],
    alone: Posterior,
) -> pd.DataFrame:
    nodes = torch.from_numpy(neighbours.copy())
    opinions = alone[nodes]
    confidence, predicted = predict_classes(opinions.mean.double())
    parts = graph.part[nodes].numpy()
    columns = {
        "node": neighbours,
        "share": share[neighbours],
        "hops": compute_hops(graph, node)[neighbours],
        "part": [Part(part).name.lower() for part in parts],
        "label": np.where(parts == Part.TRAIN, graph.labels[nodes].numpy(), -1),  # only labels used in training
        "predicted": predicted.numpy(),
        "confidence": confidence.numpy(),
    }
    return pd.DataFrame(columns | {name: opinions.measure(name).numpy() for name in opinions.measures})


def compute_hops(graph: Graph, node: int) -> Int[np.ndarray, " nodes"]:
    """Return the hop distance of every node from `node`, -1 if there is no path."""
    distance = dijkstra(adjacency_matrix(graph), directed=False, indices=node, unweighted=True)
    return np.where(np.isfinite(distance), distance, -1).astype(int)
