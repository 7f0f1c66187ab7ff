r"""The terms of the loss of Dirichlet distributions, and their gradient, for float32 on a CPU.

Autograd takes about a hundred operations on small tensors for them, which take longer than the rest of the epoch on a
small graph. Here torch computes the special functions, and compiled kernels do the arithmetic in one pass, in the order
in which autograd does it: values and gradients are equal to the bit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from lopgpn_exp.graph.compilation import compile_kernel
from lopgpn_exp.posterior.special import LAST_DIVISOR, SERIES_COEFFICIENTS, SERIES_FROM

HALF, ZERO, ONE = (np.float32(value) for value in (0.5, 0, 1))
LIMIT = np.float32(SERIES_FROM)
CONSTANT = np.float32(0.5 * (1 + math.log(2 * math.pi)))
COEFFICIENTS, DIVISOR = np.array(SERIES_COEFFICIENTS, dtype=np.float32), np.float32(LAST_DIVISOR)


class DirichletLossTerms(torch.autograd.Function):
    r"""Compute :math:`\psi(\alpha_0) - \psi(\alpha_k)` of each class k, and the entropy."""

    @staticmethod
    def forward(
        ctx: Any, alpha: Float[Tensor, "nodes classes"]
    ) -> tuple[Float[Tensor, "nodes classes"], Float[Tensor, " nodes"]]:
        alpha = alpha.contiguous()
        alpha_0 = alpha.sum(dim=-1)
        digamma, digamma_0 = torch.digamma(alpha), torch.digamma(alpha_0)
        core, core_0 = _compute_core(alpha, digamma), _compute_core(alpha_0, digamma_0)
        ctx.save_for_backward(alpha, alpha_0, digamma, digamma_0)
        entropy = core.sum(dim=-1) - core_0 - (alpha.shape[1] - 1) * digamma_0
        return digamma_0[:, None] - digamma, entropy

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        alpha, alpha_0, digamma, digamma_0 = ctx.saved_tensors
        d_gaps, d_entropy = grads
        trigamma, trigamma_0 = torch.polygamma(1, alpha), torch.polygamma(1, alpha_0)
        tensors = (d_gaps.contiguous(), d_gaps.sum(dim=1), d_entropy.contiguous())
        result = torch.empty_like(alpha)
        arrays = [t.numpy() for t in (alpha, alpha_0, digamma, digamma_0, trigamma, trigamma_0, *tensors, result)]
        _gradient(*arrays)
        return result


def _compute_core(x: Tensor, digamma: Tensor) -> Tensor:
    """Return the `entropy_core` of x."""
    result = torch.empty_like(x)
    arrays = [tensor.view(-1).numpy() for tensor in (x, digamma, torch.lgamma(x), torch.log(x), result)]
    _core(*arrays)
    return result


@compile_kernel
def _core(x, digamma, lgamma, log, result):  # type: ignore[no-untyped-def]
    for i in range(len(x)):
        if x[i] > LIMIT:
            y = ONE / x[i]
            series = y / DIVISOR
            for k in range(len(COEFFICIENTS) - 1, -1, -1):
                series = y * (COEFFICIENTS[k] + series)
            result[i] = HALF * log[i] + CONSTANT + series
        else:
            result[i] = lgamma[i] - (x[i] - ONE) * digamma[i] + x[i]


@compile_kernel
def _core_gradient(x, digamma, trigamma, upstream):  # type: ignore[no-untyped-def]
    """Return the gradient of one element."""
    if x > LIMIT:
        y = ONE / x
        values = np.empty(len(COEFFICIENTS) + 1, dtype=np.float32)
        values[-1] = y / DIVISOR
        for k in range(len(COEFFICIENTS) - 1, -1, -1):
            values[k] = y * (COEFFICIENTS[k] + values[k + 1])
        d_y, outer = ZERO, upstream
        for k in range(len(COEFFICIENTS)):
            d_y += outer * (COEFFICIENTS[k] + values[k + 1])
            outer = outer * y
        d_y += outer / DIVISOR
        return upstream * HALF / x + -d_y * (y * y)
    return upstream + (-upstream * (x - ONE)) * trigamma + -upstream * digamma + upstream * digamma


@compile_kernel
def _gradient(  # type: ignore[no-untyped-def]
    alpha, alpha_0, digamma, digamma_0, trigamma, trigamma_0, d_gaps, d_gap_sums, d_entropy, result
):
    classes = alpha.shape[1]
    for i in range(len(alpha)):
        upstream = d_entropy[i]
        d_total = _core_gradient(alpha_0[i], digamma_0[i], trigamma_0[i], -upstream)
        d_total += -upstream * np.float32(classes - 1) * trigamma_0[i]
        from_gaps = d_gap_sums[i] * trigamma_0[i]
        for k in range(classes):
            d_core = _core_gradient(alpha[i, k], digamma[i, k], trigamma[i, k], upstream)
            result[i, k] = d_core + d_total + -d_gaps[i, k] * trigamma[i, k] + from_gaps
