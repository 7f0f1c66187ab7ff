"""The interface of all second-order distributions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lopgpn_exp.errors import InputError, check_in_range, nearest
from lopgpn_exp.measures import measure_names, sort_measures
from lopgpn_exp.posterior.special import categorical_entropy


class Posterior(ABC):
    """One second-order distribution per node.

    Each measure is a method: it increases with uncertainty and is computed in float64. If a measure of the registry
    (`lopgpn_exp.measures`) is undefined for a distribution, the class does not have the method, and `measures` does not
    list it. The same holds for `expected_cross_entropy(labels)`, a loss per node, and `sample(num_draws, seed=...)`,
    which draws class probabilities of shape draws x nodes x classes.

    A subclass can define more measures and name them in `extra_measures`:

    >>> class MyDirichlet(Dirichlet):
    ...     extra_measures = ("strength",)
    ...
    ...     def strength(self):
    ...         return -torch.log(self.alpha_0.double())
    """

    extra_measures: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in cls.extra_measures:
            if not callable(getattr(cls, name, None)):
                raise TypeError(f"{cls.__name__}.extra_measures names {name!r}, which is not a method of the class")

    @property
    @abstractmethod
    def mean(self) -> Float[Tensor, "nodes classes"]:
        """Expected class probabilities. Paper: Eq. (1)."""

    @abstractmethod
    def __getitem__(self, nodes: Int[Tensor, " chosen"]) -> Posterior:
        """Return the distributions of some nodes."""

    @property
    def log_mean(self) -> Float[Tensor, "nodes classes"]:
        return torch.log(self.mean)

    @property
    def num_nodes(self) -> int:
        return self.mean.shape[0]

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of the supported measures, first those of the registry, then the `extra_measures`."""
        return tuple(name for name in sort_measures((*measure_names(), *self.extra_measures)) if self._has(name))

    def _has(self, measure: str) -> bool:
        """Return whether the distribution has a measure; a subclass may depend on more than its methods."""
        return hasattr(self, measure)

    def measure(self, name: str) -> Float[Tensor, " nodes"]:
        """Return the values of a measure."""
        if name not in self.measures:
            raise InputError(
                f"{type(self).__name__} has no measure {name!r}",
                expected="one of " + ", ".join(self.measures),
                hint=nearest(name, self.measures) or "",
            )
        return getattr(self, name)()

    def cross_entropy(self, labels: Int[Tensor, " nodes"]) -> Float[Tensor, " nodes"]:
        """Negative log-likelihood of the labels under the mean."""
        return -select_labels(self.log_mean, labels)

    def tu(self) -> Float[Tensor, " nodes"]:
        """Total uncertainty: the entropy of the mean. Paper: Eq. (2)."""
        return categorical_entropy(self.mean.double())

    def lconf(self) -> Float[Tensor, " nodes"]:
        """Least confidence: one minus the largest mean. Paper: Eq. (6)."""
        return 1 - self.mean.double().amax(dim=-1)


def check_num_draws(num_draws: int) -> None:
    """Raise an InputError if a number of draws is out of range."""
    reason = "each draw has a probability for every node and class"
    check_in_range("num_draws", num_draws, low=1, high=1_000_000, reason=reason, suggestion=100)


def select_labels(values: Float[Tensor, "nodes classes"], labels: Int[Tensor, " nodes"]) -> Float[Tensor, " nodes"]:
    """Return the entry of each row in the column of its label."""
    return values.gather(1, labels[:, None]).squeeze(1)
