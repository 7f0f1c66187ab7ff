"""The categorical distribution: the first-order prediction of APPNP and of graph neural networks."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lopgpn_exp.posterior.posterior import Posterior, check_num_draws, select_labels


class Categorical(Posterior):
    """Class probabilities of each node, without second-order uncertainty: AU and EU are undefined.

    Logarithms are stored, so that extreme logits give a large cross-entropy instead of an infinite one.

    Args:
        logits: what the softmax was applied to, if there is such a thing; `energy` exists only then.
    """

    def __init__(
        self,
        log_probabilities: Float[Tensor, "nodes classes"],
        *,
        logits: Float[Tensor, "nodes classes"] | None = None,
    ) -> None:
        self.log_probabilities, self.logits = log_probabilities, logits

    @classmethod
    def from_logits(cls, logits: Float[Tensor, "nodes classes"]) -> Categorical:
        return cls(torch.log_softmax(logits, dim=-1), logits=logits)

    @property
    def mean(self) -> Tensor:
        return torch.exp(self.log_probabilities)

    @property
    def log_mean(self) -> Tensor:
        return self.log_probabilities

    def __getitem__(self, nodes: Int[Tensor, " chosen"]) -> Categorical:
        return type(self)(self.log_probabilities[nodes], logits=None if self.logits is None else self.logits[nodes])

    def _has(self, measure: str) -> bool:
        return super()._has(measure) and (measure != "energy" or self.logits is not None)

    def expected_cross_entropy(self, labels: Int[Tensor, " nodes"]) -> Float[Tensor, " nodes"]:
        return -select_labels(self.log_probabilities, labels)

    def sample(self, num_draws: int, *, seed: int) -> Float[Tensor, "draws nodes classes"]:
        """Return the probabilities themselves as every draw: there is no uncertainty about them."""
        check_num_draws(num_draws)
        return self.mean.expand(num_draws, *self.mean.shape)

    def energy(self) -> Float[Tensor, " nodes"]:
        r"""Free energy :math:`-\log \sum_k e^{l_k}` of the logits. Source: Liu et al. (2020)."""
        if self.logits is None:
            raise AttributeError("these class probabilities have no logits, and thus no energy")
        return -torch.logsumexp(self.logits.double(), dim=-1)
