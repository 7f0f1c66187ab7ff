"""The content of a user's file, whatever its format, and the graph built from it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

import numpy as np
import torch
from jaxtyping import Int, Shaped

from lopgpn_exp.data.auto_scaling import ScalingChoice, choose_scaling
from lopgpn_exp.data.files.memory import check_memory, estimate_feature_bytes
from lopgpn_exp.data.scaling import RawMatrix, Scaling, column_statistics, scale_features
from lopgpn_exp.errors import InputError, check_parameter
from lopgpn_exp.graph import Graph, Legend, Part

MAX_NAME = 1000


@dataclass
class RawGraph:
    """A graph as read, nodes in the order of the file.

    Args:
        features: a dense matrix or, if most values are zero, a sparse one in canonical form.
        edges: node indices as given: directed or not, repeated or not.
        labels: class name of each node, None where it is unknown; None if the file has no labels at all.
        part: `Part` of each node, if the file contains a split.
        classes: names of all classes in order, if the file contains them.
        notes: what was ignored while reading, to be shown to the user.
        unlabelled: what stands in the file for the label of a node whose class is unknown.
    """

    ids: Shaped[np.ndarray, " nodes"]
    features: RawMatrix
    feature_names: tuple[str, ...]
    edges: Int[np.ndarray, "2 edges"]
    labels: list[str | None] | None
    part: Int[np.ndarray, " nodes"] | None = None
    classes: tuple[str, ...] | None = None
    notes: list[str] = field(default_factory=list)
    unlabelled: str = "-1"


def name_labels(numbers: list[int], classes: Sequence[str] | None) -> list[str | None]:
    """Return the class name of each label, None where the label is negative."""
    if classes is not None and numbers and max(numbers) >= len(classes):
        raise InputError(
            f"there is a label {max(numbers)}, but there are {len(classes)} class_names",
            expected=f"labels less than {len(classes)}",
        )
    return [None if number < 0 else str(number if classes is None else classes[number]) for number in numbers]


def build_graph(raw: RawGraph, *, scaling: Scaling = "auto", memory_limit_gib: float | None = None) -> Graph:
    """Return a graph to train on: classes numbered in order, features scaled by their own statistics.

    The legend of the graph holds the scaling that was chosen if `scaling` is `auto`.
    """
    is_valid = scaling in get_args(Scaling)
    check_parameter("scaling", scaling, is_valid, expected=", ".join(get_args(Scaling)), suggestion="auto")
    _check_names(raw)
    labels = raw.labels or []
    classes = raw.classes or _sort_classes({name for name in labels if name is not None})
    if len(set(labels) - {None}) < 2:
        raise InputError(
            "no node has a label" if not classes else f"all labels are {classes[0]!r}",
            expected=f"labels of at least 2 classes, and {raw.unlabelled} where the class is unknown",
        )
    choice = ScalingChoice(scaling, "") if scaling != "auto" else choose_scaling(raw.features, raw.feature_names)
    raw = _to_layout(raw, choice.scaling, memory_limit_gib)
    shift, scale = column_statistics(raw.features) if choice.scaling == "standard" else (None, None)
    legend = Legend(raw.ids, classes, raw.feature_names, choice.scaling, shift, scale, raw.unlabelled, choice.sentence)
    graph = _assemble(raw, legend, _number_labels(labels, classes), len(classes))
    if raw.part is None:
        return graph
    part = torch.from_numpy(raw.part)
    unusable = (graph.labels < 0) & ((part == Part.TRAIN) | (part == Part.VAL))
    if bool(unusable.any()):
        node = raw.ids.tolist()[int(torch.nonzero(unusable)[0])]
        raise InputError(
            f"node {node!r} is in the training or validation part of the split but has no label",
            expected="a label, or no part of the split, for such nodes",
        )
    return graph.replace(official_part=part)


def build_graph_like(raw: RawGraph, legend: Legend, *, num_classes: int) -> tuple[Graph, list[str]]:
    """Return another version of the graph that `legend` describes, and notes about what was ignored.

    Columns, scaling and classes are those of the legend. Missing and new labels count as unknown; nodes of classes that
    were left out of training are out-of-distribution.
    """
    _check_names(raw)
    raw = _to_layout(_reorder_features(raw, legend.features), legend.scaling, None)
    labels = raw.labels or [None] * len(raw.ids)
    counts = Counter(name for name in labels if name is not None)
    if new_classes := sorted(set(counts) - set(legend.classes)):
        raw.notes.append(f"labels that the model does not know count as missing: {_count_names(new_classes, counts)}")
    if left_out := sorted(set(counts) & set(legend.classes[num_classes:])):
        raw.notes.append(f"labels of classes that were left out of training: {_count_names(left_out, counts)}")
    numbers = _number_labels(labels, legend.classes)
    graph = _assemble(raw, replace(legend, nodes=raw.ids), numbers, num_classes)
    return graph if raw.part is None else graph.replace(part=torch.from_numpy(raw.part)), raw.notes


def _count_names(names: list[str], counts: Mapping[str, int]) -> str:
    """Return up to five names with their numbers of nodes, and how many names there are beyond these."""
    shown = ", ".join(f"{name} ({counts[name]:,})" for name in names[:5])
    return shown + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")


def _to_layout(raw: RawGraph, scaling: str, memory_limit_gib: float | None) -> RawGraph:
    """Return the graph with dense features if the scaling needs them and the memory suffices."""
    if scaling != "standard" or isinstance(raw.features, np.ndarray):
        return raw
    num_nodes, num_features = raw.features.shape
    content = f"{num_nodes:,} nodes with {num_features:,} features, without zeros after scaling 'standard'"
    num_bytes = estimate_feature_bytes(num_nodes, num_features)
    check_memory("the features", content, num_bytes, limit_gib=memory_limit_gib)
    return replace(raw, features=raw.features.toarray())


def _number_labels(labels: list[str | None], classes: tuple[str, ...]) -> torch.Tensor:
    """Return the index of each node's class, -1 if it is missing or not in `classes`."""
    numbers: dict[str | None, int] = {name: number for number, name in enumerate(classes)}
    return torch.tensor([numbers.get(name, -1) for name in labels])


def _assemble(raw: RawGraph, legend: Legend, labels: torch.Tensor, num_classes: int) -> Graph:
    """Return the graph; labels from `num_classes` on are left-out classes, and thus out-of-distribution."""
    is_left_out = labels >= num_classes
    graph = Graph.build(
        features=scale_features(raw.features, legend),
        edge_index=raw.edges,
        labels=labels.masked_fill(is_left_out, -1),
        num_classes=num_classes,
        legend=legend,
    )
    return graph.replace(labels=labels, is_ood=is_left_out)


def _sort_classes(names: set[str]) -> tuple[str, ...]:
    """Sort names as numbers if all of them are, otherwise as strings."""
    are_numbers = all(re.fullmatch(r"-?\d+(\.\d+)?", name, re.ASCII) for name in names)
    return tuple(sorted(names, key=lambda name: (float(name), name) if are_numbers else (0.0, name)))


def _reorder_features(raw: RawGraph, expected: tuple[str, ...]) -> RawGraph:
    """Return the graph with its feature columns in the expected order, matched by name if both have names."""
    names = raw.feature_names
    if names == expected:
        return raw
    position, trained_names = {name: index for index, name in enumerate(names)}, set(expected)
    if len(position) == len(names) == len(expected) and position.keys() == trained_names:
        order = [position[name] for name in expected]
        return replace(raw, features=raw.features[:, order], feature_names=expected)
    unnamed = tuple(str(column) for column in range(len(expected)))
    if len(names) != len(expected) or unnamed not in (names, expected):
        extra = next((name for name in names if name not in trained_names), "")
        raise InputError(
            f"the graph has {len(names)} features" + (f", one of them {extra!r}" if extra else ""),
            expected=f"the {len(expected)} features that the model was trained on, such as {expected[0]!r}",
        )
    return raw


def _check_names(raw: RawGraph) -> None:
    """Raise an InputError if names are unsuitable for tables and messages, or ids or classes are not unique."""
    classes = raw.classes or tuple({name for name in raw.labels or () if name is not None})
    for kind, names in (("id", raw.ids.tolist()), ("class", classes), ("feature", raw.feature_names)):
        texts = list(map(str, names))
        if unsuitable := next((text for text in texts if len(text) > MAX_NAME or not _is_unicode(text)), None):
            raise InputError(
                f"the {kind} {unsuitable[:40]!a}... has {len(unsuitable):,} characters, or invalid ones",
                expected=f"up to {MAX_NAME:,} valid characters: is a closing quote missing?",
            )
        if kind != "feature" and len(set(texts)) < len(texts):
            repeated, _ = Counter(texts).most_common(1)[0]
            raise InputError(f"the {kind} {repeated!r} occurs more than once", expected=f"each {kind} once")


def _is_unicode(text: str) -> bool:
    """Return whether the text can be written: files of torch and numpy may contain half characters (surrogates)."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
