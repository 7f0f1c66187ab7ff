"""GKDE: one Dirichlet distribution per node, from its hop distances to the training nodes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float, Int
from scipy.sparse.csgraph import connected_components

from lopgpn_exp.errors import check_in_range
from lopgpn_exp.graph import adjacency_matrix
from lopgpn_exp.models.base import ClosedFormModel, FitData
from lopgpn_exp.posterior import Dirichlet

# A training node that is further away adds less than 6e-15 to an alpha whose precision is 6e-8 in float32.
NEGLIGIBLE_AFTER = 7


class GKDE(ClosedFormModel):
    r"""Evidence for class c at node v is a sum of kernels over the training nodes of c. Source: Zhao et al. (2020).

    .. math:: \alpha_{vc} = 1 + \sum_{t \in T_c} \mathcal N(d(v, t); 0, 1), \qquad d \le d_{max}

    - :math:`T_c`: training nodes of class c.
    - :math:`d`: hop distance, 0 from a node to itself. Unreachable nodes add nothing.
    - :math:`d_{max}`: `max_hops`. The search stops after 7 hops if this provably changes no bit of alpha.
    - The sum is taken over exact counts per distance, in float64; alpha is rounded to float32 once.

    Deviation: the paper (Sec. 5.1) says "based on the features of its neighbors"; the method and the public code use
    labels and distances alone.
    """

    def __init__(self, *, num_features: int, num_classes: int, max_hops: int = 10) -> None:
        super().__init__(num_classes=num_classes)
        reason = "each hop visits the neighbours of all nodes reached"
        check_in_range("max_hops", max_hops, low=0, high=10_000, reason=reason, suggestion=10)
        self.max_hops = max_hops

    def fit_nodes(self, data: FitData) -> dict[str, Any]:
        adjacency = adjacency_matrix(data.graph)
        _, component = connected_components(adjacency, directed=False)
        alpha = torch.empty(data.graph.num_nodes, self.num_classes)
        for label in range(self.num_classes):
            data.report(f"class {label + 1} of {self.num_classes}")
            sources = data.nodes[data.labels == label].numpy()
            evidence = class_evidence(adjacency, component, sources, max_hops=self.max_hops)
            alpha[:, label] = torch.from_numpy(_to_alpha(evidence))
        return {"alpha": alpha}

    def posterior(self, fitted: dict[str, Any]) -> Dirichlet:
        return Dirichlet(fitted["alpha"])


def kernel(distance: np.ndarray) -> np.ndarray:
    """Return the standard normal density at the given hop distances."""
    return np.asarray(np.exp(-0.5 * np.square(distance, dtype=np.float64)) / math.sqrt(2 * math.pi))


def class_evidence(
    adjacency: sp.csr_array,
    component: Int[np.ndarray, " nodes"],
    sources: Int[np.ndarray, " sources"],
    *,
    max_hops: int,
    negligible_after: int = NEGLIGIBLE_AFTER,
) -> Float[np.ndarray, " nodes"]:
    """Return the sum of the kernel over the sources within `max_hops` of each node.

    The search stops after `negligible_after` hops if further sources cannot change a float32 alpha.
    """
    from lopgpn_exp.graph.hops import count_hops  # deferred import: numba is slow to load

    num_reachable = np.bincount(component[sources], minlength=component.max() + 1)[component]
    for hops in sorted({min(negligible_after, max_hops), max_hops}):
        counts = count_hops(adjacency, sources, max_hops=hops)
        evidence = _weighted_sum(counts)
        if hops < max_hops and _is_final(evidence, remaining=num_reachable - counts.sum(axis=0), hops=hops):
            break
    return evidence


def _weighted_sum(counts: Int[np.ndarray, "hops nodes"]) -> Float[np.ndarray, " nodes"]:
    # From the nearest hop outwards, so that a sum over fewer hops is, to the bit, a partial sum of the longer one.
    evidence = np.zeros(counts.shape[1])
    for weight, count in zip(kernel(np.arange(len(counts))), counts, strict=True):
        evidence += weight * count
    return evidence


def _is_final(evidence: np.ndarray, *, remaining: np.ndarray, hops: int) -> bool:
    """Return whether no source beyond `hops` can change a bit of any float32 alpha.

    At distance `hops + 1` the `remaining` sources would add at least as much as at their true distance. Rounding is
    monotone: if the sums with and without them round to the same number, so does every sum in between. The last factor
    covers the rounding of the longer float64 sum.
    """
    upper = (evidence + remaining * kernel(np.array([hops + 1]))) * (1 + 1e-15)
    return bool((_to_alpha(np.where(remaining > 0, upper, evidence)) == _to_alpha(evidence)).all())


def _to_alpha(evidence: np.ndarray) -> np.ndarray:
    return (1 + evidence).astype(np.float32)
