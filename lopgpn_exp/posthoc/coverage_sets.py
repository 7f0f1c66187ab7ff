"""Prediction sets of any trained model, with the method that its number of validation nodes allows."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from lopgpn_exp.errors import InputError, check_parameter
from lopgpn_exp.graph import Graph, Part
from lopgpn_exp.models import Model
from lopgpn_exp.models.base import hide_labels
from lopgpn_exp.posterior import Posterior, RefinedPosterior
from lopgpn_exp.posthoc.conformal import ConformalSets, Method, check_node_count, threshold_rank
from lopgpn_exp.posthoc.step import StepData

SUM_TOLERANCE = 1e-3  # of probabilities in float32, over many classes


@dataclass(frozen=True)
class CalibratedSets:
    """Prediction sets that are calibrated on the validation nodes of a graph.

    Args:
        num_calibration: nodes that the threshold comes from; for DAPS, one half of the validation nodes.
    """

    step: ConformalSets
    num_calibration: int

    @property
    def method(self) -> Method:
        return self.step.method

    @property
    def coverage(self) -> float:
        return self.step.coverage

    @property
    def rank(self) -> int:
        """The rank of the threshold among the scores of the calibration nodes."""
        return threshold_rank(self.num_calibration, self.coverage)

    def add_sets(self, posterior: Posterior, model: Model, graph: Graph) -> RefinedPosterior:
        """Return the posterior of a graph's nodes with their prediction sets."""
        _check_probabilities(posterior)
        return self.step.refine(posterior, model, graph)


def choose_set_method(num_nodes: int, coverage: float) -> Method:
    """Return `daps` if each half of the validation nodes suffices for the coverage, otherwise `aps`.

    Raises an InputError, with the largest possible coverage, if all validation nodes together do not suffice for `aps`.
    """
    check_parameter("coverage", coverage, 0 < coverage < 1, expected="a share between 0 and 1", suggestion=0.9)
    half = num_nodes // 2
    if half and threshold_rank(half, coverage) <= half:
        return "daps"
    check_node_count(num_nodes, coverage)
    return "aps"


def calibrate_sets(model: Model, posterior: Posterior, graph: Graph, *, coverage: float) -> CalibratedSets:
    """Return prediction sets, calibrated on the validation nodes of a graph with the posterior of its nodes.

    Which method is used depends on the number of validation nodes alone, so the guarantee of `ConformalSets` holds.
    """
    num_nodes = len(graph.nodes(Part.VAL))
    step = ConformalSets(coverage=coverage, method=choose_set_method(num_nodes, coverage))
    _check_probabilities(posterior)
    step.fitted = step.fit(StepData(hide_labels(graph), model, posterior, seed=step.seed))
    return CalibratedSets(step, num_nodes - num_nodes // 2 if step.method == "daps" else num_nodes)


def _check_probabilities(posterior: Posterior) -> None:
    """Raise an InputError unless the means of the posterior are class probabilities."""
    mean = posterior.mean.double()
    is_valid = (mean >= 0).all(dim=1) & ((mean.sum(dim=1) - 1).abs() <= SUM_TOLERANCE)
    if not is_valid.all():
        node = int(torch.nonzero(~is_valid)[0])
        values = ", ".join(f"{value:.3g}" for value in mean[node, :3].tolist())
        raise InputError(
            f"the model gives no class probabilities: the mean of node {node} is {values}, ...",
            expected="values from 0 to 1 with a sum of 1: prediction sets need them",
        )
