"""Read the npz layout of PyG's citation and co-purchase datasets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from lopgpn_exp.data.files.memory import check_memory, estimate_feature_bytes
from lopgpn_exp.data.files.raw_graph import RawGraph, name_labels
from lopgpn_exp.data.safe_load import check_archive, wrap_read_errors
from lopgpn_exp.errors import InputError

REQUIRED = (
    *(f"{kind}_{part}" for kind in ("adj", "attr") for part in ("data", "indices", "indptr", "shape")),
    "labels",
)


def read_npz_file(path: Path, *, memory_limit_gib: float | None) -> RawGraph:
    """Read the sparse matrices `attr_*` and `adj_*`, and `labels` (-1: unknown).

    Optional: `node_names`, `class_names` and `attr_names`, as strings; reading arrays of objects could execute code.
    Features are kept as in the file, whereas the loaders of the paper's datasets make them binary.
    """
    expected = "an .npz file in PyG's citation layout"
    with wrap_read_errors(path, expected=expected), path.open("rb") as file:
        archive = np.load(file, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise InputError("the file contains a single array", expected=expected)
        if missing := [name for name in REQUIRED if name not in archive.files]:
            raise InputError(
                f"the archive has no {missing[0]!r}, only {', '.join(archive.files[:12])}", expected=", ".join(REQUIRED)
            )
        check_archive(archive)
        num_nodes, num_features = map(int, archive["attr_shape"])
        num_values = len(archive["attr_indices"]) + len(archive["adj_indices"])
        num_bytes = estimate_feature_bytes(num_nodes, num_features) + 32 * num_values
        content = f"{num_nodes:,} nodes with {num_features:,} features"
        check_memory(path, content, num_bytes, limit_gib=memory_limit_gib)
        return _parse_archive(archive, num_nodes, num_features)


def _parse_archive(archive: np.lib.npyio.NpzFile, num_nodes: int, num_features: int) -> RawGraph:
    features, edges = _read_matrix(archive, "attr"), _read_matrix(archive, "adj").tocoo()
    ids = _read_names(archive, "node_names", num_nodes)
    feature_names = _read_names(archive, "attr_names", num_features)
    class_names = _read_names(archive, "class_names")
    classes = None if class_names is None else tuple(map(str, class_names))
    labels = archive["labels"]
    if len(labels) != num_nodes:
        raise InputError(f"{len(labels)} labels for {num_nodes} nodes", expected="one label per node")
    return RawGraph(
        ids=np.arange(num_nodes) if ids is None else ids,
        features=features.toarray(),
        feature_names=tuple(map(str, range(num_features) if feature_names is None else feature_names)),
        edges=np.stack([edges.row, edges.col]).astype(np.int64),
        labels=name_labels(labels.tolist(), classes),
        classes=classes,
    )


def _read_names(archive: np.lib.npyio.NpzFile, key: str, count: int | None = None) -> np.ndarray | None:
    """Return a vector of strings, None if it is missing."""
    if key not in archive.files:
        return None
    names = archive[key]
    if names.ndim != 1 or names.dtype.kind not in "USiu":
        raise InputError(f"{key} is {names.dtype} of shape {names.shape}", expected="a vector of strings")
    if count is not None and len(names) != count:
        raise InputError(f"{key} has {len(names)} entries", expected=str(count))
    is_bytes = names.dtype.kind == "S"
    return (np.char.decode(names, "utf-8") if is_bytes else names.astype(str)).astype(object)


def _read_matrix(archive: np.lib.npyio.NpzFile, kind: str) -> sp.csr_array:
    values, indices, pointers = (archive[f"{kind}_{part}"] for part in ("data", "indices", "indptr"))
    if not (np.issubdtype(values.dtype, np.number) or values.dtype == bool) or np.iscomplexobj(values):
        raise InputError(f"{kind}_data is {values.dtype}", expected="real numbers")
    dtype = np.float64 if values.dtype == np.float64 else np.float32
    return sp.csr_array((values.astype(dtype), indices, pointers), shape=tuple(archive[f"{kind}_shape"]))
