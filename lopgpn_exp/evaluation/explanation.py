"""Why a node is as uncertain as it is: whose opinions it was pooled from, and what they add up to."""

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

MOST_NEIGHBOURS = 12
NOTHING = -1  # what a node says whose probabilities are all the same
UNIFORM_BELOW = 1.05  # times 1/K: a largest probability that says nothing


@dataclass(frozen=True)
class Explanation:
    """One node.

    Args:
        neighbours: the nodes that count most (itself among them): `node, share, hops, part, label, predicted,
            confidence` and the measures of what each says alone, by falling share. `share` is that of the pool;
            `predicted` is `NOTHING` where all classes are as likely.
        rest: share of all other nodes together.
        pooled, alone: mean class probabilities with the graph and without.
        measures: a row a measure, `pooled` and `alone`.
        disagreement, ignorance: the two parts of EU, where beliefs were pooled: how far the opinions contradict each
            other, and what each of them does not know. They sum to EU.
        votes: share of the pool by the class that a node alone would say; at the end, that of those who say nothing.
    """

    node: int
    neighbours: pd.DataFrame
    rest: float
    pooled: np.ndarray
    alone: np.ndarray
    measures: pd.DataFrame
    disagreement: float | None
    ignorance: float | None
    votes: np.ndarray


def explain(
    graph: Graph,
    node: int,
    *,
    posterior: Posterior,
    weights: Float[Tensor, " nodes"],
    alone: Posterior,
    pooled: str,
    most: int = MOST_NEIGHBOURS,
) -> Explanation:
    """`posterior` is that of all nodes, `weights` the node's row of Pi, `alone` what each node says by itself."""
    share = shares(weights, alone, pooled)
    order = np.argsort(-share, kind="stable")[:most]
    order = order[share[order] > 0]
    chosen, itself = torch.tensor([node]), posterior[torch.tensor([node])]
    mean_alone = alone.mean.double()
    split = eu_parts(itself) if isinstance(itself, DirichletMixture) else (None, None)
    own = alone[chosen]
    names = [name for name in itself.measures if name in own.measures]
    return Explanation(
        node=node,
        neighbours=_neighbours(graph, node, order, share, alone),
        rest=max(0.0, 1.0 - float(share[order].sum())),
        pooled=itself.mean.double()[0].numpy(),
        alone=mean_alone[node].numpy(),
        measures=pd.DataFrame(
            {
                "measure": names,
                "pooled": [float(itself.measure(name)[0]) for name in names],
                "alone": [float(own.measure(name)[0]) for name in names],
            }
        ),
        disagreement=split[0],
        ignorance=split[1],
        votes=_votes(said(mean_alone)[1].numpy(), share, mean_alone.shape[1]),
    )


def said(mean: Float[Tensor, "nodes classes"]) -> tuple[Float[Tensor, " nodes"], Int[Tensor, " nodes"]]:
    """How sure each is, and of which class; of `NOTHING` where no class is likelier than the others."""
    confidence, label = mean.max(dim=1)
    return confidence, label.masked_fill(confidence * mean.shape[1] < UNIFORM_BELOW, NOTHING)


def _votes(labels: np.ndarray, share: np.ndarray, num_classes: int) -> np.ndarray:
    return np.bincount(np.where(labels == NOTHING, num_classes, labels), weights=share, minlength=num_classes + 1)


def shares(weights: Float[Tensor, " nodes"], alone: Posterior, pooled: str) -> Float[np.ndarray, " nodes"]:
    """What each node contributes, as shares that sum to 1: its weight, times its evidence where that is added up."""
    amount = weights.double()
    if pooled == "evidence" and isinstance(alone, Dirichlet):
        evidence = amount * (alone.alpha.double() - 1).sum(dim=1)
        amount = evidence if float(evidence.sum()) > 0 else amount  # nobody knows anything: then all say so alike
    return (amount / amount.sum()).numpy()


def eu_parts(mixture: DirichletMixture) -> tuple[float, float]:
    """Disagreement and ignorance of one node: EU = [H(mean) - sum_j w_j H(mean_j)] + sum_j w_j EU_j. Paper: Eq. (4)."""
    weights = mixture.weights.to(torch.float64)
    ignorance = float((weights @ Dirichlet(mixture.components.alpha.double()).eu()[:, None])[0, 0])
    return float(mixture.eu()[0]) - ignorance, ignorance


def _neighbours(graph: Graph, node: int, order: np.ndarray, share: np.ndarray, alone: Posterior) -> pd.DataFrame:
    nodes = torch.from_numpy(order.copy())
    opinions = alone[nodes]
    confidence, predicted = said(opinions.mean.double())
    labels = graph.labels[nodes].numpy()
    parts = graph.part[nodes].numpy()
    seen = parts == Part.TRAIN  # the labels that the model was given
    columns = {
        "node": order,
        "share": share[order],
        "hops": hops_from(graph, node)[order],
        "part": [Part(part).name.lower() for part in parts],
        "label": np.where(seen, labels, -1),
        "predicted": predicted.numpy(),
        "confidence": confidence.numpy(),
    }
    return pd.DataFrame(columns | {name: opinions.measure(name).numpy() for name in opinions.measures})


def hops_from(graph: Graph, node: int) -> np.ndarray:
    """Hop distance of every node, -1 where there is no way."""
    distance = dijkstra(adjacency_matrix(graph), directed=False, indices=node, unweighted=True)
    return np.where(np.isfinite(distance), distance, -1).astype(int)
