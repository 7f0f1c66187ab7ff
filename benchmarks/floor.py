"""The floor: what an epoch cannot do without, measured on this machine.

- Matrix products: those of the project's own training, on the same matrices and nothing else: first and second layer,
  dispersion or pooling; forward and backward for training, forward for validation. If both use the same features, the
  forward product of the first layer is counted once, as it is computed once.
- Elements of the flow: nodes x classes x layers x dim floats. Forward, backward and validation read and write each of
  them once, at the bandwidth with which this machine copies memory.

Activations, dropout, digamma functions, the optimiser and Lightning are not included.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from lopgpn_exp.graph import Matrix

NUM_COPIED = 2**26  # floats, 256 MiB: larger than nearly all caches


def measure_bandwidth() -> float:
    """Return the bytes per second, read and written, of copying a large array: the best of five."""
    source, target = torch.ones(NUM_COPIED), torch.empty(NUM_COPIED)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        target.copy_(source)
        times.append(time.perf_counter() - start)
    return 2 * 4 * NUM_COPIED / min(times)


def build_floor(model: Any, train: Any, val: Any, bandwidth: float) -> Callable[[], float]:
    """Return a function that computes the products of one epoch and returns the floor in seconds."""
    hidden, latent = model.encoder.hidden, model.encoder.latent
    products: list[Callable[[], Any]] = []
    num_elements = 0
    flow = getattr(model, "flow", None)
    for prepared, is_training in ((train, True), (val, False)):
        rows = prepared.features.shape[0]
        if is_training or prepared.features is not train.features:
            products += _build_products(prepared.features, hidden.weight.detach().T, is_training)
        inner = torch.randn(rows, latent.in_features)
        outer = torch.randn(rows, latent.out_features)
        products.append(lambda x=inner: x @ latent.weight.detach().T)
        if is_training:
            products += [lambda x=inner, y=outer: y.T @ x, lambda y=outer: y @ latent.weight.detach()]
        if flow is not None:
            layers, classes, dim = flow.center.shape
            num_elements += (2 if is_training else 1) * rows * classes * layers * dim
        columns = flow.center.shape[1] if flow is not None else latent.out_features
        values = torch.randn(rows, columns)
        if hasattr(prepared, "weights"):
            products += _build_products(prepared.weights, values, is_training)
            if is_training:  # the column of the entropy
                products += _build_products(prepared.weights, values[:, :1].contiguous(), is_training)
        else:
            products.append(lambda x=values, d=prepared.disperse: d.apply(x))
            if is_training:
                upstream = torch.randn(len(prepared.disperse.nodes), columns)
                products.append(lambda x=upstream, d=prepared.disperse: d.apply_transposed(x))

    def measure() -> float:
        start = time.perf_counter()
        for product in products:
            product()
        return time.perf_counter() - start + 4 * num_elements / bandwidth

    return measure


def _build_products(matrix: Matrix, right: torch.Tensor, is_training: bool) -> list[Callable[[], Any]]:
    """Return the forward product, and for training also the product with the transpose."""
    upstream = torch.randn(matrix.shape[0], right.shape[1])
    both: list[Callable[[], Any]] = [lambda: matrix.product(right), lambda: matrix.transposed_product(upstream)]
    return both if is_training else both[:1]
