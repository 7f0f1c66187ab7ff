"""Read the npz layout of PyG's citation and co-purchase datasets."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from lopgpn_exp.data.files.memory import check_memory, check_num_features, estimate_sparse_bytes
from lopgpn_exp.data.files.raw_graph import RawGraph, name_labels
from lopgpn_exp.data.safe_load import check_archive, wrap_read_errors
from lopgpn_exp.data.zip_checks import check_array_sizes, check_checksums, read_content_size
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph.features import compact

REQUIRED = (
    *(f"{kind}_{part}" for kind in ("adj", "attr") for part in ("data", "indices", "indptr", "shape")),
    "labels",
)
OPTIONAL = ("node_names", "class_names", "attr_names")


def read_npz_file(path: Path, *, memory_limit_gib: float | None) -> RawGraph:
    """Read the sparse matrices `attr_*` and `adj_*`, and `labels` (-1: unknown).

    Optional: `node_names`, `class_names` and `attr_names`, as strings; reading arrays of objects could execute code.
    Features are kept as in the file, whereas the loaders of the paper's datasets make them binary.
    """
    expected = "an .npz file in PyG's citation layout"
    with wrap_read_errors(path, expected=expected):
        arrays = _read_arrays(path, expected, memory_limit_gib)
        check_archive(arrays)
        num_nodes, num_features = arrays["attr_shape"].tolist()
        check_num_features(num_features)
        num_bytes = estimate_sparse_bytes(num_nodes, len(arrays["attr_indices"])) + 32 * len(arrays["adj_indices"])
        content = f"{num_nodes:,} nodes with {num_features:,} features"
        check_memory(path, content, num_bytes, limit_gib=memory_limit_gib)
        return _parse_arrays(arrays, num_nodes, num_features)


def _read_arrays(path: Path, expected: str, memory_limit_gib: float | None) -> dict[str, np.ndarray]:
    """Read the arrays of the layout, once their sizes have been checked."""
    with path.open("rb") as file, warnings.catch_warnings():
        if file.read(len(np.lib.format.MAGIC_PREFIX)) == np.lib.format.MAGIC_PREFIX:
            raise InputError("the file contains a single array", expected=expected)
        num_bytes = read_content_size(path)
        check_memory(path, f"{num_bytes:,} bytes", 2 * num_bytes, limit_gib=memory_limit_gib)
        check_checksums(path)
        file.seek(0)
        warnings.simplefilter("ignore")  # about headers that numpy did not write
        archive = np.load(file, allow_pickle=False)
        if missing := [name for name in REQUIRED if name not in archive.files]:
            raise InputError(
                f"the archive has no {missing[0]!r}, only {', '.join(archive.files[:12])}", expected=", ".join(REQUIRED)
            )
        check_array_sizes(archive)
        return {name: archive[name] for name in (*REQUIRED, *OPTIONAL) if name in archive.files}


def _parse_arrays(arrays: Mapping[str, np.ndarray], num_nodes: int, num_features: int) -> RawGraph:
    labels = arrays["labels"]
    if len(labels) != num_nodes:
        raise InputError(f"{len(labels)} labels for {num_nodes} nodes", expected="one label per node")
    features, edges = _read_matrix(arrays, "attr"), _read_matrix(arrays, "adj").tocoo()
    ids = _read_names(arrays, "node_names", num_nodes)
    feature_names = _read_names(arrays, "attr_names", num_features)
    class_names = _read_names(arrays, "class_names")
    classes = None if class_names is None else tuple(map(str, class_names))
    return RawGraph(
        ids=np.arange(num_nodes) if ids is None else ids,
        features=compact(features),
        feature_names=tuple(map(str, range(num_features) if feature_names is None else feature_names)),
        edges=np.stack([edges.row, edges.col]).astype(np.int64),
        labels=name_labels(labels.tolist(), classes),
        classes=classes,
    )


def _read_names(arrays: Mapping[str, np.ndarray], key: str, count: int | None = None) -> np.ndarray | None:
    """Return a vector of strings, None if it is missing."""
    if key not in arrays:
        return None
    names = arrays[key]
    if names.ndim != 1 or names.dtype.kind not in "USiu":
        raise InputError(f"{key} is {names.dtype} of shape {names.shape}", expected="a vector of strings")
    if count is not None and len(names) != count:
        raise InputError(f"{key} has {len(names)} entries", expected=str(count))
    is_bytes = names.dtype.kind == "S"
    return (np.char.decode(names, "utf-8") if is_bytes else names.astype(str)).astype(object)


def _read_matrix(arrays: Mapping[str, np.ndarray], kind: str) -> sp.csr_array:
    values, indices, pointers = (arrays[f"{kind}_{part}"] for part in ("data", "indices", "indptr"))
    if values.dtype.kind not in "biuf":
        raise InputError(f"{kind}_data is {values.dtype}", expected="real numbers")
    dtype = np.float64 if values.dtype == np.float64 else np.float32
    return sp.csr_array((values.astype(dtype), indices, pointers), shape=tuple(arrays[f"{kind}_shape"].tolist()))
