"""How a user's features are brought to a size that the models are made for."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from jaxtyping import Float

from lopgpn_exp.data.features import row_normalised
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Legend

Scaling = Literal["standard", "rows", "none"]
Matrix = Float[np.ndarray, "nodes features"]


def columns_of(features: Matrix) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each column; a constant one is divided by 1. In float64, whatever the features
    are: sums of large columns."""
    with np.errstate(over="ignore", invalid="ignore"):  # what is then not finite is told by its name
        shift, scale = features.mean(axis=0, dtype=np.float64), features.std(axis=0, dtype=np.float64)
    constant = scale <= 1e-12 * np.maximum(np.abs(shift), 1e-300)
    return shift, np.where(constant, 1.0, scale)


def scaled(features: Matrix, legend: Legend) -> torch.Tensor:
    """Features by the legend's scaling, in float32; what does not fit is named."""
    check_finite(features, legend, "is {}")
    if legend.scaling == "rows" and (features < 0).any():
        row, column = map(int, np.argwhere(features < 0)[0])
        raise InputError(
            f"{legend.features[column]!r} of node {_plain(legend.nodes[row])!r} is {features[row, column]:g}",
            expected="no negative number where rows are made to sum to 1",
            hint="dataset.scaling=standard",
        )
    if legend.scale is not None and not np.isfinite(legend.scale).all():
        column = int(np.flatnonzero(~np.isfinite(legend.scale))[0])
        raise _unfit(int(np.abs(features[:, column]).argmax()), column, features, legend, "is too large: {}")
    with np.errstate(over="ignore", invalid="ignore"):
        if legend.shift is not None and legend.scale is not None:
            found = ((features - legend.shift) / legend.scale).astype(np.float32)
        else:
            found = features.astype(np.float32)
    check_finite(found, legend, "is too large: as a 32-bit number of this scaling it is {}")
    tensor = torch.from_numpy(np.ascontiguousarray(found))
    return row_normalised(tensor) if legend.scaling == "rows" else tensor


def check_finite(features: Matrix, legend: Legend, words: str) -> None:
    if not np.isfinite(features).all():
        row, column = map(int, np.argwhere(~np.isfinite(features))[0])
        raise _unfit(row, column, features, legend, words)


def _unfit(row: int, column: int, features: Matrix, legend: Legend, words: str) -> InputError:
    """`words` say of the value what is wrong with it."""
    return InputError(
        f"{legend.features[column]!r} of node {_plain(legend.nodes[row])!r} " + words.format(features[row, column]),
        expected="finite numbers of a size that 32 bits can hold",
        hint=f"fill or shrink them, or dataset.ignore=[{legend.features[column]}]",
    )


def _plain(node: object) -> object:
    return node.item() if isinstance(node, np.generic) else node
