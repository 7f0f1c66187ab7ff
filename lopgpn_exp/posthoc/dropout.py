"""Monte Carlo dropout: several stochastic passes of a trained network."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from lopgpn_exp.errors import check_in_range
from lopgpn_exp.graph import Graph
from lopgpn_exp.posterior import Posterior, Samples
from lopgpn_exp.posthoc.step import PostHocStep
from lopgpn_exp.seeds import seeded


class MonteCarloDropout(PostHocStep):
    """Replaces the posterior by the predictions of passes with dropout. Source: Gal and Ghahramani (2016).

    Args:
        num_passes: number of passes.
        dropout: dropout probability of the hidden layer; None: that of the training.
        seed: seed of the passes, so that the same graph always gives the same posterior.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"dropout"})

    def __init__(self, *, num_passes: int = 10, dropout: float | None = None, seed: int = 0) -> None:
        super().__init__()
        check_in_range("num_passes", num_passes, low=2, high=10_000, reason="each takes a prediction", suggestion=10)
        if dropout is not None:
            check_in_range("dropout", dropout, low=0, high=1, suggestion=0.5)
        self.num_passes, self.dropout, self.seed = num_passes, dropout, seed

    def refine(self, posterior: Posterior, model: Any, graph: Graph) -> Samples:
        prepared, was_training, dropout = model.prepare(graph), model.training, model.encoder.dropout
        model.encoder.dropout = dropout if self.dropout is None else self.dropout
        model.train()
        try:
            with torch.no_grad(), seeded(self.seed):
                passes = [model(prepared).log_mean for _ in range(self.num_passes)]
        finally:
            model.train(was_training)
            model.encoder.dropout = dropout
        return Samples(torch.stack(passes))
