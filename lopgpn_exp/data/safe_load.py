"""Read files of unknown origin safely: no code is executed, indices are checked, errors name the file."""

import pickle
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

from lopgpn_exp.errors import InputError

# What numpy, torch, PyG and OGB raise for a damaged file.
READ_ERRORS: tuple[type[Exception], ...] = (
    *(OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, EOFError, MemoryError),
    *(zipfile.BadZipFile, zlib.error, pickle.UnpicklingError),
)


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


def check_archive(archive: np.lib.npyio.NpzFile) -> None:
    """Raise a ValueError if the sparse matrices or labels of PyG's npz layout are invalid.

    scipy and PyG do not check indices: with one out of range, they read memory outside of the array.
    """
    labels = archive["labels"]
    if not np.issubdtype(labels.dtype, np.integer) or labels.ndim != 1:
        raise ValueError(f"labels are {labels.dtype} of shape {labels.shape}, not a vector of integers")
    num_nodes, num_features = (int(size) for size in archive["attr_shape"])
    if tuple(archive["adj_shape"]) != (num_nodes, num_nodes):
        raise ValueError(f"the adjacency matrix is {tuple(archive['adj_shape'])} for {num_nodes} nodes")
    for kind, num_columns in (("attr", num_features), ("adj", num_nodes)):
        indices, pointers = archive[f"{kind}_indices"], archive[f"{kind}_indptr"]
        if len(pointers) != num_nodes + 1 or pointers[0] != 0 or (np.diff(pointers) < 0).any():
            raise ValueError(f"{kind}_indptr does not describe {num_nodes} rows")
        if pointers[-1] != len(indices) or len(indices) != len(archive[f"{kind}_data"]):
            raise ValueError(f"{kind} has {len(indices)} indices, {pointers[-1]} according to {kind}_indptr")
        if len(indices) and not (indices.min() >= 0 and indices.max() < num_columns):
            raise ValueError(
                f"{kind}_indices range from {indices.min()} to {indices.max()}, with {num_columns} columns"
            )


@contextmanager
def wrap_read_errors(
    path: Path, *, expected: str, parameter: str = "path", errors: tuple[type[Exception], ...] = READ_ERRORS
) -> Iterator[None]:
    """Turn the `errors` of a parser into an `InputError` about the file, which the argument `parameter` named."""
    try:
        yield
    except InputError as error:
        raise error.with_hint(error.hint, what=f"{path}: {error.what}") from None
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
