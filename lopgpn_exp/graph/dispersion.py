"""Dispersion of node values along the edges: the recursion of APPNP, and the matrix power of the paper."""

from copy import copy
from typing import Any, Literal

import scipy.sparse as sp
import torch
from jaxtyping import Float, Int
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

    The gradient is the same polynomial in the transpose, so no intermediate step is stored. If only the values of some
    nodes are needed (`restrict`), the last step (in the transpose, the first) is computed for these alone.
    """

    def __init__(
        self, operator: sp.csr_array, *, num_steps: int, teleport: float, scheme: Scheme = "recursion"
    ) -> None:
        check_dispersion(num_steps=num_steps, teleport=teleport)
        self.num_steps, self.teleport, self.scheme = num_steps, teleport, scheme
        self.operator = self._last_operator = SparseMatrix(operator)
        self.nodes: Tensor | None = None

    def restrict(self, nodes: Int[Tensor, " chosen"]) -> "Dispersion":
        """Return the dispersion that computes the values of `nodes` alone, which shares the operator."""
        restricted = copy(self)
        restricted.nodes, restricted._last_operator = nodes, self.operator.rows(nodes)
        return restricted

    def __call__(self, values: Float[Tensor, "nodes width"]) -> Float[Tensor, "chosen width"]:
        return _Disperse.apply(values, self)

    def row(self, node: int) -> Float[Tensor, " nodes"]:
        """Return the weight of each node's value in the dispersed value of one node."""
        return self.restrict(torch.tensor([node])).apply_transposed(torch.ones(1, 1))[:, 0]

    def apply(self, values: Float[Tensor, "nodes width"]) -> Float[Tensor, "chosen width"]:
        """Return the polynomial times `values`; autograd does not record it."""
        current = values
        for step in range(1, self.num_steps + 1):
            operator = (self._last_operator if step == self.num_steps else self.operator).csr(values.device)
            base = values if self.scheme == "recursion" else current
            if step == self.num_steps and self.nodes is not None:
                base = base[self.nodes]
            current = torch.mul(base, self.teleport).addmm_(operator, current, alpha=1 - self.teleport)
        return current if self.num_steps or self.nodes is None else values[self.nodes]

    def apply_transposed(self, values: Float[Tensor, "chosen width"]) -> Float[Tensor, "nodes width"]:
        """Return the transpose of the polynomial times `values`; autograd does not record it."""
        start = values if self.nodes is None else _scatter(values, self.nodes, self.operator.shape[0])
        base, current = start, values
        for step in range(1, self.num_steps + 1):
            operator = (self._last_operator if step == 1 else self.operator).csr(values.device, transposed=True)
            if self.scheme == "power" and step > 1:
                base = current
            current = torch.mul(base, self.teleport).addmm_(operator, current, alpha=1 - self.teleport)
        return current if self.num_steps else start


class _Disperse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, dispersion: Dispersion) -> Tensor:
        ctx.dispersion = dispersion
        return dispersion.apply(values)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return ctx.dispersion.apply_transposed(grads[0].contiguous()), None


def _scatter(values: Tensor, nodes: Tensor, num_nodes: int) -> Tensor:
    """Return the values of `nodes` as values of all nodes, zero elsewhere."""
    return values.new_zeros(num_nodes, values.shape[1]).index_add_(0, nodes.to(values.device), values)


def check_dispersion(*, num_steps: int, teleport: float) -> None:
    """Raise an InputError if an option of `Dispersion` is out of range."""
    reason = "each step multiplies by the graph once"
    check_in_range("num_steps", num_steps, low=0, high=10_000, reason=reason, suggestion=10)
    check_parameter("teleport", teleport, 0 < teleport <= 1, expected="more than 0, at most 1", suggestion=0.1)
