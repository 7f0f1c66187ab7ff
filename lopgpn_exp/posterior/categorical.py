"""The categorical distribution: the first-order prediction of APPNP."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lopgpn_exp.posterior.posterior import Posterior, select_labels


class Categorical(Posterior):
    """Class probabilities of each node, without second-order uncertainty: only total uncertainty is defined.

    Logarithms are stored, so that extreme logits give a large cross-entropy instead of an infinite one.
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
        return type(self)(self.log_probabilities[nodes])

    def expected_cross_entropy(self, labels: Int[Tensor, " nodes"]) -> Float[Tensor, " nodes"]:
        return -select_labels(self.log_probabilities, labels)
