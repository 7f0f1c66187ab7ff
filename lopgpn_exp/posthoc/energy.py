"""GNNSafe: energies, spread along the edges."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float
from torch import Tensor

from lopgpn_exp.errors import InputError, check_in_range
from lopgpn_exp.graph import Graph, neighbour_mean
from lopgpn_exp.models import Model
from lopgpn_exp.posterior import RefinedPosterior
from lopgpn_exp.posthoc.step import PostHocStep


class EnergyPropagation(PostHocStep):
    r"""Adds the measure `propagated_energy`: :math:`e \leftarrow \gamma e + (1-\gamma) D^{-1} A e`, K times.

    Source: Wu et al. (2023), GNNSafe. The energy is :math:`-\log \sum_k e^{l_k}` of the logits l; A has no self loops.

    Args:
        num_steps: K; 0 gives the energy itself.
        gamma: share of its own energy that a node keeps in each step.

    Deviation: a node without neighbours keeps its energy; in the public code, which divides by a degree of 0, it
    shrinks towards 0.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"logits"})

    def __init__(self, *, num_steps: int = 2, gamma: float = 0.5) -> None:
        super().__init__()
        reason = "each step multiplies by the graph once"
        check_in_range("num_steps", num_steps, low=0, high=10_000, reason=reason, suggestion=2)
        check_in_range("gamma", gamma, low=0, high=1, suggestion=0.5)
        self.num_steps, self.gamma = num_steps, gamma

    def refine(self, posterior: Any, model: Model, graph: Graph) -> RefinedPosterior:
        if "energy" not in posterior.measures:
            raise InputError(
                "energies cannot be spread: an earlier post-hoc step has replaced the logits of the model",
                expected="this step before steps that replace the posterior, or without them",
            )
        energy = spread(posterior.energy(), neighbour_mean(graph), num_steps=self.num_steps, keep=self.gamma)
        return RefinedPosterior(posterior, {"propagated_energy": energy})


def spread(
    values: Float[Tensor, " nodes *width"], operator: sp.csr_array, *, num_steps: int, keep: float
) -> Float[Tensor, " nodes *width"]:
    """Return the values after `num_steps` steps of a lazy walk: a node keeps the share `keep` of its own value."""
    current = values.double().numpy()
    for _ in range(num_steps):
        current = keep * current + (1 - keep) * (operator @ current)
    return torch.from_numpy(np.asarray(current))
