"""Conformal prediction: a set of classes for each node that contains its class with a chosen probability."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lopgpn_exp.errors import InputError, check_in_range, check_parameter
from lopgpn_exp.graph import Graph, Part, neighbour_mean
from lopgpn_exp.models import Model
from lopgpn_exp.posterior import Posterior, RefinedPosterior
from lopgpn_exp.posterior.posterior import select_labels
from lopgpn_exp.posthoc.energy import spread
from lopgpn_exp.posthoc.step import PostHocStep, StepData

Method = Literal["aps", "daps"]
COVERAGES = tuple(percent / 100 for percent in range(50, 100))  # nominal coverages that get a threshold
SMOOTHINGS = tuple(percent / 100 for percent in range(0, 100, 5))  # from which DAPS chooses lambda
ROUNDING = 1e-12  # relative tolerance: 100 * 0.55 is more than 55 in floating point


class ConformalSets(PostHocStep):
    r"""Adds prediction sets :math:`\{y : S(x, y) \le t\}` and their size, the measure `set_size`.

    `aps`: Romano et al. (2020). S is the probability of the classes ranked above y, plus u times that of y, with u
    uniform (see `aps_scores`); t is the :math:`\lceil (n+1) (1-\alpha) \rceil`-th smallest score of the labels of n
    calibration nodes.
    `daps`: Zargarbashi et al. (2023). The scores are :math:`(1-\lambda) S + \lambda D^{-1} A S`, without self loops.
    :math:`\lambda` is 0, 0.05, ... or 0.95: the one with the smallest mean set on one half of the calibration nodes,
    calibrated and measured there. t comes from the other half.

    If the nodes are exchangeable, a set contains the class of a new node with a probability of at least
    :math:`1-\alpha`. Here this holds approximately: the calibration nodes are the validation nodes, which early
    stopping has seen. It does not hold for OOD nodes. Sets can be empty.

    Args:
        coverage: :math:`1-\alpha`, the probability that a set contains the class.
        method: how scores are computed.
        seed: seed of the u, drawn in the order of the nodes, and of the halves.

    Deviation: the public code of DAPS differs. Here, u is one number per node, not one per node and class; an isolated
    node keeps its scores, which are multiplied by :math:`1-\lambda` there; the threshold has the rank above, which
    guarantees the coverage, instead of :math:`\lfloor (n-1) \alpha \rfloor` from the top; empty sets count in the
    mean size; one draw of u chooses :math:`\lambda`, instead of 20.
    """

    def __init__(self, *, coverage: float = 0.9, method: Method = "aps", seed: int = 0) -> None:
        super().__init__()
        check_parameter("coverage", coverage, 0 < coverage < 1, expected="a share between 0 and 1", suggestion=0.9)
        check_in_range("seed", seed, low=0, suggestion=0)
        self.coverage, self.method, self.seed = coverage, method, seed

    def check_graph(self, graph: Graph) -> None:
        check_node_count(len(graph.nodes(Part.VAL)), self.coverage, num_parts=2 if self.method == "daps" else 1)

    def fit(self, data: StepData) -> dict[str, Any]:
        nodes, labels = data.part(Part.VAL)
        scores, smoothing = self._scores(data.posterior), 0.0
        if self.method == "daps":
            shuffled = torch.from_numpy(np.random.default_rng([self.seed, 1]).permutation(len(nodes)))
            tuning, calibration = shuffled.tensor_split([len(nodes) // 2])
            operator = neighbour_mean(data.graph)
            smoothing = choose_smoothing(scores, operator, nodes[tuning], labels[tuning], coverage=self.coverage)
            scores = smooth_scores(scores, operator, smoothing=smoothing)
            nodes, labels = nodes[calibration], labels[calibration]
        of_labels = select_labels(scores[nodes], labels)
        possible = [coverage for coverage in COVERAGES if threshold_rank(len(nodes), coverage) <= len(nodes)]
        return {
            "smoothing": smoothing,
            "threshold": conformal_threshold(of_labels, self.coverage),
            "thresholds": {coverage: conformal_threshold(of_labels, coverage) for coverage in possible},
        }

    def refine(self, posterior: Posterior, model: Model, graph: Graph) -> RefinedPosterior:
        scores, threshold = self._scores(posterior), self.fitted["threshold"]
        if self.method == "daps":
            scores = smooth_scores(scores, neighbour_mean(graph), smoothing=self.fitted["smoothing"])
        size = (scores <= threshold).sum(dim=1).double()
        return RefinedPosterior(
            posterior,
            {"set_size": size},
            set_scores=scores,
            set_threshold=threshold,
            set_thresholds=self.fitted["thresholds"],
        )

    def _scores(self, posterior: Posterior) -> Float[Tensor, "nodes classes"]:
        uniform = np.random.default_rng(self.seed).random(posterior.num_nodes)
        return aps_scores(posterior.mean, torch.from_numpy(uniform))


def aps_scores(
    probabilities: Float[Tensor, "nodes classes"], uniform: Float[Tensor, " nodes"]
) -> Float[Tensor, "nodes classes"]:
    r"""Return :math:`\sum_{k \prec y} p_k + u p_y` for each node and class y, in float64. Source: Romano et al. (2020).

    :math:`k \prec y` are the classes of higher probability; of equally probable classes, the lower index comes first.

    Args:
        uniform: u, one number from 0 to 1 per node. Its classes share it, so that a set consists of the most probable
            classes.
    """
    ranked, order = torch.sort(probabilities.double(), dim=1, descending=True, stable=True)
    above = torch.cumsum(ranked, dim=1).roll(1, dims=1)
    above[:, 0] = 0
    return torch.empty_like(ranked).scatter_(1, order, above + uniform.double()[:, None] * ranked)


def smooth_scores(
    scores: Float[Tensor, "nodes classes"], operator: sp.csr_array, *, smoothing: float
) -> Float[Tensor, "nodes classes"]:
    r"""Return :math:`(1-\lambda) S + \lambda P S`. Source: Zargarbashi et al. (2023).

    Args:
        operator: P, the mean over neighbours (see `neighbour_mean`).
        smoothing: :math:`\lambda`; 0 changes nothing.
    """
    return spread(scores, operator, num_steps=1, keep=1 - smoothing)


def choose_smoothing(
    scores: Float[Tensor, "nodes classes"],
    operator: sp.csr_array,
    nodes: Int[Tensor, " chosen"],
    labels: Int[Tensor, " chosen"],
    *,
    coverage: float,
) -> float:
    """Return the value of SMOOTHINGS with the smallest mean set size of `nodes`, calibrated on the same nodes.

    Of equally good values, the smallest is chosen.
    """
    own, of_neighbours = scores[nodes], smooth_scores(scores, operator, smoothing=1.0)[nodes]

    def mean_size(smoothing: float) -> float:
        smoothed = torch.lerp(own, of_neighbours, smoothing)
        threshold = conformal_threshold(select_labels(smoothed, labels), coverage)
        return float((smoothed <= threshold).sum()) / len(nodes)

    return min(SMOOTHINGS, key=mean_size)


def conformal_threshold(scores: Float[Tensor, " nodes"], coverage: float) -> float:
    r"""Return the :math:`\lceil (n+1) \, coverage \rceil`-th smallest of n scores.

    A further exchangeable score is at most this large with a probability of at least `coverage`.
    """
    check_node_count(len(scores), coverage)
    return float(torch.kthvalue(scores.double(), threshold_rank(len(scores), coverage)).values)


def threshold_rank(num_nodes: int, coverage: float) -> int:
    """Return ceil((n + 1) coverage). If it is more than n, n nodes are too few for the coverage."""
    return math.ceil((num_nodes + 1) * coverage * (1 - ROUNDING))


def check_node_count(num_nodes: int, coverage: float, *, num_parts: int = 1) -> None:
    """Raise an InputError if the validation nodes, in each of several equal parts, are too few for the coverage."""
    if threshold_rank(num_nodes // num_parts, coverage) > num_nodes // num_parts:
        raise _too_few_nodes(num_nodes // num_parts, coverage, num_parts)


def _too_few_nodes(num_nodes: int, coverage: float, num_parts: int) -> InputError:
    """Return the error that n calibration nodes, or n in each of two parts, do not suffice: n / (n + 1) is possible."""
    needed = num_parts * math.ceil(coverage / (1 - coverage) * (1 - ROUNDING))
    where = "in each half of the validation nodes" if num_parts > 1 else "for validation"
    what = f"prediction sets of coverage {coverage} need more than the {num_nodes} nodes {where}"
    if num_nodes == 0:
        expected = f"at least {needed} validation nodes"
        return InputError(what, expected=expected, parameter="split", suggestion="random")
    possible = num_nodes / (num_nodes + 1)
    suggestion = math.floor(1000 * possible) / 1000
    expected = f"a coverage of at most {suggestion:g}, or at least {needed:,} validation nodes"
    return InputError(what, expected=expected, parameter="coverage", suggestion=suggestion)
