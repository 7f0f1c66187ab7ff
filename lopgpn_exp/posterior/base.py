"""What every second-order distribution offers: a model returns one, everything else asks it."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lopgpn_exp.errors import InputError, nearest
from lopgpn_exp.posterior.special import categorical_entropy

MEASURES = ("tu", "au", "eu", "eu_pc", "eu_so", "lconf")


class Posterior(ABC):
    """One second-order distribution a node.

    A measure is a method of the same name. It grows with uncertainty and is computed in float64. A distribution for
    which a measure makes no sense does not have the method, and the measure is then not in `measures`.
    """

    @property
    @abstractmethod
    def mean(self) -> Float[Tensor, "nodes classes"]:
        """Expected class probabilities. Paper: Eq. (1)."""

    @abstractmethod
    def __getitem__(self, nodes: Int[Tensor, " chosen"]) -> Posterior:
        """The distributions of some nodes."""

    @property
    def log_mean(self) -> Float[Tensor, "nodes classes"]:
        return torch.log(self.mean)

    @property
    def num_nodes(self) -> int:
        return self.mean.shape[0]

    @property
    def measures(self) -> tuple[str, ...]:
        return tuple(name for name in MEASURES if hasattr(self, name))

    def measure(self, name: str) -> Float[Tensor, " nodes"]:
        if name not in self.measures:
            close = nearest(name, self.measures)
            raise InputError(
                f"{type(self).__name__} has no measure {name!r}",
                expected="one of " + ", ".join(self.measures),
                hint=close or "",
            )
        return getattr(self, name)()

    def cross_entropy(self, labels: Int[Tensor, " nodes"]) -> Float[Tensor, " nodes"]:
        """Negative log-likelihood of the labels under the mean."""
        return -_at(self.log_mean, labels)

    def tu(self) -> Float[Tensor, " nodes"]:
        """Total uncertainty, the entropy of the mean. Paper: Eq. (2)."""
        return categorical_entropy(self.mean.double())

    def lconf(self) -> Float[Tensor, " nodes"]:
        """Least confidence, one minus the largest mean. Paper: Eq. (6)."""
        return 1 - self.mean.double().amax(dim=-1)


def _at(values: Tensor, labels: Tensor) -> Tensor:
    """The column of each row that its label names."""
    return values.gather(1, labels[:, None]).squeeze(1)
