"""A first-order prediction: all belief on one categorical distribution."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lopgpn_exp.posterior.base import Posterior, _at


class Categorical(Posterior):
    """Class probabilities without a second order, as APPNP gives. It has total uncertainty alone.

    Kept as logarithms: extreme logits then give a large cross-entropy instead of an infinite one.
    """

    def __init__(self, log_probabilities: Float[Tensor, "nodes classes"]) -> None:
        self.log_probabilities = log_probabilities

    @property
    def mean(self) -> Tensor:
        return torch.exp(self.log_probabilities)

    @property
    def log_mean(self) -> Tensor:
        return self.log_probabilities

    def __getitem__(self, nodes: Int[Tensor, " chosen"]) -> Categorical:
        return Categorical(self.log_probabilities[nodes])

    def expected_cross_entropy(self, labels: Int[Tensor, " nodes"]) -> Float[Tensor, " nodes"]:
        return -_at(self.log_probabilities, labels)
