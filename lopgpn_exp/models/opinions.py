"""What a node's posterior was pooled from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from jaxtyping import Float
from torch import Tensor

from lopgpn_exp.posterior import Posterior


@dataclass(frozen=True)
class Opinions:
    """Every node's opinion from its own features alone, and how much each counts for one node.

    Args:
        weights: the node's row of Pi.
        alone: what each node would say by itself.
        pooled: what is added up: whole `beliefs` (a mixture), their `evidence`, or `logits`.
    """

    weights: Float[Tensor, " nodes"]
    alone: Posterior
    pooled: Literal["beliefs", "evidence", "logits", "probabilities"]
