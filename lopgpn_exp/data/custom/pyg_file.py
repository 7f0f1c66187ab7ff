"""A PyG `Data` object, in a file or in memory."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lopgpn_exp.data.custom.memory import check_memory, feature_bytes
from lopgpn_exp.data.custom.raw import RawGraph, told_of
from lopgpn_exp.data.safe_load import pyg_data_allowed
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Part

MASKS = {"train_mask": Part.TRAIN, "val_mask": Part.VAL, "test_mask": Part.TEST}
DAMAGE = (OSError, ValueError, KeyError, TypeError, RuntimeError, EOFError, AttributeError, pickle.UnpicklingError)


def read_pyg_file(path: Path, *, memory_limit_gib: float | None) -> RawGraph:
    """What `torch.save(data, path)` wrote. Nothing but tensors and PyG's own containers is let in: a file cannot run
    code."""
    with told_of(path, damage=DAMAGE):
        size = path.stat().st_size  # not compressed: most of it is the features, in 4 bytes each
        check_memory(path, f"{size:,} bytes", feature_bytes(size // 4, 1), limit_gib=memory_limit_gib)
        with warnings.catch_warnings(), pyg_data_allowed():
            warnings.simplefilter("ignore")  # of a file that torch did not write: it is refused below
            data = torch.load(path, map_location="cpu", weights_only=True)
        return raw_of_data(data)


def raw_of_data(data: Any) -> RawGraph:
    """`x` and `edge_index`, and where there are: `y` (-1 or NaN: unknown), `train_mask`, `val_mask`, `test_mask`,
    `node_id` (texts or whole numbers), `class_names` and `feature_names`."""
    x, edge_index = (_tensor(data, name) for name in ("x", "edge_index"))
    if x is None or edge_index is None:
        raise InputError(
            f"a {type(data).__name__} without {'x' if x is None else 'edge_index'}",
            expected="a PyG Data object, or a dict, with x and edge_index",
        )
    whole = not edge_index.dtype.is_floating_point and edge_index.dtype != torch.bool
    if x.dim() != 2 or edge_index.dim() != 2 or edge_index.shape[0] != 2 or not whole:
        raise InputError(
            f"x is {tuple(x.shape)} and edge_index {tuple(edge_index.shape)} ({edge_index.dtype})",
            expected="x of shape (nodes, features) and edge_index of shape (2, edges), in whole numbers",
        )
    count, width = x.shape
    ids = _get(data, "node_id")
    columns, classes = (_names(data, name) for name in ("feature_names", "class_names"))
    if columns is not None and len(columns) != width:
        raise InputError(f"feature_names has {len(columns)} entries", expected=f"one for each of {width} columns")
    labels = _labels(_tensor(data, "y"), count, classes)
    return RawGraph(
        ids=np.arange(count) if ids is None else _ids(ids, count),
        features=_dense(x).numpy(),
        feature_names=columns if columns is not None else tuple(map(str, range(width))),
        edges=edge_index.to(torch.int64).numpy(),
        labels=labels,
        part=_part(data, count),
        classes=classes,
    )


def _get(data: Any, name: str) -> Any:
    return data.get(name) if isinstance(data, Mapping) else getattr(data, name, None)


def _names(data: Any, name: str) -> tuple[str, ...] | None:
    value = _get(data, name)
    if value is not None and not isinstance(value, list | tuple):
        raise InputError(f"{name} is a {type(value).__name__}", expected="a list of texts")
    return None if value is None else tuple(map(str, value))


def _tensor(data: Any, name: str) -> Tensor | None:
    value = _get(data, name)
    if value is not None and not isinstance(value, Tensor):
        raise InputError(f"{name} is a {type(value).__name__}", expected="a tensor")
    return value


def _dense(x: Tensor) -> Tensor:
    dense = x if x.layout is torch.strided else x.to_dense()
    if dense.is_complex():
        raise InputError(f"x is {x.dtype}", expected="real numbers")
    return dense.detach().to(torch.float64 if dense.dtype == torch.float64 else torch.float32)


def _ids(ids: Any, count: int) -> np.ndarray:
    values = ids.tolist() if isinstance(ids, Tensor) else list(ids) if isinstance(ids, list | tuple) else [ids]
    if len(values) != count:
        raise InputError(f"node_id has {len(values)} entries", expected=f"one for each of {count} nodes")
    if all(isinstance(value, str) for value in values):
        return np.array(values, dtype=object)
    if not all(type(value) is int and abs(value) < 2**63 for value in values):
        raise InputError("node_id holds neither texts alone nor whole numbers alone", expected="one of both")
    return np.array(values, dtype=np.int64)


def _labels(y: Tensor | None, count: int, classes: Any) -> list[str | None] | None:
    if y is None:
        return None
    flat = y.detach().flatten()
    if flat.shape[0] != count:
        raise InputError(f"y is {tuple(y.shape)}", expected=f"one class for each of {count} nodes")
    unknown = flat < 0
    if flat.is_floating_point():
        unknown |= torch.isnan(flat)
        given = flat[~unknown]
        if bool((given != given.round()).any() | (given > 2**31).any()):
            raise InputError(
                "y holds fractions or infinity", expected="whole numbers, one a class, or -1 where it is unknown"
            )
    names = None if classes is None else list(map(str, classes))
    numbers = flat.masked_fill(unknown, 0).to(torch.int64).tolist()
    if names is not None and numbers and max(numbers) >= len(names):
        raise InputError(f"y holds class {max(numbers)}", expected=f"less than {len(names)}, the number of class_names")
    return [
        None if blank else (names[number] if names else str(number))
        for number, blank in zip(numbers, unknown.tolist(), strict=True)
    ]


def _part(data: Any, count: int) -> np.ndarray | None:
    part = np.full(count, Part.NONE, dtype=np.int8)
    found = False
    for name, kind in MASKS.items():
        mask = _tensor(data, name)
        if mask is None:
            continue
        if tuple(mask.shape) != (count,) or mask.dtype not in (torch.bool, torch.uint8):
            raise InputError(
                f"{name} is {tuple(mask.shape)} ({str(mask.dtype).removeprefix('torch.')})",
                expected=f"true or false for each of {count} nodes; of several splits, keep one",
                hint=f"data.{name} = data.{name}[:, 0]",
            )
        chosen = mask.numpy().astype(bool)
        if (part[chosen] != Part.NONE).any():
            raise InputError(f"{name} shares nodes with another mask", expected="each node in one part at most")
        part[chosen], found = kind, True
    return part if found else None
