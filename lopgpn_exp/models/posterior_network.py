"""The part that GPN and LOP-GPN share: features to Dirichlet parameters, node by node."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from lopgpn_exp.graph import Matrix
from lopgpn_exp.models.base import GradientModel, check_in_range
from lopgpn_exp.models.density import FlowKind, class_densities
from lopgpn_exp.models.encoder import Encoder

# Log-evidence is kept within this range: exp(30) is 1e13, beyond which float32 pseudo-counts stop adding up.
LOG_EVIDENCE_LIMIT = 30.0


class PosteriorNetwork(GradientModel):
    r"""A posterior network without a graph. Paper: Eq. (8).

    .. math:: \alpha^{ft}_c = 1 + \exp(\log q(z, c) + \tfrac d2 \log 4\pi)

    Args:
        latent_dim: d, dimension of the latent space.
        flow: which normalising flow estimates q(z | c).
        flow_layers: its depth.
        entropy_weight: weight of the entropy regulariser.

    Deviation: the certainty budget N of Eq. (8) is :math:`(4\pi)^{d/2}`, as in the public code.
    """

    def __init__(
        self,
        *,
        num_features: int,
        num_classes: int,
        hidden_dim: int = 64,
        latent_dim: int = 16,
        dropout: float = 0.5,
        flow: FlowKind = "radial",
        flow_layers: int = 10,
        entropy_weight: float = 1e-4,
    ) -> None:
        super().__init__()
        check_in_range("latent_dim", latent_dim, low=1, hint="16")
        check_in_range("entropy_weight", entropy_weight, low=0, hint="1e-4")
        self.encoder = Encoder(num_features, hidden_dim, latent_dim, dropout=dropout)
        self.flow = class_densities(flow, num_classes=num_classes, dim=latent_dim, num_layers=flow_layers)
        self.log_budget = 0.5 * latent_dim * math.log(4 * math.pi)
        self.entropy_weight = entropy_weight
        self.register_buffer("log_class_prior", torch.full((num_classes,), -math.log(num_classes)))

    log_class_prior: Tensor

    def observe(self, train_labels: Int[Tensor, " train"]) -> None:
        """The class prior is the training nodes' class frequencies."""
        counts = torch.bincount(train_labels, minlength=self.log_class_prior.shape[0]).float()
        self.log_class_prior.copy_(torch.log(counts / counts.sum()))

    def feature_evidence(self, features: Matrix) -> Float[Tensor, "nodes classes"]:
        """beta_ft = alpha_ft - 1 of each node, from its own features alone."""
        log_joint = self.flow(self.encoder(features)) + self.log_class_prior
        return (log_joint + self.log_budget).clamp(-LOG_EVIDENCE_LIMIT, LOG_EVIDENCE_LIMIT).exp()

    def undecayed_parameters(self) -> list[nn.Parameter]:
        return list(self.flow.parameters())

    def warmup_parameters(self) -> list[nn.Parameter]:
        return list(self.flow.parameters())
