"""Dispersion of node values along the edges: the recursion of APPNP, and the matrix power of the paper."""

from typing import Any, Literal

import scipy.sparse as sp
import torch
from jaxtyping import Float
from torch import Tensor

from lopgpn_exp.errors import check_in_range, check_parameter
from lopgpn_exp.graph.matrix import SparseMatrix

Scheme = Literal["recursion", "power"]


class Dispersion:
    r"""A polynomial of a normalised adjacency matrix, applied to node values.

    - ``recursion``: :math:`Z_0 = H,\ Z_{l+1} = (1-\epsilon) \hat A Z_l + \epsilon H`, the scheme of APPNP.
    - ``power``: :math:`(\epsilon I + (1-\epsilon) \hat A)^L H`, evaluated from right to left. Paper: Eq. (10), (15).
    - :math:`L`: `num_steps`; :math:`\epsilon`: `teleport`, the teleport probability; :math:`\hat A`: `operator`.

    Deviation: the default is the recursion, which produced the published numbers; entries differ by up to 0.1.

    The gradient is the same polynomial in the transpose, so no intermediate step is stored.
    """

    def __init__(
        self, operator: sp.csr_array, *, num_steps: int, teleport: float, scheme: Scheme = "recursion"
    ) -> None:
        check_dispersion(num_steps=num_steps, teleport=teleport)
        self.num_steps, self.teleport, self.scheme = num_steps, teleport, scheme
        self.operator = SparseMatrix(operator)

    def __call__(self, values: Float[Tensor, "nodes width"]) -> Float[Tensor, "nodes width"]:
        return _Disperse.apply(values, self)

    def row(self, node: int) -> Float[Tensor, " nodes"]:
        """Return the weight of each node's value in the dispersed value of one node."""
        one_hot = torch.zeros(self.operator.shape[0], 1)
        one_hot[node] = 1
        return self.apply(one_hot, transposed=True)[:, 0]

    def apply(self, values: Tensor, *, transposed: bool = False) -> Tensor:
        """Return the polynomial, or its transpose, times `values`; autograd does not record it."""
        operator = self.operator.csr(values.device, transposed=transposed)
        current = values
        for _ in range(self.num_steps):
            base = values if self.scheme == "recursion" else current
            current = torch.mul(base, self.teleport).addmm_(operator, current, alpha=1 - self.teleport)
        return current


class _Disperse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, dispersion: Dispersion) -> Tensor:
        ctx.dispersion = dispersion
        return dispersion.apply(values)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return ctx.dispersion.apply(grads[0].contiguous(), transposed=True), None


def check_dispersion(*, num_steps: int, teleport: float) -> None:
    """Raise an InputError if an option of `Dispersion` is out of range."""
    reason = "each step multiplies by the graph once"
    check_in_range("num_steps", num_steps, low=0, high=10_000, reason=reason, suggestion=10)
    check_parameter("teleport", teleport, 0 < teleport <= 1, expected="more than 0, at most 1", suggestion=0.1)
