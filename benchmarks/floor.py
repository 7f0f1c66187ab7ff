"""What an epoch cannot do without, measured on this machine: its matrix products and one pass over the flow's elements.

- The products are those of the project's own training, on the same matrices, alone: first and second layer, dispersion
  or pooling; forward and backward on the training side, forward for validation. Where both are on the same features,
  the first layer's forward product is counted once, as it is done once.
- The flow's elements are nodes x classes x layers x dim floats; forward, backward and validation pass over them once
  each, at the bandwidth with which this machine copies memory.

Activations, dropout, digamma functions, the optimiser, Lightning: none of it is in the floor.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from lopgpn_exp.graph import Matrix

COPIED = 2**26  # floats, 256 MiB: beyond any cache but the largest


def bandwidth() -> float:
    """Bytes a second, read and written, of copying a large array: best of five."""
    source, target = torch.ones(COPIED), torch.empty(COPIED)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        target.copy_(source)
        times.append(time.perf_counter() - start)
    return 2 * 4 * COPIED / min(times)


def floor(model: Any, train: Any, val: Any, stream: float) -> Callable[[], float]:
    """A function that carries out the products of one epoch and returns the floor in seconds."""
    hidden, latent = model.encoder.hidden, model.encoder.latent
    products: list[Callable[[], Any]] = []
    elements = 0
    flow = getattr(model, "flow", None)
    for prepared, trained in ((train, True), (val, False)):
        rows = prepared.features.shape[0]
        if trained or prepared.features is not train.features:
            products += _product(prepared.features, hidden.weight.detach().T, trained)
        inner = torch.randn(rows, latent.in_features)
        outer = torch.randn(rows, latent.out_features)
        products.append(lambda x=inner: x @ latent.weight.detach().T)
        if trained:
            products += [lambda x=inner, y=outer: y.T @ x, lambda y=outer: y @ latent.weight.detach()]
        if flow is not None:
            layers, classes, dim = flow.center.shape
            elements += (2 if trained else 1) * rows * classes * layers * dim
        columns = flow.center.shape[1] if flow is not None else latent.out_features
        values = torch.randn(rows, columns)
        if hasattr(prepared, "weights"):
            products += _product(prepared.weights, values, trained)
            if trained:  # the entropy's column
                products += _product(prepared.weights, values[:, :1].contiguous(), trained)
        else:
            products.append(lambda x=values, d=prepared.disperse: d.apply(x))
            if trained:
                products.append(lambda x=values, d=prepared.disperse: d.apply(x, transposed=True))

    def measure() -> float:
        start = time.perf_counter()
        for product in products:
            product()
        return time.perf_counter() - start + 4 * elements / stream

    return measure


def _product(matrix: Matrix, right: torch.Tensor, trained: bool) -> list[Callable[[], Any]]:
    """Forward, and for a training the product with the transpose."""
    upstream = torch.randn(matrix.shape[0], right.shape[1])
    both: list[Callable[[], Any]] = [lambda: matrix.product(right), lambda: matrix.transposed_product(upstream)]
    return both if trained else both[:1]
