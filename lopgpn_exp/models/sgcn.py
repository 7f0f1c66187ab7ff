"""GKDE-GCN: an evidential GCN that learns from kernel density estimates and from a trained GCN."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lopgpn_exp.errors import check_in_range
from lopgpn_exp.graph import Graph
from lopgpn_exp.models.base import FitData, GradientModel
from lopgpn_exp.models.evidential import logits_to_alpha
from lopgpn_exp.models.gkde import GKDE
from lopgpn_exp.models.layers import EncoderKind, build_encoder
from lopgpn_exp.posterior import EvidentialDirichlet


class SGCNPosterior(EvidentialDirichlet):
    """The Dirichlet distributions of some nodes, and those of all nodes, which the loss needs in training."""

    def __init__(
        self, alpha: Float[Tensor, "nodes classes"], everywhere: Float[Tensor, "all classes"] | None = None
    ) -> None:
        super().__init__(alpha)
        self.everywhere = everywhere


class SGCN(GradientModel):
    r"""A GCN with :math:`\alpha = 1 + e^l`, drawn towards two teachers. Source: Zhao et al. (2020).

    The loss is a sum over training nodes of the expected squared error, plus sums over all nodes v:

    .. math:: \sum_{t} \sum_c \Big[(y_{tc} - p_{tc})^2 + \frac{p_{tc} (1 - p_{tc})}{\alpha_{t0} + 1}\Big]
        + \lambda_1 \sum_v \mathrm{KL}(\mathrm{Dir}(\alpha_v) \,\|\, \mathrm{Dir}(\alpha^{GKDE}_v))
        + \lambda_2 \sum_v \mathrm{KL}(p_v \,\|\, p^{GCN}_v)

    - :math:`p`: the mean of Dir(alpha).
    - :math:`\lambda_1`: `prior_weight`; :math:`\lambda_2`: min(1, epoch / `teacher_epochs`).
    - :math:`p^{GCN}`: the predictions of a trained GCN, the model's `teacher`.

    Args:
        encoder, hidden_dim, dropout, heads: see `Classifier`.
        max_hops: see `GKDE`.

    Deviation: three sums, as in the public code of GPN. The original takes means, and its second divergence is also
    divided by the number of classes. It draws 100 dropout masks at test time; here there is no dropout then.
    """

    needs_teacher: ClassVar[bool] = True

    def __init__(
        self,
        *,
        num_features: int,
        num_classes: int,
        encoder: EncoderKind = "gcn",
        hidden_dim: int = 16,
        dropout: float = 0.5,
        heads: int = 8,
        prior_weight: float = 1e-3,
        teacher_epochs: int = 200,
        max_hops: int = 10,
    ) -> None:
        super().__init__()
        check_in_range("prior_weight", prior_weight, low=0, suggestion=1e-3)
        check_in_range("teacher_epochs", teacher_epochs, low=1, high=10**6, reason="a training ends", suggestion=200)
        self.encoder = build_encoder(encoder, num_features, hidden_dim, num_classes, dropout=dropout, heads=heads)
        self.gkde = GKDE(num_features=num_features, num_classes=num_classes, max_hops=max_hops)
        self.prior_weight, self.teacher_epochs = prior_weight, teacher_epochs
        self._epoch = 0
        self._prior: Tensor | None = None
        self._log_teacher: Tensor | None = None

    def observe_data(self, data: FitData) -> None:
        """Compute what the two teachers say about every node."""
        self._epoch = 0
        self._prior = self.gkde.fit_nodes(data)["alpha"]
        (teacher,) = data.parts
        self._log_teacher = teacher.predict(data.graph, cache_dir=data.cache_dir).log_mean.detach()

    def prepare(
        self, graph: Graph, *, nodes: Int[Tensor, " chosen"] | None = None, cache_dir: Path | None = None
    ) -> tuple[Any, Int[Tensor, " chosen"] | None]:
        return self.encoder.prepare(graph), nodes

    def forward(self, prepared: tuple[Any, Int[Tensor, " chosen"] | None]) -> SGCNPosterior:
        features, nodes = prepared
        alpha = logits_to_alpha(self.encoder(features))
        return SGCNPosterior(alpha if nodes is None else alpha[nodes], alpha)

    def node_loss(self, posterior: SGCNPosterior, labels: Int[Tensor, " nodes"]) -> Float[Tensor, " nodes"]:
        """Return the expected squared error of each node plus its share of the terms over all nodes."""
        mean = posterior.mean
        target = torch.nn.functional.one_hot(labels, mean.shape[1])
        variance = mean * (1 - mean) / (posterior.alpha_0 + 1)[:, None]
        squared_error = ((target - mean) ** 2 + variance).sum(dim=-1)
        return squared_error + self._teacher_loss(posterior) / len(labels)

    def _teacher_loss(self, posterior: SGCNPosterior) -> Float[Tensor, ""]:
        if self._prior is None or self._log_teacher is None or posterior.everywhere is None:
            return posterior.alpha.new_zeros(())  # a model from a checkpoint, which is not trained
        if self.training:
            self._epoch += 1
        everywhere = EvidentialDirichlet(posterior.everywhere)
        from_prior = everywhere.divergence_from(self._prior.to(posterior.alpha.device)).sum()
        mean = everywhere.mean
        log_teacher = self._log_teacher.to(mean.device)
        from_teacher = (torch.xlogy(mean, mean) - mean * log_teacher).sum()
        return self.prior_weight * from_prior + min(1.0, self._epoch / self.teacher_epochs) * from_teacher
