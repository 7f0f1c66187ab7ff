"""Bias, ReLU and dropout in one pass, for float32 on a CPU.

torch draws the random numbers of dropout sequentially, which takes longer than the preceding matrix product. Here the
random number of an element is a hash of its position and a seed (SplitMix64: Steele, Lea and Flood, 2014), so that all
can be drawn in parallel. The seed comes from torch's generator, so `torch.manual_seed` works as usual.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from lopgpn_exp.graph.compilation import compile_fast_kernel, run_in_blocks

TASK = 4096  # rows per task of a thread
GAMMA, FIRST, SECOND = (np.uint64(x) for x in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
S27, S30, S31, S32 = (np.uint64(x) for x in (27, 30, 31, 32))
ZERO = np.float32(0)


class ReluDropout(torch.autograd.Function):
    """Compute dropout(relu(values + bias)) with scaling, as in torch. Overwrites `values`."""

    @staticmethod
    def forward(
        ctx: Any, values: Float[Tensor, "rows width"], bias: Float[Tensor, " width"], dropout: float
    ) -> Float[Tensor, "rows width"]:
        seed = np.uint64(torch.randint(2**63 - 1, ()).item()) if dropout > 0 else np.uint64(0)
        threshold = np.uint64(round(dropout * 2**32))
        scale = np.float32(1 / (1 - dropout) if dropout < 1 else 0)
        ctx.mark_dirty(values)
        arrays = [tensor.detach().numpy() for tensor in (values, bias)]
        run_in_blocks(
            lambda _, start, stop: _relu_dropout(*arrays, seed, threshold, scale, start, stop),
            values.shape[0],
            size=TASK,
        )
        ctx.save_for_backward(values)
        ctx.scale = scale
        return values

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        (result,) = ctx.saved_tensors
        d_values = torch.empty_like(result)
        arrays = [tensor.numpy() for tensor in (grads[0].contiguous(), result, d_values)]
        run_in_blocks(lambda _, start, stop: _gradient(*arrays, ctx.scale, start, stop), result.shape[0], size=TASK)
        return d_values, d_values.sum(dim=0), None


@compile_fast_kernel
def _relu_dropout(values, bias, seed, threshold, scale, start, stop):  # type: ignore[no-untyped-def]
    width = values.shape[1]
    for i in range(start, stop):
        row_start = seed + GAMMA * np.uint64(i * width)
        for j in range(width):
            x = row_start + GAMMA * np.uint64(j)
            x = (x ^ (x >> S30)) * FIRST
            x = (x ^ (x >> S27)) * SECOND
            x ^= x >> S31
            value = values[i, j] + bias[j]
            is_zero = value <= ZERO or (x >> S32) < threshold  # false for NaN, which must stay visible
            values[i, j] = ZERO if is_zero else value * scale


@compile_fast_kernel
def _gradient(upstream, result, d_values, scale, start, stop):  # type: ignore[no-untyped-def]
    """Compute the gradient; elements that were kept are those that are not zero."""
    for i in range(start, stop):
        for j in range(result.shape[1]):
            d_values[i, j] = ZERO if result[i, j] == ZERO else upstream[i, j] * scale
