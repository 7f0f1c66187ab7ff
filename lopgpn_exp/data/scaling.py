"""Scale features to the range that the models expect."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float

from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Legend
from lopgpn_exp.graph.features import from_scipy, is_sparse, locate_entry, sum_rows, to_scipy

Scaling = Literal["auto", "standard", "rows", "none"]
Matrix = Float[np.ndarray, "nodes features"]
RawMatrix: TypeAlias = Matrix | sp.csr_array


def stored_values(features: RawMatrix) -> np.ndarray:
    """Return all values of a dense matrix, and those of a sparse one that are not zero."""
    return features if isinstance(features, np.ndarray) else features.data


def normalise_rows(features: torch.Tensor) -> torch.Tensor:
    """Divide each row by its sum; a row of zeros stays zero."""
    sums = sum_rows(features)
    if not is_sparse(features):
        return torch.where(sums == 0, features, features / sums.where(sums != 0, 1.0))
    matrix = to_scipy(features).copy()
    divisors = np.repeat(sums.where(sums != 0, 1.0).numpy()[:, 0], np.diff(matrix.indptr))
    matrix.data /= divisors
    return from_scipy(matrix)


def column_statistics(features: Matrix) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation (1 if constant) of each column, in float64: long sums lose digits."""
    with np.errstate(over="ignore", invalid="ignore"):  # `scale_features` reports values that are not finite
        shift, scale = features.mean(axis=0, dtype=np.float64), features.std(axis=0, dtype=np.float64)
    is_constant = scale <= 1e-12 * np.maximum(np.abs(shift), 1e-300)
    return shift, np.where(is_constant, 1.0, scale)


def scale_features(features: RawMatrix, legend: Legend) -> torch.Tensor:
    """Return the features in float32, scaled as the legend says; raise an InputError if a value cannot be scaled.

    Features whose columns are standardised must be dense, because zeros do not stay zero. Others stay sparse.
    """
    _check_finite(features, legend, "is {}")
    values = stored_values(features)
    if legend.scaling == "rows" and (values < 0).any():
        row, column, value = _find_first(features, values < 0)
        raise InputError(
            f"{_describe_cell(row, column, legend)} is {value:g}",
            expected="no negative numbers if rows are scaled to sum 1",
            parameter="scaling",
            suggestion="standard",
        )
    if legend.shift is None or legend.scale is None:
        result = _to_float32(features)
    else:
        _check_scale(features, legend, legend.scale)
        with np.errstate(over="ignore", invalid="ignore"):
            result = ((features - legend.shift) / legend.scale).astype(np.float32)
    _check_finite(result, legend, "is too large: scaled and as a 32-bit number it is {}")
    is_dense = isinstance(result, np.ndarray)
    tensor = torch.from_numpy(np.ascontiguousarray(result)) if is_dense else from_scipy(result)
    return normalise_rows(tensor) if legend.scaling == "rows" else tensor


def _to_float32(features: RawMatrix) -> RawMatrix:
    with np.errstate(over="ignore"):
        return features.astype(np.float32)


def _check_scale(features: Matrix, legend: Legend, scale: Float[np.ndarray, " features"]) -> None:
    if not np.isfinite(scale).all():
        column = int(np.flatnonzero(~np.isfinite(scale))[0])
        row = int(np.abs(features[:, column]).argmax())
        raise _value_error(row, column, float(features[row, column]), legend, "is too large: {}")


def _check_finite(features: RawMatrix, legend: Legend, problem: str) -> None:
    is_finite = np.isfinite(stored_values(features))
    if not is_finite.all():
        row, column, value = _find_first(features, ~is_finite)
        raise _value_error(row, column, value, legend, problem)


def _find_first(features: RawMatrix, mask: np.ndarray) -> tuple[int, int, float]:
    """Return row, column and value of the first entry of a mask, which has one element per value or stored entry."""
    position = int(mask.argmax())
    if isinstance(features, np.ndarray):
        row, column = divmod(position, features.shape[1])
    else:
        row, column = locate_entry(features, position)
    return row, column, float(stored_values(features).ravel()[position])


def _value_error(row: int, column: int, value: float, legend: Legend, problem: str) -> InputError:
    """Return the error for one value; `problem` is a template such as "is {}"."""
    return InputError(
        f"{_describe_cell(row, column, legend)} " + problem.format(value),
        expected="finite numbers that fit into 32 bits: replace the value, or ignore the column",
        parameter="ignore",
        suggestion=[legend.features[column]],
    )


def _describe_cell(row: int, column: int, legend: Legend) -> str:
    return f"{legend.features[column]!r} of node {legend.nodes.tolist()[row]!r}"
