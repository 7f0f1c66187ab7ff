"""From the user's file to a checked graph with a legend."""

from __future__ import annotations

import logging
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lopgpn_exp.data.custom.npz_file import read_npz_file
from lopgpn_exp.data.custom.pyg_file import read_pyg_file
from lopgpn_exp.data.custom.raw import FORMATS, RawGraph, told_of
from lopgpn_exp.data.custom.scaling import Scaling, columns_of, scaled
from lopgpn_exp.data.custom.survey import survey
from lopgpn_exp.data.custom.tables import TABLES, Columns, read_tables
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Graph, Legend, Part

log = logging.getLogger(__name__)


def custom_graph(
    *,
    path: str | None,
    edges: str | None = None,
    scaling: Scaling = "standard",
    id_column: str = "id",
    label_column: str = "label",
    split_column: str = "split",
    source_column: str = "source",
    target_column: str = "target",
    ignore: list[str] | None = None,
    memory_limit_gib: float | None = None,
) -> Graph:
    """A graph of one's own, with its own names kept, and shown as it was understood.

    Args:
        path: a `.pt` file (PyG Data), an `.npz` file (PyG's citation layout), the table of nodes, or a folder with
            `nodes` and `edges` as CSV or parquet.
        edges: the table of edges, where `path` is that of nodes.
        scaling: `standard`: each column to mean 0 and standard deviation 1; `rows`: each row to sum 1 (counts, bags of
            words); `none`: as in the file.
        id_column, label_column, split_column, source_column, target_column: what the tables call these columns. A
            label or a part of the split may be blank; there need be no split.
        ignore: columns of the table of nodes that are no features.
        memory_limit_gib: refuse a file that could take more; None: more than is free.
    """
    columns = Columns(id_column, label_column, split_column, source_column, target_column, tuple(ignore or ()))
    raw = read_raw(path, edges, columns, memory_limit_gib=memory_limit_gib)
    graph = graph_of(raw, scaling=scaling)
    log.info("%s", survey(graph, source=str(path), notes=raw.notes))
    return graph


def read_like(
    legend: Legend, *, num_classes: int, path: str, edges: str | None = None, columns: Columns | None = None
) -> tuple[Graph, list[str]]:
    """Another version of a graph, understood as the one of `legend` was: same columns, same scale, same classes.

    Labels may be missing, and one that the model never saw counts as unknown; what was passed over is the second
    result. Nodes of classes that were left out at training time are out-of-distribution.
    """
    return graph_like(
        read_raw(path, edges, columns or Columns(), memory_limit_gib=None, like=legend), legend, num_classes=num_classes
    )


def graph_like(raw: RawGraph, legend: Legend, *, num_classes: int) -> tuple[Graph, list[str]]:
    """As `read_like`, of what was read already."""
    _check_names(raw)
    raw = _in_columns_of(raw, legend.features)
    known = {name: number for number, name in enumerate(legend.classes)}
    given = raw.labels or [None] * len(raw.ids)
    strange = sorted({name for name in given if name is not None and name not in known})
    if strange:
        raw.notes.append(f"labels that the model never saw count as unknown: {', '.join(strange[:5])}")
    labels = torch.tensor([known.get(name, -1) if name is not None else -1 for name in given])
    graph = _assembled(raw, replace(legend, nodes=raw.ids), labels, num_classes)
    return graph.replace(part=_part_of(raw)), raw.notes


def read_raw(
    path: str | None,
    edges: str | None,
    columns: Columns,
    *,
    memory_limit_gib: float | None,
    like: Legend | None = None,
) -> RawGraph:
    """What a file says; its kind is told by its name. One that is read like another need have no labels."""
    if not path:
        raise InputError("dataset.path is not set", expected=FORMATS, hint="dataset.path=nodes.csv dataset.edges=...")
    with told_of(Path(path), damage=(OSError, RuntimeError)):
        nodes = Path(path).expanduser()
        other = Path(edges).expanduser() if edges else None
        if not nodes.exists():
            raise FileNotFoundError(nodes)
        if nodes.is_dir():
            nodes, other = _in_folder(nodes, "nodes"), other or _in_folder(nodes, "edges")
    kind = nodes.suffix.lower()
    if kind in TABLES:
        if other is None:
            raise InputError(
                f"{nodes} is a table of nodes, and no edges are named",
                expected="a second table with the columns of source and target",
                hint="dataset.edges=edges.csv",
            )
        if other.suffix.lower() not in TABLES:
            raise InputError(f"dataset.edges is {other}", expected="a .csv or .parquet file")
        return read_tables(
            nodes,
            other,
            columns,
            memory_limit_gib=memory_limit_gib,
            needs_labels=like is None,
            features=None if like is None else like.features,
        )
    readers: dict[str, Any] = {".pt": read_pyg_file, ".pth": read_pyg_file, ".npz": read_npz_file}
    if kind not in readers:
        raise InputError(f"{nodes} is of no kind that is known by its name", expected=FORMATS)
    if other is not None:
        raise InputError(f"dataset.edges is {other}", expected=f"nothing: {nodes} holds the edges too")
    raw = readers[kind](nodes, memory_limit_gib=memory_limit_gib)
    if like is None and raw.labels is None:
        raise InputError(f"{nodes} holds no labels", expected="the class of some nodes, as `y`")
    return raw


def _in_folder(folder: Path, name: str) -> Path:
    found = [folder / f"{name}{suffix}" for suffix in TABLES if (folder / f"{name}{suffix}").is_file()]
    if len(found) != 1:
        raise InputError(
            f"{folder} holds {'no' if not found else 'more than one'} table of {name}",
            expected=f"one of {', '.join(name + suffix for suffix in TABLES)}",
            hint="dataset.path=nodes.csv dataset.edges=edges.csv",
        )
    return found[0]


def graph_of(raw: RawGraph, *, scaling: Scaling = "standard") -> Graph:
    """A graph that a model can be trained on: classes numbered in their order, features scaled by its own columns."""
    _check_names(raw)
    classes = raw.classes or _in_order({name for name in raw.labels or () if name is not None})
    if len(set(raw.labels or ()) - {None}) < 2:
        told = "no node has a label" if not classes else f"all labels are {classes[0]!r}"
        raise InputError(told, expected="labels of at least 2 classes, blank where the class is unknown")
    shift, scale = columns_of(raw.features) if scaling == "standard" else (None, None)
    legend = Legend(raw.ids, classes, raw.feature_names, scaling, shift, scale)
    number = {name: at for at, name in enumerate(classes)}
    labels = torch.tensor([-1 if name is None else number[name] for name in raw.labels or ()])
    graph = _assembled(raw, legend, labels, len(classes))
    part = _part_of(raw)
    if raw.part is not None:
        unlabelled = (part != Part.NONE) & (labels < 0)
        if bool((unlabelled & (part != Part.TEST)).any()):
            node = raw.ids[int(torch.nonzero(unlabelled & (part != Part.TEST))[0])]
            raise InputError(
                f"node {node!r} is to train or validate, and has no label",
                expected="a label, or a blank split, for such nodes",
            )
        graph = graph.replace(official_part=part)
    return graph


def _assembled(raw: RawGraph, legend: Legend, labels: torch.Tensor, num_classes: int) -> Graph:
    features = scaled(raw.features, legend)
    left_out = labels >= num_classes
    built = Graph.build(
        features=features,
        edge_index=raw.edges,
        labels=labels.masked_fill(left_out, -1),
        num_classes=num_classes,
        legend=legend,
    )
    return built.replace(labels=labels, is_ood=left_out)


def _part_of(raw: RawGraph) -> torch.Tensor:
    part = np.full(len(raw.ids), Part.NONE, dtype=np.int8) if raw.part is None else raw.part
    return torch.from_numpy(part)


def _in_order(names: set[str]) -> tuple[str, ...]:
    """As numbers where all are; else as texts."""
    numbers = all(re.fullmatch(r"-?\d+(\.\d+)?", name, re.ASCII) for name in names)
    return tuple(sorted(names, key=lambda name: (float(name), name) if numbers else (0.0, name)))


def _in_columns_of(raw: RawGraph, wanted: tuple[str, ...]) -> RawGraph:
    """The features in the order of the model's, found by their names where both have some."""
    given = raw.feature_names
    if given == wanted:
        return raw
    if set(given) == set(wanted):
        return replace(raw, features=raw.features[:, [given.index(name) for name in wanted]], feature_names=wanted)
    numbered = tuple(str(at) for at in range(len(wanted)))
    if len(given) != len(wanted) or numbered not in (given, wanted):
        strange = next((name for name in given if name not in wanted), "")
        raise InputError(
            f"the graph has {len(given)} features" + (f", one of them {strange!r}" if strange else ""),
            expected=f"the {len(wanted)} that the model was trained on, such as {wanted[0]!r}",
        )
    return raw


def _check_names(raw: RawGraph) -> None:
    """Tables are keyed by ids, and classes are told by their names: none may be there twice."""
    for what, names in (("id", raw.ids.tolist()), ("class", raw.classes or ())):
        if len(set(map(str, names))) < len(names):
            twice, _ = Counter(map(str, names)).most_common(1)[0]
            raise InputError(f"the {what} {twice!r} is there more than once", expected=f"each {what} once")
