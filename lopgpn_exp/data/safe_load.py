"""Read files of unknown origin safely: no code is executed, indices are checked, errors name the file."""

import lzma
import pickle
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch

from lopgpn_exp.errors import InputError

# What numpy, torch, PyG and OGB raise for a damaged file.
READ_ERRORS: tuple[type[Exception], ...] = (
    *(OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, EOFError, MemoryError),
    *(ArithmeticError, AssertionError, SyntaxError, tokenize.TokenError),  # the last two: headers of numpy's arrays
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, pickle.UnpicklingError),
)
MAX_MESSAGE = 500  # characters: a name in a damaged file can have millions


@contextmanager
def allow_pyg_data() -> Iterator[None]:
    """Allow `torch.load(weights_only=True)` to load PyG `Data` objects inside the context.

    PyG allows some of these classes for the whole process. torch's context manager would revoke them on exit, so it is
    given only the classes that are not allowed yet.
    """
    from torch_geometric.data.data import Data, DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import BaseStorage, EdgeStorage, GlobalStorage, NodeStorage

    parts = [Data, DataEdgeAttr, DataTensorAttr, BaseStorage, GlobalStorage, NodeStorage, EdgeStorage]
    already_allowed = torch.serialization.get_safe_globals()
    with torch.serialization.safe_globals([part for part in parts if part not in already_allowed]):
        yield


def check_archive(arrays: Mapping[str, np.ndarray]) -> None:
    """Raise a ValueError if the sparse matrices or labels of PyG's npz layout are invalid.

    scipy and PyG do not check indices: with one out of range, they read memory outside of the array.
    """
    _get_integers(arrays, "labels")
    num_nodes, num_features = _get_integers(arrays, "attr_shape").tolist()
    if min(num_nodes, num_features) < 0:
        raise ValueError(f"the feature matrix is {num_nodes} x {num_features}")
    if _get_integers(arrays, "adj_shape").tolist() != [num_nodes, num_nodes]:
        raise ValueError(f"the adjacency matrix is {tuple(arrays['adj_shape'])} for {num_nodes} nodes")
    for kind, num_columns in (("attr", num_features), ("adj", num_nodes)):
        indices, pointers = (_get_integers(arrays, f"{kind}_{part}") for part in ("indices", "indptr"))
        if len(pointers) != num_nodes + 1 or pointers[0] != 0 or (pointers[1:] < pointers[:-1]).any():
            raise ValueError(f"{kind}_indptr does not describe {num_nodes} rows")
        if pointers[-1] != len(indices) or arrays[f"{kind}_data"].shape != indices.shape:
            raise ValueError(f"{kind} has {len(indices)} indices, {pointers[-1]} according to {kind}_indptr")
        if len(indices) and not (indices.min() >= 0 and indices.max() < num_columns):
            raise ValueError(
                f"{kind}_indices range from {indices.min()} to {indices.max()}, with {num_columns} columns"
            )


def _get_integers(arrays: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    array = arrays[name]
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise ValueError(f"{name} are {array.dtype} of shape {array.shape}, not a vector of integers")
    return array


@contextmanager
def wrap_read_errors(
    path: object, *, expected: str, parameter: str = "path", errors: tuple[type[Exception], ...] = READ_ERRORS
) -> Iterator[None]:
    """Turn the `errors` of a parser into an `InputError` about the file, which the argument `parameter` named.

    Args:
        path: of the file, or the name of something else that is read.
    """
    try:
        yield
    except InputError as error:
        what = error.what if len(error.what) <= MAX_MESSAGE else f"{error.what[:MAX_MESSAGE]}..."
        raise error.with_hint(error.hint, what=f"{path}: {what}") from None
    except FileNotFoundError:
        raise InputError(
            f"there is no file {path}", expected=expected, parameter=parameter, suggestion="FILE"
        ) from None
    except errors as error:
        detail = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise InputError(
            f"{path} cannot be read ({detail})",
            expected=f"a complete file: {expected}",
            hint="write the file again and check that it can be opened where it was written",
        ) from None
