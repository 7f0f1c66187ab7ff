"""Temperature scaling: one number that makes class probabilities less, or more, extreme."""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float, Int
from scipy.optimize import minimize_scalar
from torch import Tensor

from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Graph, Part
from lopgpn_exp.models import Model
from lopgpn_exp.posterior import Categorical, Posterior
from lopgpn_exp.posthoc.step import PostHocStep, StepData

LOG_TEMPERATURE = (-5.0, 5.0)  # bounds of the search


class TemperatureScaling(PostHocStep):
    r"""Replaces the posterior by :math:`\mathrm{softmax}(l / T)`, with one temperature T for all nodes.

    Source: Guo et al. (2017). T minimises the cross-entropy of the validation nodes. l are the logits of the posterior
    or, if it has none, the logarithms of its mean; the predicted classes do not change.

    The result is a `Categorical`: measures of second-order uncertainty, and measures or prediction sets that earlier
    steps have added, are not part of it.
    """

    def check_graph(self, graph: Graph) -> None:
        if len(graph.nodes(Part.VAL)) == 0:
            raise InputError(
                "the split has no validation nodes",
                expected="at least one: the temperature is fitted to them",
                parameter="split",
                suggestion="random",
            )

    def fit(self, data: StepData) -> dict[str, Any]:
        nodes, labels = data.part(Part.VAL)
        return {"temperature": fit_temperature(logits_of(data.posterior)[nodes], labels)}

    def refine(self, posterior: Posterior, model: Model, graph: Graph) -> Categorical:
        return Categorical.from_logits(logits_of(posterior) / self.fitted["temperature"])


def logits_of(posterior: Posterior) -> Float[Tensor, "nodes classes"]:
    """Return the logits of a posterior or, if it has none, the logarithms of its mean.

    A mean that underflowed to 0 counts as the smallest normal number: with a logarithm of minus infinity, no
    temperature would have a finite cross-entropy.
    """
    logits = getattr(posterior, "logits", None)
    if logits is not None:
        return logits
    log_mean = posterior.log_mean
    return torch.nan_to_num(log_mean, nan=math.nan, neginf=math.log(torch.finfo(log_mean.dtype).tiny))


def fit_temperature(logits: Float[Tensor, "nodes classes"], labels: Int[Tensor, " nodes"]) -> float:
    """Return the temperature from exp(-5) to exp(5) that minimises the cross-entropy, computed in float64.

    The cross-entropy is convex in 1 / T. It thus has one minimum in log T, which a bounded search finds.
    """
    scaled, labels = logits.double(), labels.long()

    def cross_entropy(log_temperature: float) -> float:
        return float(torch.nn.functional.cross_entropy(scaled * math.exp(-log_temperature), labels))

    result = minimize_scalar(cross_entropy, bounds=LOG_TEMPERATURE, method="bounded", options={"xatol": 1e-8})
    return math.exp(result.x)
