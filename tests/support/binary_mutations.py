"""Mutations of binary files that keep their structure: a column, an array, a tensor or a file of an archive."""

from __future__ import annotations

import copy
import io
import os
import random
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from lopgpn_exp.paper.runs_file import METADATA_KEY
from lopgpn_exp.paper.verified_parquet import DIGEST_KEY, compute_digest
from tests.support.hostile import MARKER, mutate
from tests.support.mutations import ODD_TEXTS, ODD_VALUES, list_places, mutate_json


def mutate_frame(frame: pd.DataFrame, rng: random.Random) -> pd.DataFrame:
    """Return a table in which columns are missing, renamed, or have other values or types."""
    frame = frame.copy()
    for _ in range(rng.choice((1, 2))):
        if frame.shape[1] == 0:
            return frame
        name = rng.choice(list(frame.columns))
        kind = rng.choice(("drop", "rename", "text", "constant", "null", "nested", "type", "rows"))
        if kind == "drop":
            frame = frame.drop(columns=name)
        elif kind == "rename":
            new = str(rng.choice(ODD_VALUES)).encode("utf-8", "replace").decode()
            frame = frame.rename(columns={name: new}) if new not in frame else frame
        elif kind == "text":
            frame[name] = [str(rng.choice(ODD_TEXTS)).encode("utf-8", "replace").decode() for _ in range(len(frame))]
        elif kind == "constant":
            frame[name] = rng.choice((0, -1, 2**62, 1e308, np.nan, np.inf, True))
        elif kind == "null":
            frame[name] = [None] * len(frame)
        elif kind == "nested":
            frame[name] = [[1, 2]] * len(frame)
        elif kind == "type":
            kind = rng.choice(("int8", "uint64", "float16", "datetime64[ns]"))
            frame[name] = pd.Series(np.arange(len(frame)) % 100, index=frame.index).astype(kind)
        else:
            frame = frame.iloc[: rng.choice((0, 1, 5))]
    return frame


def mutate_arrays(arrays: Mapping[str, np.ndarray], rng: random.Random) -> dict[str, np.ndarray]:
    """Return arrays of which some are missing or have other shapes, types or values."""
    changed = dict(arrays)
    for name in rng.sample(sorted(changed), min(rng.choice((1, 2)), len(changed))):
        array = changed[name]
        kind = rng.choice(("drop", "type", "shape", "object", "value", "scalar", "long", "empty"))
        if kind == "drop":
            del changed[name]
        elif kind == "type" and array.dtype.kind in "iuf":
            with np.errstate(all="ignore"):
                changed[name] = array.astype(rng.choice(("float16", "complex64", "U8", "S8", "uint64", "bool", "int8")))
        elif kind == "shape":
            changed[name] = rng.choice((array[None], array[..., None], array.reshape(-1)[:-1]))
        elif kind == "object":
            changed[name] = np.array([Touch(), None], dtype=object)
        elif kind == "value" and array.size and array.dtype.kind in "iuf":
            changed[name] = array.copy()
            limits = np.iinfo(array.dtype) if array.dtype.kind in "iu" else np.finfo(array.dtype)
            changed[name].flat[rng.randrange(array.size)] = rng.choice((limits.min, limits.max, 0, 2, 100))
        elif kind == "long":
            changed[name] = np.repeat(array.reshape(-1), 3)
        else:
            changed[name] = np.zeros(() if kind == "scalar" else 0, dtype=array.dtype)
    return changed


class Touch:
    """Creates a file when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {MARKER}",)


def mutate_archive(content: bytes, rng: random.Random) -> bytes:
    """Return a zip file with mutated members whose checksums are right: the only way for these to be read."""
    output = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as source, zipfile.ZipFile(output, "w") as sink:
        members = source.infolist()
        target = rng.choice(members)
        kind = rng.choice(("content", "content", "content", "drop", "rename", "twice"))
        for member in members:
            data, name = source.read(member), member.filename
            if member is target and kind == "drop":
                continue
            if member is target and kind == "content" and data:
                data = mutate(data, rng)
            if member is target and kind == "rename":
                name = rng.choice(("../x", "/x", "x/../y", "a/b/c", name.upper(), "x" * 300))
            sink.writestr(name, data)
            if member is target and kind == "twice":
                sink.writestr(f"{name}2", data)
    return output.getvalue()


def declare_shape(content: bytes, rng: random.Random) -> bytes:
    """Return an npz file in which one array claims to be enormous."""
    output = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as source, zipfile.ZipFile(output, "w") as sink:
        target = rng.choice(source.namelist())
        for name in source.namelist():
            data = source.read(name)
            if name == target:
                shape = rng.choice(("(10**9,)", "(4000000000,)", "(-1,)", "(1,)*9", "(99999, 99999)", "()"))
                kind = rng.choice(("<f8", "<i4", "|O", "<U999999"))
                header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}}}".ljust(117) + "\n"
                data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + data[128:]
            sink.writestr(name, data)
    return output.getvalue()


def to_bytes(save: Callable[[io.BytesIO], object]) -> bytes:
    """Return what `save(buffer)` writes."""
    buffer = io.BytesIO()
    save(buffer)
    return buffer.getvalue()


def mutate_tensors(content: Any, rng: random.Random) -> Any:
    """Return the content of a torch file (dicts, tensors and plain values) with some values replaced."""
    content = copy.deepcopy(content)
    for _ in range(rng.choice((1, 2, 3))):
        places = list(list_places(content))
        if not places:
            return content
        parent, key = rng.choice(places)
        value = parent[key]
        odd: list[Any] = [*ODD_VALUES, torch.tensor(1), torch.zeros(3, 0), torch.zeros(1).expand(10**6, 1)]
        if isinstance(value, torch.Tensor) and value.layout is torch.strided:
            odd += [value.double(), value[:1] if value.dim() else value, value.to(torch.int8), value[None]] * 10
            odd += [torch.full_like(value, -1), value.flatten(), value.to(torch.complex64)] * 5
            odd += [value.float() * float("nan"), value.float() * 1e38 * 10, value.float().to_sparse()] * 5
        if rng.random() < 0.2:
            del parent[key]
        else:
            parent[key] = copy.deepcopy(rng.choice(odd))
    return content


def mutate_checkpoint(content: bytes, rng: random.Random) -> bytes:
    """Return a checkpoint with mutated bytes or values, and with valid checksums."""
    if rng.random() < 0.5:
        return mutate_archive(content, rng)
    loaded = torch.load(io.BytesIO(content), weights_only=True)
    return to_bytes(lambda file: torch.save(mutate_tensors(loaded, rng), file))


def mutate_pyg_file(content: bytes, rng: random.Random) -> bytes:
    """Return a graph of PyG with mutated bytes or tensors, sometimes in torch's old format, which has no checksums."""
    if rng.random() < 0.4:
        return mutate_archive(content, rng)
    loaded = torch.load(io.BytesIO(content), weights_only=False)
    changed = mutate_tensors(loaded if isinstance(loaded, dict) else loaded.to_dict(), rng)
    if rng.random() < 0.8:
        return to_bytes(lambda file: torch.save(changed, file))
    return mutate(to_bytes(lambda file: torch.save(changed, file, _use_new_zipfile_serialization=False)), rng)


def mutate_table(content: bytes, rng: random.Random) -> bytes:
    """Return a parquet file with mutated bytes, columns or values."""
    if rng.random() < 0.5:
        return mutate(content, rng)
    return to_bytes(mutate_frame(pd.read_parquet(io.BytesIO(content)), rng).to_parquet)


def mutate_reproduction(content: bytes, rng: random.Random) -> bytes:
    """Return a `runs.parquet` with mutated columns, values or notes, and with a valid digest."""
    table = pq.read_table(io.BytesIO(content))
    notes = table.schema.metadata[METADATA_KEY]
    if rng.random() < 0.7:
        table = pa.Table.from_pandas(mutate_frame(table.to_pandas(), rng), preserve_index=False)
    metadata = {METADATA_KEY: mutate_json(notes, rng) if rng.random() < 0.4 else notes}
    table = table.replace_schema_metadata(metadata)
    with suppress(TypeError):  # a type that has no digest
        metadata[DIGEST_KEY] = compute_digest(table)
    return to_bytes(lambda file: pq.write_table(table.replace_schema_metadata(metadata), file))
