"""The posterior network that GPN and LOP-GPN share: from the features of a node to Dirichlet parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from lopgpn_exp.errors import check_in_range, check_parameter
from lopgpn_exp.models.base import GradientModel
from lopgpn_exp.models.layers import EncoderKind, FlowKind, RadialFlow, build_encoder, build_flow
from lopgpn_exp.seeds import PUBLISHED_SEED

# Log-evidence is clamped to +-30: beyond exp(30) = 1e13, sums of pseudo-counts in float32 lose all digits.
LOG_EVIDENCE_LIMIT = 30.0


class PosteriorNetwork(GradientModel):
    r"""A posterior network without the graph. Paper: Eq. (8).

    .. math:: \alpha^{ft}_c = 1 + \exp(\log q(z, c) + \tfrac d2 \log 4\pi)

    Args:
        encoder: from the features of the nodes to the latent space; all but `mlp` also use the edges.
        heads: attention heads of `gat`.
        hidden_dim: width of the hidden layer of the encoder.
        latent_dim: d, the dimension of the latent space.
        dropout: dropout probability of the encoder.
        flow: the normalising flow that estimates q(z | c).
        flow_layers: number of layers of the flow.
        entropy_weight: weight of the entropy regulariser.
        budget: `latent` is the certainty budget below; `latent_and_classes` multiplies it by the number of classes, as
            in the configuration of GPN's own paper for the Amazon graphs.
        published_init: draw the first weights as this initialisation of the public code, counted from 0; by default
            they are random.

    Deviation: the certainty budget N of Eq. (8) is :math:`(4\pi)^{d/2}`, as in the public code.
    """

    added_options: ClassVar[Mapping[str, Any]] = {
        "encoder": "mlp",
        "heads": 8,
        "budget": "latent",
        "published_init": None,
    }
    # Whether graph convolutions of the encoder are between linear layers.
    embeds_convolutions: ClassVar[bool] = False

    def __init__(
        self,
        *,
        num_features: int,
        num_classes: int,
        encoder: EncoderKind = "mlp",
        heads: int = 8,
        hidden_dim: int = 64,
        latent_dim: int = 16,
        dropout: float = 0.5,
        flow: FlowKind = "radial",
        flow_layers: int = 10,
        entropy_weight: float = 1e-4,
        budget: Literal["latent", "latent_and_classes"] = "latent",
        published_init: int | None = None,
    ) -> None:
        super().__init__()
        reason = "every class has a flow on the latent space"
        check_in_range("latent_dim", latent_dim, low=1, high=4096, reason=reason, suggestion=16)
        reason = "layers are applied one after the other, for every class"
        check_in_range("flow_layers", flow_layers, low=1, high=1000, reason=reason, suggestion=10)
        check_in_range("entropy_weight", entropy_weight, low=0, suggestion=1e-4)
        self.encoder = build_encoder(
            encoder,
            num_features,
            hidden_dim,
            latent_dim,
            dropout=dropout,
            heads=heads,
            is_embedded=self.embeds_convolutions,
        )
        self.flow = build_flow(flow, num_classes=num_classes, dim=latent_dim, num_layers=flow_layers)
        self.log_budget = 0.5 * latent_dim * math.log(4 * math.pi)
        self.log_budget += math.log(num_classes) if budget == "latent_and_classes" else 0.0
        self.entropy_weight = entropy_weight
        self.register_buffer("log_class_prior", torch.full((num_classes,), -math.log(num_classes)))
        if published_init is not None:
            reason = "all earlier networks are drawn first"
            check_in_range("published_init", published_init, low=0, high=1000, reason=reason, suggestion=0)
            check_parameter("encoder", encoder, encoder == "mlp", expected="mlp", suggestion="mlp")
            self.draw_published_weights(torch.Generator().manual_seed(PUBLISHED_SEED), count=published_init + 1)

    log_class_prior: Tensor

    @torch.no_grad()
    def draw_published_weights(self, generator: torch.Generator, *, count: int) -> None:
        """Draw the weights in the order of the public code, which builds `count` networks and keeps the last."""
        flow: Any = self.flow
        is_radial = isinstance(flow, RadialFlow)
        check_parameter("flow", type(flow).__name__, is_radial, expected="radial", suggestion="radial")
        for _ in range(count):
            for layer in (self.encoder.hidden, self.encoder.latent):
                bound = layer.in_features**-0.5  # of weights and biases: the default of torch.nn.Linear
                for parameter in (layer.weight, layer.bias):
                    parameter.uniform_(-bound, bound, generator=generator)
            bound = flow.center.shape[-1] ** -0.5
            for parameters in zip(flow.alpha_raw, flow.beta_raw, flow.center, strict=True):
                for parameter in parameters:
                    parameter.uniform_(-bound, bound, generator=generator)

    def observe(self, train_labels: Int[Tensor, " train"]) -> None:
        """Set the class prior to the class frequencies of the training nodes."""
        counts = torch.bincount(train_labels, minlength=self.log_class_prior.shape[0]).float()
        self.log_class_prior.copy_(torch.log(counts / counts.sum()))

    def feature_evidence(self, features: Any) -> Float[Tensor, "nodes classes"]:
        """Return beta_ft = alpha_ft - 1 of each node, from the input of the encoder: with `mlp`, its own features."""
        log_joint = self.flow(self.encoder(features)) + self.log_class_prior
        return (log_joint + self.log_budget).clamp(-LOG_EVIDENCE_LIMIT, LOG_EVIDENCE_LIMIT).exp()

    def undecayed_parameters(self) -> list[nn.Parameter]:
        return list(self.flow.parameters())

    def warmup_parameters(self) -> list[nn.Parameter]:
        return list(self.flow.parameters())
