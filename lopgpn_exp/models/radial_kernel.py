r"""The radial flow's densities and their gradient in one pass over the nodes, for float32 on a CPU.

A batched torch loop over layers reads and writes [nodes, classes, dim] tensors a hundred times an epoch and keeps them
all for the gradient. Here a block of nodes goes through all layers of a class while it is in the processor's cache, and
the gradient computes its way forward again rather than remember it. Measured by `make bench`.

With u = z - z0 and r = |u| a layer is z' = z0 + (1 + bh) u. From h = 1/(a + r) and b = s - a (s the other softplus),

.. math:: 1 + bh = (s + r) h, \qquad 1 + bh - bh^2 r = (2ar + r^2 + as) h^2,

sums of positive numbers, so that nothing cancels and the determinants can be multiplied up before the logarithm.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from lopgpn_exp.graph.compiled import compiled_for_speed, in_blocks

# Nodes that go through the layers together: whole vector registers, and all their layers fit the second-level cache.
LANES = 64
# Nodes of a task of one thread; each task sums the gradients of the parameters for itself.
TASK = 16 * LANES
# Determinants multiplied before a logarithm is taken: float64 holds so many factors of 1e-19.
FACTORS = 16
LOG_2PI = math.log(2 * math.pi)

ZERO, ONE, TWO = (np.float32(value) for value in (0, 1, 2))  # a plain 1.0 would make float64 of all


class RadialLogDensity(torch.autograd.Function):
    """log q(z | c) from points z, centres z0, and the softplus of alpha and beta."""

    @staticmethod
    def forward(
        ctx: Any,
        latent: Float[Tensor, "nodes dim"],
        center: Float[Tensor, "layers classes dim"],
        a: Float[Tensor, "layers classes"],
        s: Float[Tensor, "layers classes"],
    ) -> Float[Tensor, "nodes classes"]:
        across = latent.T.contiguous()  # one coordinate of many nodes in a row
        ctx.save_for_backward(across, center, a, s)
        result = latent.new_empty(latent.shape[0], center.shape[1])
        arrays = [tensor.detach().numpy() for tensor in (across, center, a, s, result)]
        in_blocks(lambda _, start, stop: _log_density(*arrays, start, stop), latent.shape[0], size=TASK)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        inputs = ctx.saved_tensors
        across, center, a, _ = inputs
        tasks = -(-across.shape[1] // TASK)
        d_across = torch.empty_like(across)
        d_center, d_a, d_s = (torch.zeros(tasks, *of.shape, dtype=torch.float64) for of in (center, a, a))
        arrays = [tensor.detach().numpy() for tensor in (*inputs, grads[0].contiguous(), d_across)]
        sums = [total.numpy() for total in (d_center, d_a, d_s)]
        in_blocks(
            lambda task, start, stop: _gradient(*arrays, *(total[task] for total in sums), start, stop),
            across.shape[1],
            size=TASK,
        )
        return d_across.T, *(total.sum(dim=0).to(center.dtype) for total in (d_center, d_a, d_s))


@compiled_for_speed
def _log_density(across, center, a, s, result, start, stop):  # type: ignore[no-untyped-def]
    dim = across.shape[0]
    layers, classes = a.shape
    offset = np.zeros((dim, LANES), dtype=np.float32)  # of the points from the centre of the layer that is next
    squares, following = np.empty(LANES, dtype=np.float32), np.empty(LANES, dtype=np.float32)
    pull = np.empty(LANES, dtype=np.float32)
    stretch, last, log_det = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    for first in range(start, stop, LANES):
        lanes = min(LANES, stop - first)
        for label in range(classes):
            squares[:] = ZERO
            for j in range(dim):
                c = center[0, label, j]
                for i in range(lanes):
                    offset[j, i] = across[j, first + i] - c
                for i in range(LANES):
                    squares[i] += offset[j, i] * offset[j, i]
            stretch[:], last[:], log_det[:] = 1.0, 1.0, 0.0
            for layer in range(layers):
                a_l, s_l = a[layer, label], s[layer, label]
                for i in range(LANES):
                    r = np.sqrt(squares[i])
                    h = ONE / (a_l + r)
                    pull[i] = (s_l - a_l) * h
                    stretch[i] *= (s_l + r) * h
                    last[i] *= (TWO * a_l * r + squares[i] + a_l * s_l) * h * h
                following[:] = ZERO
                for j in range(dim):  # after the last layer: the offset from zero, the point itself
                    step = center[layer, label, j] - (center[layer + 1, label, j] if layer + 1 < layers else ZERO)
                    for i in range(LANES):
                        u = offset[j, i] + (pull[i] * offset[j, i] + step)
                        offset[j, i] = u
                        following[i] += u * u
                squares, following = following, squares
                if layer % FACTORS == FACTORS - 1 or layer == layers - 1:
                    for i in range(lanes):
                        log_det[i] += (dim - 1) * math.log(stretch[i]) + math.log(last[i])
                    stretch[:], last[:] = 1.0, 1.0
            for i in range(lanes):
                result[first + i, label] = log_det[i] - 0.5 * (squares[i] + dim * LOG_2PI)


@compiled_for_speed
def _gradient(across, center, a, s, upstream, d_across, d_center, d_a, d_s, start, stop):  # type: ignore[no-untyped-def]
    """Gradient of the sum of `upstream` times the log-densities; the parameters' parts are added to what is there."""
    dim = across.shape[0]
    layers, classes = a.shape
    offset = np.zeros((layers + 1, dim, LANES), dtype=np.float32)
    radius, inverse = np.empty((layers, LANES), dtype=np.float32), np.empty((layers, LANES), dtype=np.float32)
    d_point, d_sum = np.empty((dim, LANES), dtype=np.float32), np.empty((dim, LANES), dtype=np.float32)
    squares, following = np.empty(LANES, dtype=np.float32), np.empty(LANES, dtype=np.float32)
    pull, push = np.empty(LANES, dtype=np.float32), np.empty(LANES, dtype=np.float32)
    along, d_value = np.empty(LANES, dtype=np.float32), np.empty(LANES, dtype=np.float32)
    for first in range(start, stop, LANES):
        lanes = min(LANES, stop - first)
        d_sum[:] = ZERO
        for label in range(classes):
            d_value[:] = ZERO
            for i in range(lanes):
                d_value[i] = upstream[first + i, label]
            squares[:] = ZERO
            for j in range(dim):
                c = center[0, label, j]
                for i in range(lanes):
                    offset[0, j, i] = across[j, first + i] - c
                for i in range(LANES):
                    squares[i] += offset[0, j, i] * offset[0, j, i]
            for layer in range(layers):
                a_l, s_l = a[layer, label], s[layer, label]
                for i in range(LANES):
                    r = np.sqrt(squares[i])
                    h = ONE / (a_l + r)
                    radius[layer, i], inverse[layer, i] = r, h
                    pull[i] = (s_l - a_l) * h
                following[:] = ZERO
                for j in range(dim):
                    step = center[layer, label, j] - (center[layer + 1, label, j] if layer + 1 < layers else ZERO)
                    for i in range(LANES):
                        u = offset[layer, j, i] + (pull[i] * offset[layer, j, i] + step)
                        offset[layer + 1, j, i] = u
                        following[i] += u * u
                squares, following = following, squares
            along[:] = ZERO  # gradient of the point times the offset, for the layer that is next on the way back
            for j in range(dim):
                for i in range(LANES):
                    d_point[j, i] = -d_value[i] * offset[layers, j, i]
                    along[i] += d_point[j, i] * offset[layers - 1, j, i]
            for layer in range(layers - 1, -1, -1):
                a_l, s_l = a[layer, label], s[layer, label]
                b = s_l - a_l
                sum_a, sum_s = ZERO, ZERO
                for i in range(LANES):
                    r, h = radius[layer, i], inverse[layer, i]
                    d_last = d_value[i] / ((TWO * a_l * r + r * r + a_l * s_l) * h * h)
                    d_pull = along[i] + d_value[i] * np.float32(dim - 1) / ((s_l + r) * h)
                    d_b = h * d_pull + a_l * h * h * d_last
                    d_r = -h * h * (b * d_pull + TWO * a_l * b * h * d_last)
                    sum_a += d_r + b * h * h * d_last - d_b
                    sum_s += d_b
                    pull[i] = b * h
                    push[i] = d_r / r if r > ZERO else ZERO
                d_a[layer, label] += sum_a
                d_s[layer, label] += sum_s
                before = max(layer - 1, 0)
                along[:] = ZERO
                for j in range(dim):
                    total = ZERO
                    for i in range(LANES):
                        change = pull[i] * d_point[j, i] + push[i] * offset[layer, j, i]
                        total += change
                        d_point[j, i] += change
                        along[i] += d_point[j, i] * offset[before, j, i]
                    d_center[layer, label, j] -= total
            for j in range(dim):
                for i in range(LANES):
                    d_sum[j, i] += d_point[j, i]
        d_across[:, first : first + lanes] = d_sum[:, :lanes]
