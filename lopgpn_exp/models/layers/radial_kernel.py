r"""Log-densities of the radial flow and their gradient in one pass over the nodes, for float32 on a CPU.

A loop over layers in torch reads and writes [nodes, classes, dim] tensors a hundred times per epoch and stores them all
for the gradient. Here a block of nodes passes through all layers of a class while it is in the processor's cache, and
the backward pass recomputes the forward pass instead of storing it.

With u = z - z0 and r = |u| a layer is z' = z0 + (1 + bh) u. With h = 1/(a + r), a = softplus(a'), s = softplus(b') and
b = s - a, the two factors of the determinant are

.. math:: 1 + bh = (s + r) h, \qquad 1 + bh - bh^2 r = (2ar + r^2 + as) h^2.

Both are sums of positive numbers: no digits cancel, and the factors of several layers can be multiplied before the
logarithm is taken.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from lopgpn_exp.graph.compilation import compile_fast_kernel, run_in_blocks

# Nodes that pass through the layers together: they fill vector registers, and their layers fit into the L2 cache.
LANES = 64
# Nodes per task of a thread; each task has its own sums of parameter gradients.
TASK = 16 * LANES
# Factors that are multiplied before a logarithm is taken: in float64 this many factors of 1e-19 do not underflow.
FACTORS = 16
LOG_2PI = math.log(2 * math.pi)

ZERO, ONE, TWO = (np.float32(value) for value in (0, 1, 2))  # a plain 1.0 would promote everything to float64


class RadialLogDensity(torch.autograd.Function):
    """Compute log q(z | c) from points z, centres z0, and the softplus of alpha and beta (a and s)."""

    @staticmethod
    def forward(
        ctx: Any,
        latent: Float[Tensor, "nodes dim"],
        center: Float[Tensor, "layers classes dim"],
        a: Float[Tensor, "layers classes"],
        s: Float[Tensor, "layers classes"],
    ) -> Float[Tensor, "nodes classes"]:
        points = latent.contiguous()
        ctx.save_for_backward(points, center, a, s)
        result = latent.new_empty(latent.shape[0], center.shape[1])
        arrays = [tensor.detach().numpy() for tensor in (points, center, a, s, result)]
        run_in_blocks(lambda _, start, stop: _log_density(*arrays, start, stop), latent.shape[0], size=TASK)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        inputs = ctx.saved_tensors
        points, center, a, _ = inputs
        num_tasks = -(-points.shape[0] // TASK)
        d_points = points.new_empty(points.shape[1], points.shape[0])
        d_center, d_a, d_s = (torch.zeros(num_tasks, *like.shape, dtype=torch.float64) for like in (center, a, a))
        arrays = [tensor.detach().numpy() for tensor in (*inputs, grads[0].contiguous(), d_points)]
        sums = [total.numpy() for total in (d_center, d_a, d_s)]
        run_in_blocks(
            lambda task, start, stop: _gradient(*arrays, *(total[task] for total in sums), start, stop),
            points.shape[0],
            size=TASK,
        )
        return d_points.T, *(total.sum(dim=0).to(center.dtype) for total in (d_center, d_a, d_s))


@compile_fast_kernel
def _log_density(points, center, a, s, result, start, stop):  # type: ignore[no-untyped-def]
    dim = points.shape[1]
    layers, classes = a.shape
    coordinates = np.zeros((dim, LANES), dtype=np.float32)  # of the points, those of many nodes next to each other
    offset = np.zeros((dim, LANES), dtype=np.float32)  # of the points from the centre of the current layer
    squares, next_squares = np.empty(LANES, dtype=np.float32), np.empty(LANES, dtype=np.float32)
    bh = np.empty(LANES, dtype=np.float32)
    tangential, radial = np.empty(LANES), np.empty(LANES)  # products of the two factors of the determinants
    log_det = np.empty(LANES)
    for first in range(start, stop, LANES):
        lanes = min(LANES, stop - first)
        coordinates[:, :lanes] = points[first : first + lanes].T
        for label in range(classes):
            squares[:] = ZERO
            for j in range(dim):
                c = center[0, label, j]
                for i in range(LANES):
                    offset[j, i] = coordinates[j, i] - c
                    squares[i] += offset[j, i] * offset[j, i]
            tangential[:], radial[:], log_det[:] = 1.0, 1.0, 0.0
            for layer in range(layers):
                a_l, s_l = a[layer, label], s[layer, label]
                for i in range(LANES):
                    r = np.sqrt(squares[i])
                    h = ONE / (a_l + r)
                    bh[i] = (s_l - a_l) * h
                    tangential[i] *= (s_l + r) * h
                    radial[i] *= (TWO * a_l * r + squares[i] + a_l * s_l) * h * h
                next_squares[:] = ZERO
                for j in range(dim):  # after the last layer the offset from zero, which is the point itself
                    step = center[layer, label, j] - (center[layer + 1, label, j] if layer + 1 < layers else ZERO)
                    for i in range(LANES):
                        u = offset[j, i] + (bh[i] * offset[j, i] + step)
                        offset[j, i] = u
                        next_squares[i] += u * u
                squares, next_squares = next_squares, squares
                if layer % FACTORS == FACTORS - 1 or layer == layers - 1:
                    for i in range(lanes):
                        log_det[i] += (dim - 1) * math.log(tangential[i]) + math.log(radial[i])
                    tangential[:], radial[:] = 1.0, 1.0
            for i in range(lanes):
                result[first + i, label] = log_det[i] - 0.5 * (squares[i] + dim * LOG_2PI)


@compile_fast_kernel
def _gradient(points, center, a, s, upstream, d_points, d_center, d_a, d_s, start, stop):  # type: ignore[no-untyped-def]
    """Compute the gradient of the sum of `upstream` times the log-densities.

    The gradient of the points is written to `d_points`; those of the parameters are added to the other outputs.
    """
    dim = points.shape[1]
    layers, classes = a.shape
    coordinates = np.zeros((dim, LANES), dtype=np.float32)
    offset = np.zeros((layers + 1, dim, LANES), dtype=np.float32)
    radius, inverse = np.empty((layers, LANES), dtype=np.float32), np.empty((layers, LANES), dtype=np.float32)
    d_point, d_points_sum = np.empty((dim, LANES), dtype=np.float32), np.empty((dim, LANES), dtype=np.float32)
    squares, next_squares = np.empty(LANES, dtype=np.float32), np.empty(LANES, dtype=np.float32)
    bh, d_r_over_r = np.empty(LANES, dtype=np.float32), np.empty(LANES, dtype=np.float32)
    projection, d_value = np.empty(LANES, dtype=np.float32), np.empty(LANES, dtype=np.float32)
    for first in range(start, stop, LANES):
        lanes = min(LANES, stop - first)
        coordinates[:, :lanes] = points[first : first + lanes].T
        d_points_sum[:] = ZERO
        for label in range(classes):
            d_value[:] = ZERO
            for i in range(lanes):
                d_value[i] = upstream[first + i, label]
            squares[:] = ZERO
            for j in range(dim):
                c = center[0, label, j]
                for i in range(LANES):
                    offset[0, j, i] = coordinates[j, i] - c
                    squares[i] += offset[0, j, i] * offset[0, j, i]
            for layer in range(layers):
                a_l, s_l = a[layer, label], s[layer, label]
                for i in range(LANES):
                    r = np.sqrt(squares[i])
                    h = ONE / (a_l + r)
                    radius[layer, i], inverse[layer, i] = r, h
                    bh[i] = (s_l - a_l) * h
                next_squares[:] = ZERO
                for j in range(dim):
                    step = center[layer, label, j] - (center[layer + 1, label, j] if layer + 1 < layers else ZERO)
                    for i in range(LANES):
                        u = offset[layer, j, i] + (bh[i] * offset[layer, j, i] + step)
                        offset[layer + 1, j, i] = u
                        next_squares[i] += u * u
                squares, next_squares = next_squares, squares
            projection[:] = ZERO  # inner product of point gradient and offset in the next layer to process
            for j in range(dim):
                for i in range(LANES):
                    d_point[j, i] = -d_value[i] * offset[layers, j, i]
                    projection[i] += d_point[j, i] * offset[layers - 1, j, i]
            for layer in range(layers - 1, -1, -1):
                a_l, s_l = a[layer, label], s[layer, label]
                b = s_l - a_l
                sum_a, sum_s = ZERO, ZERO
                for i in range(LANES):
                    r, h = radius[layer, i], inverse[layer, i]
                    d_radial = d_value[i] / ((TWO * a_l * r + r * r + a_l * s_l) * h * h)
                    d_bh = projection[i] + d_value[i] * np.float32(dim - 1) / ((s_l + r) * h)
                    d_b = h * d_bh + a_l * h * h * d_radial
                    d_r = -h * h * (b * d_bh + TWO * a_l * b * h * d_radial)
                    sum_a += d_r + b * h * h * d_radial - d_b
                    sum_s += d_b
                    bh[i] = b * h
                    d_r_over_r[i] = d_r / r if r > ZERO else ZERO
                d_a[layer, label] += sum_a
                d_s[layer, label] += sum_s
                previous = max(layer - 1, 0)
                projection[:] = ZERO
                for j in range(dim):
                    total = ZERO
                    for i in range(LANES):
                        change = bh[i] * d_point[j, i] + d_r_over_r[i] * offset[layer, j, i]
                        total += change
                        d_point[j, i] += change
                        projection[i] += d_point[j, i] * offset[previous, j, i]
                    d_center[layer, label, j] -= total
            for j in range(dim):
                for i in range(LANES):
                    d_points_sum[j, i] += d_point[j, i]
        d_points[:, first : first + lanes] = d_points_sum[:, :lanes]
