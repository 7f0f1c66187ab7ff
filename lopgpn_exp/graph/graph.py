"""The graph type that all other packages use."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from lopgpn_exp.errors import InputError
from lopgpn_exp.graph.features import find_not_finite, hash_features, is_sparse, select_rows, to_canonical
from lopgpn_exp.graph.legend import Legend

ArrayLike = Any  # a tensor, a numpy array or a nested list


class Part(IntEnum):
    """The part of the split that a node belongs to."""

    NONE = 0
    TRAIN = 1
    VAL = 2
    TEST = 3


def undirected_edges(edge_index: Int[Tensor, "2 any"], num_nodes: int) -> Int[Tensor, "2 edges"]:
    """Return both directions of each edge once, without self loops, sorted by source, then target."""
    _check_edges(edge_index, num_nodes)
    source, target = edge_index.numpy().astype(np.int64)
    if _is_undirected(source, target, num_nodes):
        return torch.from_numpy(np.stack([source, target]))
    keep = source != target
    source, target = source[keep], target[keep]
    keys = sorted_unique(np.concatenate([source * num_nodes + target, target * num_nodes + source]))
    return torch.from_numpy(np.stack([keys // num_nodes, keys % num_nodes]))


def _is_undirected(source: Int[np.ndarray, " edges"], target: Int[np.ndarray, " edges"], num_nodes: int) -> bool:
    """Return whether edges are already as `undirected_edges` returns them; checking is faster than sorting."""
    keys = source * num_nodes + target
    if (source == target).any() or (keys[1:] <= keys[:-1]).any():
        return False
    row_ends = np.searchsorted(source, np.arange(num_nodes + 1))
    adjacency = sp.csr_array((np.ones(len(source), dtype=np.int8), target, row_ends), shape=(num_nodes, num_nodes))
    reverse = adjacency.T.tocsr()
    return np.array_equal(adjacency.indptr, reverse.indptr) and np.array_equal(adjacency.indices, reverse.indices)


def sorted_unique(keys: Int[np.ndarray, " any"]) -> Int[np.ndarray, " unique"]:
    """Return `np.unique(keys)`, but six times faster for ten million edges, because numpy hashes integers first."""
    keys = np.sort(keys)
    return keys[np.concatenate([[True], keys[1:] != keys[:-1]])] if len(keys) else keys


@dataclass(frozen=True, eq=False)
class Graph:
    """An undirected attributed graph with its split. Frozen: `replace` returns a changed copy.

    Args:
        features: one row per node, finite. Either dense or, if most values are zero, a `torch.sparse_csr` tensor;
            `features.to_dense()` accepts both.
        edge_index: both directions of each edge once, no self loops, sorted (see `undirected_edges`).
        labels: class of each node, -1 where unknown. A left-out class keeps its label, which is then
            at least `num_classes` and only allowed where `is_ood`.
        num_classes: number of classes that a model of this graph distinguishes.
        part: `Part` of each node.
        is_ood: nodes that a scenario made out-of-distribution.
        official_part: the split that came with the data, if any; one row per split if there are several.
        legend: names of nodes, classes and features in the data's source, if any.
        missing_features: the file that the features would be read from, if the data has none; they are then zero.
    """

    features: Float[Tensor, "nodes features"]
    edge_index: Int[Tensor, "2 edges"]
    labels: Int[Tensor, " labels"]  # the axes have different names: `__post_init__` compares their lengths
    num_classes: int
    part: Int[Tensor, " parts"]
    is_ood: Bool[Tensor, " is_ood"]
    official_part: Int[Tensor, "*splits official_parts"] | None = None
    legend: Legend | None = None
    missing_features: Path | None = None

    @classmethod
    def build(
        cls,
        *,
        features: ArrayLike,
        edge_index: ArrayLike,
        labels: ArrayLike,
        num_classes: int | None = None,
        official_part: ArrayLike | None = None,
        legend: Legend | None = None,
        missing_features: Path | None = None,
    ) -> Graph:
        """Check tensors, arrays or lists and return a graph without a split; edges may be in any order."""
        features = _to_tensor("features", features).to(torch.float32)
        edge_index = _to_tensor("edge_index", edge_index)
        labels = _to_tensor("labels", labels)
        num_nodes = features.shape[0]
        if num_nodes == 0:
            raise InputError("the graph has no nodes", expected="at least one node")
        return cls(
            features=features if is_sparse(features) else features.contiguous(),
            edge_index=undirected_edges(edge_index, num_nodes),
            labels=labels,
            num_classes=int(labels.max()) + 1 if num_classes is None else num_classes,
            part=torch.full((num_nodes,), Part.NONE, dtype=torch.int8),
            is_ood=torch.zeros(num_nodes, dtype=torch.bool),
            official_part=None if official_part is None else _to_tensor("official_part", official_part),
            legend=legend,
            missing_features=missing_features,
        )

    def __post_init__(self) -> None:
        _check_edges(self.edge_index, self.num_nodes)
        _check_features(self.features)
        for name in ("labels", "part", "is_ood", "official_part"):
            values = getattr(self, name)
            if values is not None and values.shape[-1] != self.num_nodes:
                raise InputError(
                    f"{name} has {values.shape[-1]} entries", expected=f"one for each of {self.num_nodes} nodes"
                )
        if self.legend is not None and len(self.legend.nodes) != self.num_nodes:
            raise InputError(
                f"the legend names {len(self.legend.nodes)} nodes", expected=f"each of {self.num_nodes} nodes"
            )
        _check_labels(self.labels, self.num_classes, self.is_ood)

    @property
    def num_nodes(self) -> int:
        return self.features.shape[0]

    @property
    def num_features(self) -> int:
        return self.features.shape[1]

    @property
    def num_edges(self) -> int:
        """Number of undirected edges."""
        return self.edge_index.shape[1] // 2

    def nodes(self, part: Part) -> Int[Tensor, " chosen"]:
        """Return the indices of the nodes of a part, ascending."""
        return torch.nonzero(self.part == part).flatten()

    def class_name(self, label: int) -> str:
        """Return the name of a class in messages and tables."""
        return str(label) if self.legend is None else repr(self.legend.classes[label])

    def replace(self, **changes: Any) -> Graph:
        """Return a copy with some fields changed, which are converted as in `build`."""
        for name, value in changes.items():
            is_absent = name == "official_part" and value is None
            if name in _TENSOR_FIELDS and value is not getattr(self, name) and not is_absent:
                changes[name] = _to_tensor(name, value)
        if changes.get("edge_index", self.edge_index) is not self.edge_index:
            num_nodes = changes.get("features", self.features).shape[0]
            changes["edge_index"] = undirected_edges(changes["edge_index"], num_nodes)
        return dataclasses.replace(self, **changes)

    def without(self, removed: Bool[Tensor, " nodes"]) -> Graph:
        """Return the graph without some nodes and their edges; the others keep their order and everything else."""
        kept = torch.nonzero(~removed).flatten()
        number = torch.full((self.num_nodes,), -1).scatter(0, kept, torch.arange(len(kept)))
        edge_index = number[self.edge_index]
        return dataclasses.replace(
            self,
            features=select_rows(self.features, ~removed),
            edge_index=edge_index[:, (edge_index >= 0).all(dim=0)],
            official_part=None if self.official_part is None else self.official_part[..., kept],
            legend=None if self.legend is None else dataclasses.replace(self.legend, nodes=self.legend.nodes[kept]),
            **{name: getattr(self, name)[kept] for name in ("labels", "part", "is_ood")},
        )

    @cached_property
    def structure_fingerprint(self) -> str:
        """Hash of the edges alone, on which normalised operators and the PPR matrix depend."""
        by_num_nodes = _structure_fingerprints.setdefault(self.edge_index, {})
        if self.num_nodes not in by_num_nodes:
            by_num_nodes[self.num_nodes] = fingerprint([np.int64(self.num_nodes), self.edge_index.numpy()])
        return by_num_nodes[self.num_nodes]

    @cached_property
    def fingerprint(self) -> str:
        """Hash of everything that affects results: graphs with equal fingerprints give equal results."""
        parts = [self.structure_fingerprint, *map(_tensor_fingerprint, (self.features, self.labels))]
        parts += [str(self.num_classes), *map(_tensor_fingerprint, (self.part, self.is_ood))]
        parts += [] if self.legend is None else [self.legend.fingerprint_text()]
        return fingerprint([np.frombuffer(part.encode(), np.uint8) for part in parts])


# The splits of a dataset share its features and edges, which take longest to hash.
_tensor_fingerprints: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
_structure_fingerprints: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


def _tensor_fingerprint(tensor: Tensor) -> str:
    if tensor not in _tensor_fingerprints:
        _tensor_fingerprints[tensor] = hash_features(tensor) if is_sparse(tensor) else fingerprint([tensor.numpy()])
    return _tensor_fingerprints[tensor]


def fingerprint(arrays: Iterable[np.ndarray | np.generic]) -> str:
    """Return a hash of the contents, shapes and types of arrays."""
    digest = hashlib.blake2b(digest_size=16)
    for array in map(np.asarray, arrays):
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


# For each field: numbers of dimensions, types that are kept (others are cast to the first), description in messages.
_TENSOR_FIELDS: dict[str, tuple[tuple[int, ...], tuple[torch.dtype, ...], str]] = {
    "features": ((2,), (torch.float32, torch.float64), "a matrix of real numbers, one row per node"),
    "edge_index": ((2,), (torch.int64,), "two rows of integers, source and target"),
    "labels": ((1,), (torch.int64,), "a vector of integers"),
    "part": ((1,), (torch.int8, torch.int16, torch.int32, torch.int64), "a vector of integers, each a `Part`"),
    "is_ood": ((1,), (torch.bool,), "a vector of booleans"),
    "official_part": ((1, 2), (torch.int8, torch.int16, torch.int32, torch.int64), "integers, each a `Part`"),
}


def _to_tensor(name: str, array: ArrayLike) -> Tensor:
    """Return the value of a field as a tensor; integers may be cast to real numbers, but not vice versa."""
    dimensions, dtypes, expected = _TENSOR_FIELDS[name]
    try:
        tensor = torch.as_tensor(array)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"{name} is a {type(array).__name__} that is not an array", expected=expected) from None
    is_castable = torch.can_cast(tensor.dtype, dtypes[0]) and (tensor.layout is torch.strided or name == "features")
    if tensor.dim() not in dimensions or not is_castable or (name == "edge_index" and tensor.shape[0] != 2):
        kind = f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"
        raise InputError(f"{name} is {kind}", expected=expected)
    if tensor.layout is not torch.strided:
        return _to_sparse(tensor)
    return tensor if tensor.dtype in dtypes else tensor.to(dtypes[0])


def _to_sparse(features: Tensor) -> Tensor:
    try:
        return to_canonical(features)
    except ValueError as error:
        raise InputError(f"features are an invalid sparse tensor: {error}", expected="COO, CSR or CSC") from None


def _check_edges(edge_index: Tensor, num_nodes: int) -> None:
    if edge_index.numel() and (edge_index.min() < 0 or edge_index.max() >= num_nodes):
        bad = int(edge_index.min()) if edge_index.min() < 0 else int(edge_index.max())
        raise InputError(
            f"an edge refers to node {bad}, which does not exist",
            expected=f"node indices from 0 to {num_nodes - 1}",
            hint="check the edge list, and whether node numbers start at 1",
        )


def _check_features(features: Tensor) -> None:
    if features.shape[1] == 0:
        raise InputError("the nodes have no features", expected="at least one feature column")
    if (entry := find_not_finite(features)) is not None:
        node, column, value = entry
        raise InputError(
            f"feature {column} of node {node} is {value}",
            expected="finite numbers",
            hint="fill or drop missing values before building the graph",
        )


def _check_labels(labels: Tensor, num_classes: int, is_ood: Tensor) -> None:
    if num_classes < 2:
        raise InputError(f"the graph has {num_classes} class(es)", expected="at least 2 classes")
    bad = (labels < -1) | ((labels >= num_classes) & ~is_ood)
    if bool(bad.any()):
        node = int(torch.nonzero(bad)[0])
        raise InputError(
            f"node {node} has label {int(labels[node])}",
            expected=f"labels from 0 to {num_classes - 1}, or -1 where the class is unknown",
            hint="renumber the classes without gaps",
        )
