"""GKDE: a Dirichlet a node, from the hop distances to the training nodes."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float, Int
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from lopgpn_exp.graph import Graph, adjacency_matrix
from lopgpn_exp.models.base import ClosedFormModel, check_in_range
from lopgpn_exp.posterior import Dirichlet

# Past this distance a training node adds less than 6e-15: nothing to a float32 alpha >= 1, whose digits end at 6e-8,
# unless ten million of them add up or the sum sits that close to a rounding boundary. `_is_settled` checks both.
NEGLIGIBLE_AFTER = 7


class GKDE(ClosedFormModel):
    r"""Evidence of class c at node v: the training nodes of c, weighed by their distance. Source: Zhao et al. (2020).

    .. math:: \alpha_{vc} = 1 + \sum_{t \in T_c} \mathcal N(d(v, t); 0, 1), \qquad d \le d_{max}

    - :math:`T_c`: training nodes of class c; :math:`d`: hop distance, 0 from a node to itself. Unreachable is nothing.
    - The distances are counted exactly, class by class, and summed in float64; alpha is rounded to float32 once.

    Args:
        max_hops: d_max, the largest distance that counts.

    Past 7 hops the search is skipped for a class whenever this provably changes no bit of alpha: the search is
    repeated in full only if all that is left of the class, put at 8 hops, could change the rounding of any node.
    Features are not used. Paper: Sec. 5.1, which says "based on the features of its neighbors"; Deviation: the
    method and the public code use labels and distances alone.
    """

    def __init__(self, *, num_features: int, num_classes: int, max_hops: int = 10) -> None:
        super().__init__(num_classes=num_classes)
        check_in_range("max_hops", max_hops, low=0, hint="10")
        self.max_hops = max_hops

    def fit_nodes(
        self,
        graph: Graph,
        nodes: Int[Tensor, " train"],
        labels: Int[Tensor, " train"],
        *,
        seed: int,
        cache_dir: Path | None,
        report: Callable[[str], None],
    ) -> dict[str, Any]:
        adjacency = adjacency_matrix(graph)
        _, component = connected_components(adjacency, directed=False)
        alpha = torch.empty(graph.num_nodes, self.num_classes)
        for label in range(self.num_classes):
            report(f"class {label + 1} of {self.num_classes}")
            sources = nodes[labels == label].numpy()
            evidence = class_evidence(adjacency, component, sources, max_hops=self.max_hops)
            alpha[:, label] = torch.from_numpy(_alpha(evidence))
        return {"alpha": alpha}

    def posterior(self, fitted: dict[str, Any]) -> Dirichlet:
        return Dirichlet(fitted["alpha"])


def kernel(distance: np.ndarray) -> np.ndarray:
    """Standard normal density at hop distances."""
    return np.asarray(np.exp(-0.5 * np.square(distance, dtype=np.float64)) / math.sqrt(2 * math.pi))


def class_evidence(
    adjacency: sp.csr_array,
    component: Int[np.ndarray, " nodes"],
    sources: Int[np.ndarray, " sources"],
    *,
    max_hops: int,
    negligible_after: int = NEGLIGIBLE_AFTER,
) -> Float[np.ndarray, " nodes"]:
    """Sum of the kernel over the sources within `max_hops`; what follows `negligible_after` only where it can matter.

    Args:
        component: the connected component of each node.
    """
    from lopgpn_exp.graph.hops import hop_counts  # numba: only for who needs it

    in_reach = np.bincount(component[sources], minlength=component.max() + 1)[component]
    for hops in sorted({min(negligible_after, max_hops), max_hops}):
        counts = hop_counts(adjacency, sources, max_hops=hops)
        evidence = _weighted(counts)
        if hops < max_hops and _is_settled(evidence, left=in_reach - counts.sum(axis=0), hops=hops):
            break
    return evidence


def _weighted(counts: Int[np.ndarray, "hops nodes"]) -> Float[np.ndarray, " nodes"]:
    """Added from the nearest hop outwards: the sum up to any hop is then, bit by bit, the start of the longer one."""
    evidence = np.zeros(counts.shape[1])
    for weight, count in zip(kernel(np.arange(len(counts))), counts, strict=True):
        evidence += weight * count
    return evidence


def _is_settled(evidence: np.ndarray, *, left: np.ndarray, hops: int) -> bool:
    """Whether no source further than `hops` can change a bit of any float32 alpha.

    All sources `left` are put at distance `hops + 1`, where they add at least what they really do. Rounding is
    monotone: if the sum with them rounds as the one without, so does every sum between. The last factor covers the
    rounding of the longer float64 sum itself.
    """
    most = (evidence + left * kernel(np.array([hops + 1]))) * (1 + 1e-15)
    return bool((_alpha(np.where(left > 0, most, evidence)) == _alpha(evidence)).all())


def _alpha(evidence: np.ndarray) -> np.ndarray:
    return (1 + evidence).astype(np.float32)
