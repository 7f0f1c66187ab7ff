"""The one graph type that every later room reads."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from lopgpn_exp.errors import InputError
from lopgpn_exp.graph.legend import Legend

ArrayLike = Any  # a tensor, a numpy array, a nested list


class Part(IntEnum):
    """Which part of the split a node belongs to."""

    NONE = 0
    TRAIN = 1
    VAL = 2
    TEST = 3


def undirected_edges(edge_index: Int[Tensor, "2 any"], num_nodes: int) -> Int[Tensor, "2 edges"]:
    """Both directions of each edge once, without self loops, sorted by source then target."""
    _check_edges(edge_index, num_nodes)
    source, target = edge_index.numpy().astype(np.int64)
    keep = source != target
    source, target = source[keep], target[keep]
    keys = sorted_unique(np.concatenate([source * num_nodes + target, target * num_nodes + source]))
    return torch.from_numpy(np.stack([keys // num_nodes, keys % num_nodes]))


def sorted_unique(keys: Int[np.ndarray, " any"]) -> Int[np.ndarray, " unique"]:
    """As `np.unique`, which hashes whole numbers first: six times slower at ten million edges."""
    keys = np.sort(keys)
    return keys[np.concatenate([[True], keys[1:] != keys[:-1]])] if len(keys) else keys


@dataclass(frozen=True, eq=False)
class Graph:
    """An undirected attributed graph with its split. Frozen: every change makes a new one.

    Args:
        features: one row a node, finite.
        edge_index: both directions of each edge once, no self loops, sorted (see `undirected_edges`).
        labels: class of each node, -1 where unknown. A left-out class keeps its label, which is then
            at least `num_classes` and only allowed where `is_ood`.
        num_classes: how many classes a model of this graph distinguishes.
        part: `Part` of each node.
        is_ood: nodes that a scenario made out-of-distribution.
        official_part: the split that came with the data, where there is one.
        legend: the user's own names of nodes, classes and features, where the data came with any.
    """

    features: Float[Tensor, "nodes features"]
    edge_index: Int[Tensor, "2 edges"]
    labels: Int[Tensor, " labels"]
    num_classes: int
    part: Int[Tensor, " nodes"]
    is_ood: Bool[Tensor, " nodes"]
    official_part: Int[Tensor, " parts"] | None = None
    legend: Legend | None = None

    @classmethod
    def build(
        cls,
        *,
        features: ArrayLike,
        edge_index: ArrayLike,
        labels: ArrayLike,
        num_classes: int | None = None,
        official_part: Int[Tensor, " parts"] | None = None,
        legend: Legend | None = None,
    ) -> Graph:
        """A checked graph from tensors, arrays or lists in any edge order, with no split yet."""
        features = _tensor("features", features, torch.float32, 2, "a matrix of real numbers, one row a node")
        edge_index = _tensor("edge_index", edge_index, torch.int64, 2, "two rows of whole numbers, source and target")
        labels = _tensor("labels", labels, torch.int64, 1, "a vector of whole numbers")
        num_nodes = features.shape[0]
        if num_nodes == 0:
            raise InputError(
                "the graph has no nodes", expected="at least one node", hint="check the file that was read"
            )
        return cls(
            features=features.contiguous(),
            edge_index=undirected_edges(edge_index, num_nodes),
            labels=labels,
            num_classes=int(labels.max()) + 1 if num_classes is None else num_classes,
            part=torch.full((num_nodes,), Part.NONE, dtype=torch.int8),
            is_ood=torch.zeros(num_nodes, dtype=torch.bool),
            official_part=official_part,
            legend=legend,
        )

    def __post_init__(self) -> None:
        _check_edges(self.edge_index, self.num_nodes)
        _check_features(self.features)
        for name in ("labels", "part", "is_ood"):
            if (length := getattr(self, name).shape[0]) != self.num_nodes:
                raise InputError(f"{name} has {length} entries", expected=f"one for each of {self.num_nodes} nodes")
        if self.official_part is not None and self.official_part.shape != self.labels.shape:
            raise InputError(
                f"official_part has {len(self.official_part)} entries",
                expected=f"one for each of {self.num_nodes} nodes",
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
        """Undirected edges."""
        return self.edge_index.shape[1] // 2

    def nodes(self, part: Part) -> Int[Tensor, " chosen"]:
        """Indices of the nodes of a part, ascending."""
        return torch.nonzero(self.part == part).flatten()

    def class_name(self, label: int) -> str:
        """What messages and tables call a class."""
        return str(label) if self.legend is None else repr(self.legend.classes[label])

    def replace(self, **changes: object) -> Graph:
        return replace(self, **changes)  # type: ignore[arg-type]

    @cached_property
    def structure_fingerprint(self) -> str:
        """Hash of the edges alone: what a normalised operator or a PPR matrix depends on."""
        known = _known_structures.setdefault(self.edge_index, {})
        if self.num_nodes not in known:
            known[self.num_nodes] = fingerprint([np.int64(self.num_nodes), self.edge_index.numpy()])
        return known[self.num_nodes]

    @cached_property
    def fingerprint(self) -> str:
        """Hash of everything: two graphs with the same one give the same results."""
        parts = [self.structure_fingerprint, *map(_tensor_fingerprint, (self.features, self.labels))]
        parts += [str(self.num_classes), *map(_tensor_fingerprint, (self.part, self.is_ood))]
        parts += [] if self.legend is None else [self.legend.fingerprint_text()]
        return fingerprint([np.frombuffer(part.encode(), np.uint8) for part in parts])


# Ten splits of a dataset share its features and edges, whose hashes take longest.
_known_fingerprints: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
_known_structures: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


def _tensor_fingerprint(tensor: Tensor) -> str:
    if tensor not in _known_fingerprints:
        _known_fingerprints[tensor] = fingerprint([tensor.numpy()])
    return _known_fingerprints[tensor]


def fingerprint(arrays: Iterable[np.ndarray | np.generic]) -> str:
    """A hash of contents, shapes and types."""
    digest = hashlib.blake2b(digest_size=16)
    for array in map(np.asarray, arrays):
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _tensor(name: str, array: ArrayLike, dtype: torch.dtype, dimensions: int, words: str) -> Tensor:
    """The array as a tensor of this type: whole numbers may become real ones, not vice versa."""
    try:
        tensor = torch.as_tensor(array)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"{name} is a {type(array).__name__} that is no array", expected=words) from None
    castable = torch.can_cast(tensor.dtype, dtype) and tensor.layout is torch.strided
    if tensor.dim() != dimensions or not castable or (name == "edge_index" and tensor.shape[0] != 2):
        found = f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"
        raise InputError(f"{name} is {found}", expected=words)
    return tensor.to(dtype)


def _check_edges(edge_index: Tensor, num_nodes: int) -> None:
    if edge_index.numel() and (edge_index.min() < 0 or edge_index.max() >= num_nodes):
        bad = int(edge_index.min()) if edge_index.min() < 0 else int(edge_index.max())
        raise InputError(
            f"an edge leads to node {bad}, which does not exist",
            expected=f"node indices from 0 to {num_nodes - 1}",
            hint="check the edge list, or whether node numbers start at 1",
        )


def _check_features(features: Tensor) -> None:
    if features.shape[1] == 0:
        raise InputError("the nodes have no features", expected="at least one feature column")
    if bool(torch.isfinite(features.sum(dtype=torch.float64))):  # one pass, and float32 cannot overflow in it
        return
    bad = torch.nonzero(~torch.isfinite(features))
    if len(bad):  # none where float64 features are so large that their sum is not finite
        node, column = bad[0].tolist()
        raise InputError(
            f"feature {column} of node {node} is {features[node, column].item()}",
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
