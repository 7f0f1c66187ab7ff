"""Read a PyG `Data` object, from a file or from memory."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lopgpn_exp.data.files.memory import check_memory, check_num_features, estimate_feature_bytes, estimate_sparse_bytes
from lopgpn_exp.data.files.raw_graph import RawGraph, name_labels
from lopgpn_exp.data.safe_load import allow_pyg_data, wrap_read_errors
from lopgpn_exp.data.scaling import RawMatrix
from lopgpn_exp.data.zip_checks import check_checksums, read_content_size
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Part
from lopgpn_exp.graph.features import compact, to_canonical, to_scipy

MASKS = {"train_mask": Part.TRAIN, "val_mask": Part.VAL, "test_mask": Part.TEST}
MAX_EXPANDED_BYTES = 2**26
INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64)


def read_pyg_file(path: Path, *, memory_limit_gib: float | None) -> RawGraph:
    """Read a file written by `torch.save(data, path)`; only tensors and PyG's containers, which cannot execute code."""
    with wrap_read_errors(path, expected="a .pt file with a PyG Data object"):
        is_zip = zipfile.is_zipfile(path)
        size = read_content_size(path) if is_zip else path.stat().st_size  # mostly features, 4 bytes each
        check_memory(path, f"{size:,} bytes", estimate_feature_bytes(size // 4, 1), limit_gib=memory_limit_gib)
        if is_zip:
            check_checksums(path)
        with warnings.catch_warnings(), allow_pyg_data(), torch.sparse.check_sparse_tensor_invariants():
            warnings.simplefilter("ignore")  # about files that torch did not write, which fail anyway
            data = torch.load(path, map_location="cpu", weights_only=True)
        _check_tensors(path, data, memory_limit_gib)
        return parse_pyg_data(data)


def _check_tensors(path: Path, data: Any, limit_gib: float | None) -> None:
    """Raise an InputError if tensors need far more memory than they have in the file: sparse or expanded ones do."""
    for name in ("x", "edge_index", "y", *MASKS):
        tensor = _get_tensor(data, name)
        if tensor is None:
            continue
        is_dense = tensor.layout is torch.strided
        num_bytes = (
            estimate_feature_bytes(tensor.numel(), 1) if is_dense else estimate_sparse_bytes(len(tensor), tensor._nnz())
        )
        check_memory(path, f"{name} of shape {tuple(tensor.shape)}", num_bytes, limit_gib=limit_gib)
        is_expanded = is_dense and tensor.nbytes > tensor.untyped_storage().nbytes()
        if is_expanded and tensor.nbytes > MAX_EXPANDED_BYTES:
            raise InputError(
                f"{name} of shape {tuple(tensor.shape)} repeats the same few values",
                expected="a tensor with all of its values",
                hint=f"data.{name} = data.{name}.contiguous()",
            )


def parse_pyg_data(data: Any) -> RawGraph:
    """Convert a PyG `Data` object or a dict with `x` and `edge_index`.

    Optional: `y` (-1 or NaN: unknown), `train_mask`, `val_mask`, `test_mask`, `node_id` (strings or integers),
    `class_names` and `feature_names`.
    """
    x, edge_index = (_get_tensor(data, name) for name in ("x", "edge_index"))
    if x is None or edge_index is None:
        raise InputError(
            f"a {type(data).__name__} without {'x' if x is None else 'edge_index'}",
            expected="a PyG Data object, or a dict, with x and edge_index",
        )
    is_edge_list = edge_index.dim() == 2 and edge_index.shape[0] == 2 and edge_index.dtype in INTEGERS
    if x.dim() != 2 or not is_edge_list:
        raise InputError(
            f"x is {tuple(x.shape)} and edge_index {tuple(edge_index.shape)} ({edge_index.dtype})",
            expected="x of shape (nodes, features) and edge_index of shape (2, edges) with integers",
        )
    num_nodes, num_features = x.shape
    check_num_features(num_features)
    ids = _get(data, "node_id")
    feature_names, classes = (_get_names(data, name) for name in ("feature_names", "class_names"))
    if feature_names is not None and len(feature_names) != num_features:
        raise InputError(
            f"feature_names has {len(feature_names)} entries", expected=f"one for each of {num_features} columns"
        )
    return RawGraph(
        ids=np.arange(num_nodes) if ids is None else _convert_ids(ids, num_nodes),
        features=_convert_features(x),
        feature_names=tuple(map(str, range(num_features))) if feature_names is None else feature_names,
        edges=edge_index.to(torch.int64).numpy(),
        labels=_convert_labels(_get_tensor(data, "y"), num_nodes, classes),
        part=_combine_masks(data, num_nodes),
        classes=classes,
    )


def _get(data: Any, name: str) -> Any:
    return data.get(name) if isinstance(data, Mapping) else getattr(data, name, None)


def _get_names(data: Any, name: str) -> tuple[str, ...] | None:
    value = _get(data, name)
    if value is not None and not isinstance(value, list | tuple):
        raise InputError(f"{name} is a {type(value).__name__}", expected="a list of strings")
    return None if value is None else tuple(map(str, value))


def _get_tensor(data: Any, name: str) -> Tensor | None:
    value = _get(data, name)
    if value is not None and not isinstance(value, Tensor):
        raise InputError(f"{name} is a {type(value).__name__}", expected="a tensor")
    return value


def _convert_features(x: Tensor) -> RawMatrix:
    if x.is_complex():
        raise InputError(f"x is {x.dtype}", expected="real numbers")
    if x.layout is torch.strided:
        return x.detach().to(torch.float64 if x.dtype == torch.float64 else torch.float32).numpy()
    try:
        return compact(to_scipy(to_canonical(x)))
    except ValueError as error:
        raise InputError(f"x is an invalid sparse tensor: {error}", expected="a COO, CSR or CSC matrix") from None


def _convert_ids(ids: Any, num_nodes: int) -> np.ndarray:
    if isinstance(ids, Tensor) and tuple(ids.shape) != (num_nodes,):  # before it is a list: it may repeat one value
        raise InputError(f"node_id is {tuple(ids.shape)}", expected=f"one for each of {num_nodes} nodes")
    values = ids.tolist() if isinstance(ids, Tensor) else list(ids) if isinstance(ids, list | tuple) else [ids]
    if len(values) != num_nodes:
        raise InputError(f"node_id has {len(values)} entries", expected=f"one for each of {num_nodes} nodes")
    if all(isinstance(value, str) for value in values):
        return np.array(values, dtype=object)
    if not all(type(value) is int and abs(value) < 2**63 for value in values):
        raise InputError("node_id has mixed or unsupported types", expected="only strings, or only 64-bit integers")
    return np.array(values, dtype=np.int64)


def _convert_labels(y: Tensor | None, num_nodes: int, classes: tuple[str, ...] | None) -> list[str | None] | None:
    if y is None:
        return None
    flat = y.detach().flatten()
    if flat.shape[0] != num_nodes:
        raise InputError(f"y is {tuple(y.shape)}", expected=f"one class for each of {num_nodes} nodes")
    if flat.is_complex():
        raise InputError(f"y is {y.dtype}", expected="an integer per class, or -1 where the class is unknown")
    is_unknown = flat < 0
    if flat.is_floating_point():
        labels = flat[~torch.isnan(flat)]
        is_unknown |= torch.isnan(flat)
        if bool((labels != labels.round()).any() | (labels.abs() > 2**31).any()):
            raise InputError(
                "y contains fractions or infinity", expected="an integer per class, or -1 where the class is unknown"
            )
    return name_labels(flat.masked_fill(is_unknown, -1).to(torch.int64).tolist(), classes)


def _combine_masks(data: Any, num_nodes: int) -> np.ndarray | None:
    """Return the `Part` of each node, None if there is no mask."""
    masks = {name: mask for name in MASKS if (mask := _get_tensor(data, name)) is not None}
    part = np.full(num_nodes, Part.NONE, dtype=np.int8)
    for name, mask in masks.items():
        if tuple(mask.shape) != (num_nodes,) or mask.dtype not in (torch.bool, torch.uint8):
            raise InputError(
                f"{name} is {tuple(mask.shape)} ({str(mask.dtype).removeprefix('torch.')})",
                expected=f"true or false for each of {num_nodes} nodes; if there are several splits, keep one",
                hint=f"data.{name} = data.{name}[:, 0]",
            )
        members = mask.numpy().astype(bool)
        if (part[members] != Part.NONE).any():
            raise InputError(f"{name} overlaps another mask", expected="each node in one part at most")
        part[members] = MASKS[name]
    return part if masks else None
