"""A posterior to which post-hoc steps have added measures or prediction sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jaxtyping import Bool, Float, Int
from torch import Tensor

from lopgpn_exp.posterior.posterior import Posterior


class RefinedPosterior(Posterior):
    """A posterior with more measures than its own, and possibly with prediction sets.

    Everything else, such as `alpha` or `logits`, is that of the posterior it was made from.

    Args:
        scores: values of the added measures, which increase with uncertainty.
        set_scores: the conformal score of each class (see `posthoc.conformal`); a class is in the prediction set of a
            node if its score is at most `set_threshold`.
        set_thresholds: thresholds by nominal coverage, for curves of coverage and set size.
    """

    original: Posterior
    scores: dict[str, Tensor]
    set_scores: Tensor | None
    set_threshold: float | None
    set_thresholds: Mapping[float, float] | None

    def __init__(
        self,
        original: Posterior,
        scores: Mapping[str, Float[Tensor, " nodes"]] | None = None,
        *,
        set_scores: Float[Tensor, "nodes classes"] | None = None,
        set_threshold: float | None = None,
        set_thresholds: Mapping[float, float] | None = None,
    ) -> None:
        if isinstance(original, RefinedPosterior):
            scores = original.scores | dict(scores or {})
            if set_scores is None:
                set_scores, set_threshold = original.set_scores, original.set_threshold
                set_thresholds = original.set_thresholds
            original = original.original
        self.original, self.scores = original, dict(scores or {})
        self.set_scores, self.set_threshold, self.set_thresholds = set_scores, set_threshold, set_thresholds

    @property
    def mean(self) -> Tensor:
        return self.original.mean

    @property
    def log_mean(self) -> Tensor:
        return self.original.log_mean

    @property
    def num_nodes(self) -> int:
        return self.original.num_nodes

    def __getitem__(self, nodes: Int[Tensor, " chosen"]) -> RefinedPosterior:
        return RefinedPosterior(
            self.original[nodes],
            {name: values[nodes] for name, values in self.scores.items()},
            set_scores=None if self.set_scores is None else self.set_scores[nodes],
            set_threshold=self.set_threshold,
            set_thresholds=self.set_thresholds,
        )

    @property
    def measures(self) -> tuple[str, ...]:
        own = self.original.measures
        return (*own, *(name for name in self.scores if name not in own))

    def measure(self, name: str) -> Float[Tensor, " nodes"]:
        return self.scores[name] if name in self.scores else self.original.measure(name)

    @property
    def prediction_sets(self) -> Bool[Tensor, "nodes classes"] | None:
        """Which classes are in the prediction set of each node; None if there are no sets."""
        if self.set_scores is None or self.set_threshold is None:
            return None
        return self.set_scores <= self.set_threshold

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "original":
            raise AttributeError(name)
        return getattr(self.original, name)
