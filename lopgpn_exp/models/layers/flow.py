"""Class-conditional densities in the latent space: one normalising flow per class."""

from __future__ import annotations

import math
from typing import Any, Literal, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import softplus

from lopgpn_exp.errors import check_parameter

FlowKind = Literal["radial", "normflows_radial", "normflows_planar"]


def build_flow(kind: FlowKind, *, num_classes: int, dim: int, num_layers: int) -> nn.Module:
    """Return a module that maps latent points z to log q(z | c) for each class c."""
    if kind == "radial":
        return RadialFlow(num_classes=num_classes, dim=dim, num_layers=num_layers)
    return NormflowsFlow(kind, num_classes=num_classes, dim=dim, num_layers=num_layers)


class RadialFlow(nn.Module):
    r"""A stack of radial layers for each class, all computed together, with a standard normal base distribution.

    A layer with centre :math:`z_0` maps, with :math:`r = |z - z_0|` and :math:`h = 1/(a + r)`,

    .. math:: z \mapsto z + b h (z - z_0), \qquad
       \log\det = (d-1)\log(1 + bh) + \log(1 + bh - bh^2 r)

    - :math:`a = \mathrm{softplus}(a')` and :math:`b = -a + \mathrm{softplus}(b')`, so that b >= -a and the layer is
      invertible.
    - The layers map from data to base, the direction in which a density is evaluated.

    Unlike the radial flow of normflows, it is batched over classes and initialised as in the paper's public code. In
    float32 on a CPU a compiled kernel computes the same (see `radial_kernel`).
    """

    def __init__(self, *, num_classes: int, dim: int, num_layers: int = 10) -> None:
        super().__init__()
        bound = 1 / math.sqrt(dim)
        self.center = nn.Parameter(torch.empty(num_layers, num_classes, dim).uniform_(-bound, bound))
        self.alpha_raw = nn.Parameter(torch.empty(num_layers, num_classes).uniform_(-bound, bound))
        self.beta_raw = nn.Parameter(torch.empty(num_layers, num_classes).uniform_(-bound, bound))

    def forward(self, latent: Float[Tensor, "nodes dim"]) -> Float[Tensor, "nodes classes"]:
        if latent.device.type == "cpu" and latent.dtype == torch.float32:
            # deferred import: numba is slow to load
            from lopgpn_exp.models.layers.radial_kernel import RadialLogDensity

            return RadialLogDensity.apply(latent, self.center, softplus(self.alpha_raw), softplus(self.beta_raw))
        return self.log_density(latent)

    def log_density(self, latent: Float[Tensor, "nodes dim"]) -> Float[Tensor, "nodes classes"]:
        """Compute the log-densities from the formula, on any device and in any precision."""
        base, log_det = self.transform(latent)
        dim = latent.shape[1]
        return -0.5 * (base.square().sum(dim=-1) + dim * math.log(2 * math.pi)) + log_det

    def transform(
        self, latent: Float[Tensor, "nodes dim"]
    ) -> tuple[Float[Tensor, "nodes classes dim"], Float[Tensor, "nodes classes"]]:
        """Return the images of the points under the flow of each class, and the log-determinants."""
        dim = latent.shape[1]
        a = softplus(self.alpha_raw)
        b = -a + softplus(self.beta_raw)
        points: Tensor = latent[:, None, :]
        log_det: Tensor = latent.new_zeros(())
        for layer in range(self.center.shape[0]):
            offset = points - self.center[layer]
            r = torch.linalg.vector_norm(offset, dim=-1)
            h = 1 / (a[layer] + r)
            bh = b[layer] * h
            points = points + bh[..., None] * offset
            log_det = log_det + (dim - 1) * torch.log1p(bh) + torch.log1p(bh - bh * h * r)
        return points, log_det


class NormflowsFlow(nn.Module):
    """One stack of normflows layers per class; slower than `RadialFlow`, but other kinds of layers are available.

    These layers have no inverse. They are reversed to map from data to base, the only direction that a density needs.
    """

    def __init__(self, kind: FlowKind, *, num_classes: int, dim: int, num_layers: int) -> None:
        super().__init__()
        import normflows as nf

        layers = {"normflows_radial": nf.flows.Radial, "normflows_planar": nf.flows.Planar}
        expected = "one of radial, " + ", ".join(layers)
        check_parameter("flow", repr(kind), kind in layers, expected=expected, suggestion="radial")
        self.flows = nn.ModuleList(
            nf.NormalizingFlow(
                nf.distributions.DiagGaussian(dim, trainable=False),
                [nf.flows.Reverse(layers[kind]((dim,))) for _ in range(num_layers)],
            )
            for _ in range(num_classes)
        )

    def forward(self, latent: Float[Tensor, "nodes dim"]) -> Float[Tensor, "nodes classes"]:
        return torch.stack([cast(Any, flow).log_prob(latent) for flow in self.flows], dim=1)
