"""Scale features to the range that the models expect."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from jaxtyping import Float

from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Legend

Scaling = Literal["standard", "rows", "none"]
Matrix = Float[np.ndarray, "nodes features"]


def normalise_rows(features: torch.Tensor) -> torch.Tensor:
    """Divide each row by its sum; a row of zeros stays zero."""
    sums = features.sum(dim=1, keepdim=True)
    return torch.where(sums == 0, features, features / sums.where(sums != 0, 1.0))


def column_statistics(features: Matrix) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation (1 if constant) of each column, in float64: long sums lose digits."""
    with np.errstate(over="ignore", invalid="ignore"):  # `scale_features` reports values that are not finite
        shift, scale = features.mean(axis=0, dtype=np.float64), features.std(axis=0, dtype=np.float64)
    is_constant = scale <= 1e-12 * np.maximum(np.abs(shift), 1e-300)
    return shift, np.where(is_constant, 1.0, scale)


def scale_features(features: Matrix, legend: Legend) -> torch.Tensor:
    """Return the features in float32, scaled as the legend says; raise an InputError if a value cannot be scaled."""
    _check_finite(features, legend, "is {}")
    if legend.scaling == "rows" and (features < 0).any():
        row, column = map(int, np.argwhere(features < 0)[0])
        raise InputError(
            f"{_describe_cell(row, column, legend)} is {features[row, column]:g}",
            expected="no negative numbers if rows are scaled to sum 1",
            parameter="scaling",
            suggestion="standard",
        )
    if legend.scale is not None and not np.isfinite(legend.scale).all():
        column = int(np.flatnonzero(~np.isfinite(legend.scale))[0])
        raise _value_error(int(np.abs(features[:, column]).argmax()), column, features, legend, "is too large: {}")
    with np.errstate(over="ignore", invalid="ignore"):
        if legend.shift is not None and legend.scale is not None:
            result = ((features - legend.shift) / legend.scale).astype(np.float32)
        else:
            result = features.astype(np.float32)
    _check_finite(result, legend, "is too large: scaled and as a 32-bit number it is {}")
    tensor = torch.from_numpy(np.ascontiguousarray(result))
    return normalise_rows(tensor) if legend.scaling == "rows" else tensor


def _check_finite(features: Matrix, legend: Legend, problem: str) -> None:
    if not np.isfinite(features).all():
        row, column = map(int, np.argwhere(~np.isfinite(features))[0])
        raise _value_error(row, column, features, legend, problem)


def _value_error(row: int, column: int, features: Matrix, legend: Legend, problem: str) -> InputError:
    """Return the error for one value; `problem` is a template such as "is {}"."""
    return InputError(
        f"{_describe_cell(row, column, legend)} " + problem.format(features[row, column]),
        expected="finite numbers that fit into 32 bits: replace the value, or ignore the column",
        parameter="ignore",
        suggestion=[legend.features[column]],
    )


def _describe_cell(row: int, column: int, legend: Legend) -> str:
    return f"{legend.features[column]!r} of node {legend.nodes.tolist()[row]!r}"
