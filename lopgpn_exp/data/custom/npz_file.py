"""The npz layout of PyG's citation and co-purchase files."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from lopgpn_exp.data.custom.memory import check_memory, feature_bytes
from lopgpn_exp.data.custom.raw import RawGraph, told_of
from lopgpn_exp.data.pyg import check_archive
from lopgpn_exp.errors import InputError

DAMAGE = (OSError, ValueError, KeyError, IndexError, TypeError, EOFError, zipfile.BadZipFile, zlib.error)
NEEDED = (*(f"{kind}_{part}" for kind in ("adj", "attr") for part in ("data", "indices", "indptr", "shape")), "labels")
NAMES = {"node_names": "ids", "class_names": "classes", "attr_names": "feature_names"}


def read_npz_file(path: Path, *, memory_limit_gib: float | None) -> RawGraph:
    """Sparse `attr_*` and `adj_*`, `labels` (-1: unknown) and, where there are, `node_names`, `class_names` and
    `attr_names` (as texts: arrays of objects are refused, since reading them could run code).

    Features are as in the file; the readers of the paper's datasets turn theirs into 0/1.
    """
    with told_of(path, damage=DAMAGE), path.open("rb") as file:
        archive = np.load(file, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise InputError("a single array", expected="an npz archive in PyG's citation layout")
        if missing := [name for name in NEEDED if name not in archive.files]:
            raise InputError(
                f"the archive has no {missing[0]!r} but " + ", ".join(archive.files[:12]), expected=", ".join(NEEDED)
            )
        check_archive(archive)
        nodes, width = map(int, archive["attr_shape"])
        need = feature_bytes(nodes, width) + 32 * (len(archive["attr_indices"]) + len(archive["adj_indices"]))
        check_memory(path, f"{nodes:,} nodes with {width:,} features", need, limit_gib=memory_limit_gib)
        features, edges = _matrix(archive, "attr"), _matrix(archive, "adj").tocoo()
        count = features.shape[0]
        names = {ours: _texts(archive[theirs], theirs) for theirs, ours in NAMES.items() if theirs in archive.files}
        for ours, size in (("ids", count), ("feature_names", width)):
            if ours in names and len(names[ours]) != size:
                raise InputError(f"{len(names[ours])} names for {size} {ours}", expected="one each")
        labels = archive["labels"]
        if len(labels) != count:
            raise InputError(f"{len(labels)} labels for {count} nodes", expected="one each")
        classes = names.get("classes")
        if classes is not None and len(labels) and labels.max() >= len(classes):
            raise InputError(f"label {labels.max()} where {len(classes)} classes have names", expected="fewer")
        return RawGraph(
            ids=names["ids"] if "ids" in names else np.arange(count),
            features=features.toarray(),
            feature_names=tuple(map(str, names.get("feature_names", range(width)))),
            edges=np.stack([edges.row, edges.col]).astype(np.int64),
            labels=[_name(number, classes) for number in labels.tolist()],
            classes=None if classes is None else tuple(map(str, classes)),
        )


def _texts(values: np.ndarray, name: str) -> np.ndarray:
    if values.ndim != 1 or values.dtype.kind not in "USiu":
        raise InputError(f"{name} is {values.dtype} of shape {values.shape}", expected="a vector of texts")
    return (
        np.char.decode(values, "utf-8").astype(object)
        if values.dtype.kind == "S"
        else values.astype(str).astype(object)
    )


def _name(number: int, classes: np.ndarray | None) -> str | None:
    if number < 0:
        return None
    return str(number) if classes is None else str(classes[number])


def _matrix(archive: np.lib.npyio.NpzFile, kind: str) -> sp.csr_array:
    parts = tuple(archive[f"{kind}_{name}"] for name in ("data", "indices", "indptr"))
    data = parts[0]
    if not (np.issubdtype(data.dtype, np.number) or data.dtype == bool) or np.iscomplexobj(data):
        raise InputError(f"{kind}_data is {data.dtype}", expected="real numbers")
    kept = np.float64 if data.dtype == np.float64 else np.float32
    return sp.csr_array((data.astype(kept), *parts[1:]), shape=tuple(archive[f"{kind}_shape"]))
