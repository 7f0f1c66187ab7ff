"""A finite sample of predictions: the posterior of ensembles and of Monte Carlo dropout."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lopgpn_exp.posterior.posterior import Posterior, check_num_draws
from lopgpn_exp.posterior.special import categorical_entropy


class Samples(Posterior):
    """Equally likely class probabilities of each node, such as those of the members of an ensemble.

    Args:
        log_probabilities: one row of log-probabilities per draw and node.
    """

    def __init__(self, log_probabilities: Float[Tensor, "draws nodes classes"]) -> None:
        self.log_probabilities = log_probabilities

    @property
    def draws(self) -> Float[Tensor, "draws nodes classes"]:
        return torch.exp(self.log_probabilities)

    @property
    def mean(self) -> Tensor:
        return self.draws.mean(dim=0)

    @property
    def log_mean(self) -> Tensor:
        """Computed from logarithms, so that it is finite where all probabilities underflow to 0."""
        num_draws = torch.tensor(float(len(self.log_probabilities)))
        return torch.logsumexp(self.log_probabilities, dim=0) - torch.log(num_draws)

    @property
    def num_nodes(self) -> int:
        return self.log_probabilities.shape[1]

    def __getitem__(self, nodes: Int[Tensor, " chosen"]) -> Samples:
        return type(self)(self.log_probabilities[:, nodes])

    def expected_cross_entropy(self, labels: Int[Tensor, " nodes"]) -> Float[Tensor, " nodes"]:
        """Mean cross-entropy of the draws."""
        index = labels.expand(len(self.log_probabilities), -1)[:, :, None]
        return -self.log_probabilities.gather(2, index).squeeze(2).mean(dim=0)

    def sample(self, num_draws: int, *, seed: int) -> Float[Tensor, "draws nodes classes"]:
        """Draw from the sample with replacement; a draw is the same member for all nodes."""
        check_num_draws(num_draws)
        generator = torch.Generator().manual_seed(seed)
        return self.draws[torch.randint(len(self.log_probabilities), (num_draws,), generator=generator)]

    def au(self) -> Float[Tensor, " nodes"]:
        """Aleatoric uncertainty: the mean entropy of the draws."""
        log_p = self.log_probabilities.double()
        entropies = -(torch.exp(log_p) * log_p.clamp(min=-1e4)).sum(dim=-1)  # 0 * -inf would be NaN
        return torch.minimum(entropies.mean(dim=0), self.tu())  # equal up to rounding if all draws are

    def tu(self) -> Float[Tensor, " nodes"]:
        return categorical_entropy(torch.exp(self.log_probabilities.double()).mean(dim=0))

    def eu(self) -> Float[Tensor, " nodes"]:
        """Epistemic uncertainty: the mutual information of label and member."""
        return self.tu() - self.au()

    def credal_width(self) -> Float[Tensor, " nodes"]:
        """Sum over the classes of the largest minus the smallest probability of a draw."""
        draws = torch.exp(self.log_probabilities.double())
        return (draws.amax(dim=0) - draws.amin(dim=0)).sum(dim=-1)
