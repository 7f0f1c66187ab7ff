"""Dispersion of node values along the graph: the APPNP recursion, and the power that the paper writes."""

from typing import Any, Literal

import scipy.sparse as sp
import torch
from jaxtyping import Float
from torch import Tensor

from lopgpn_exp.errors import InputError
from lopgpn_exp.graph.matrix import SparseMatrix

Scheme = Literal["recursion", "power"]


class Dispersion:
    r"""A polynomial of a normalised adjacency, applied to node values.

    - ``recursion``: :math:`Z_0 = H,\ Z_{l+1} = (1-\epsilon) \hat A Z_l + \epsilon H`, the scheme of APPNP.
    - ``power``: :math:`(\epsilon I + (1-\epsilon) \hat A)^L H`, evaluated from right to left. Paper: Eq. (10), (15).

    Deviation: the default is the recursion, with which the published numbers were made; entries differ by up to 0.1.

    As a polynomial in A-hat its gradient is the same polynomial in the transpose: nothing is stored between the steps.
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
        """How much each node's value counts in the dispersed value of one node."""
        chosen = torch.zeros(self.operator.shape[0], 1)
        chosen[node] = 1
        return self.apply(chosen, transposed=True)[:, 0]

    def apply(self, values: Tensor, *, transposed: bool = False) -> Tensor:
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
    if num_steps < 0:
        raise InputError(f"num_steps is {num_steps}", expected="0 or more", hint="model.num_steps=10")
    if not 0 < teleport <= 1:
        raise InputError(f"teleport is {teleport}", expected="more than 0, at most 1", hint="model.teleport=0.1")
