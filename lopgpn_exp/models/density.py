"""Class-conditional densities of a latent space: one normalising flow a class."""

from __future__ import annotations

import math
from typing import Any, Literal, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import softplus

from lopgpn_exp.errors import InputError
from lopgpn_exp.models.base import check_in_range

FlowKind = Literal["radial", "normflows_radial", "normflows_planar"]


def class_densities(kind: FlowKind, *, num_classes: int, dim: int, num_layers: int) -> nn.Module:
    """A module from latent points to log q(z | c) of each class."""
    check_in_range("flow_layers", num_layers, low=1, hint="10")
    if kind == "radial":
        return RadialFlow(num_classes=num_classes, dim=dim, num_layers=num_layers)
    return NormflowsDensities(kind, num_classes=num_classes, dim=dim, num_layers=num_layers)


class RadialFlow(nn.Module):
    r"""All classes' stacks of radial layers at once, with a standard normal base.

    A layer with centre :math:`z_0` maps, with :math:`r = |z - z_0|` and :math:`h = 1/(a + r)`,

    .. math:: z \mapsto z + b h (z - z_0), \qquad
       \log\det = (d-1)\log(1 + bh) + \log(1 + bh - bh^2 r)

    - :math:`a = \mathrm{softplus}(a')` and :math:`b = -a + \mathrm{softplus}(b')`, so that b >= -a: invertible by
      construction.
    - The layers run from data to base, in the direction in which a density is evaluated.

    Our own rather than normflows': batched over classes, invertible in the direction used, and initialised as the
    paper's model; tested against it. In float32 on a CPU a compiled kernel computes the same (see `radial_kernel`).
    """

    def __init__(self, *, num_classes: int, dim: int, num_layers: int = 10) -> None:
        super().__init__()
        bound = 1 / math.sqrt(dim)
        self.center = nn.Parameter(torch.empty(num_layers, num_classes, dim).uniform_(-bound, bound))
        self.alpha_raw = nn.Parameter(torch.empty(num_layers, num_classes).uniform_(-bound, bound))
        self.beta_raw = nn.Parameter(torch.empty(num_layers, num_classes).uniform_(-bound, bound))

    def forward(self, latent: Float[Tensor, "nodes dim"]) -> Float[Tensor, "nodes classes"]:
        if latent.device.type == "cpu" and latent.dtype == torch.float32:
            from lopgpn_exp.models.radial_kernel import RadialLogDensity  # brings numba

            return RadialLogDensity.apply(latent, self.center, softplus(self.alpha_raw), softplus(self.beta_raw))
        return self.log_density(latent)

    def log_density(self, latent: Float[Tensor, "nodes dim"]) -> Float[Tensor, "nodes classes"]:
        """The formula as it stands, on any device and in any precision."""
        base, log_det = self.transform(latent)
        dim = latent.shape[1]
        return -0.5 * (base.square().sum(dim=-1) + dim * math.log(2 * math.pi)) + log_det

    def transform(
        self, latent: Float[Tensor, "nodes dim"]
    ) -> tuple[Float[Tensor, "nodes classes dim"], Float[Tensor, "nodes classes"]]:
        """Points of the base space and the log-determinants of the way there, for each class's flow."""
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


class NormflowsDensities(nn.Module):
    """One stack of normflows' layers a class, slower than `RadialFlow` and open to its other flows.

    normflows' layers go from base to data without an inverse; reversed, they go from data to base, which is all that
    a density needs.
    """

    def __init__(self, kind: FlowKind, *, num_classes: int, dim: int, num_layers: int) -> None:
        super().__init__()
        import normflows as nf

        makers = {"normflows_radial": nf.flows.Radial, "normflows_planar": nf.flows.Planar}
        if kind not in makers:
            raise InputError(
                f"flow is {kind!r}", expected="one of radial, " + ", ".join(makers), hint="model.flow=radial"
            )
        self.flows = nn.ModuleList(
            nf.NormalizingFlow(
                nf.distributions.DiagGaussian(dim, trainable=False),
                [nf.flows.Reverse(makers[kind]((dim,))) for _ in range(num_layers)],
            )
            for _ in range(num_classes)
        )

    def forward(self, latent: Float[Tensor, "nodes dim"]) -> Float[Tensor, "nodes classes"]:
        return torch.stack([cast(Any, flow).log_prob(latent) for flow in self.flows], dim=1)
