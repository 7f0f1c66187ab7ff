"""The opinions that the posterior of one node is pooled from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from jaxtyping import Float
from torch import Tensor

from lopgpn_exp.posterior import Posterior


@dataclass(frozen=True)
class Opinions:
    """The opinion of every node from its own features alone, and its weight in the posterior of one node.

    Args:
        weights: the row of Pi of that node.
        alone: the posterior of each node without its neighbours.
        pooled: the quantity that is averaged: `beliefs` (a mixture of distributions), their `evidence`, their `logits`
            or their mean `probabilities`.
    """

    weights: Float[Tensor, " nodes"]
    alone: Posterior
    pooled: Literal["beliefs", "evidence", "logits", "probabilities"]
