"""Read two tables: nodes (id, label, split, features) and edges (source, target)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lopgpn_exp.data.files.memory import check_memory, estimate_feature_bytes
from lopgpn_exp.data.files.raw_graph import RawGraph
from lopgpn_exp.data.files.table_file import (
    TABLE_ERRORS,
    TABLE_FORMATS,
    is_text,
    join_names,
    open_table,
    read_ids,
    read_table,
    read_texts,
    require_column,
    to_keys,
)
from lopgpn_exp.data.safe_load import wrap_read_errors
from lopgpn_exp.errors import InputError, nearest
from lopgpn_exp.graph import Part

PARTS = {
    "train": Part.TRAIN,
    "training": Part.TRAIN,
    "val": Part.VAL,
    "valid": Part.VAL,
    "validation": Part.VAL,
    "test": Part.TEST,
    "none": Part.NONE,
    "": Part.NONE,
}


@dataclass(frozen=True)
class Columns:
    """Names of the columns of the two tables that are not features."""

    id: str = "id"
    label: str = "label"
    split: str = "split"
    source: str = "source"
    target: str = "target"
    ignore: tuple[str, ...] = ()

    def select_features(self, names: Sequence[str]) -> list[str]:
        """Return the columns of the table of nodes that are features."""
        others = {self.id, self.label, self.split, *self.ignore}
        return [name for name in names if name not in others]


def read_tables(
    nodes_file: Path,
    edges_file: Path,
    columns: Columns,
    *,
    memory_limit_gib: float | None,
    needs_labels: bool = True,
    features: Sequence[str] | None = None,
) -> RawGraph:
    """Read a graph from two tables; `features` are the feature columns to read, in order (None: all)."""
    with wrap_read_errors(nodes_file, expected=TABLE_FORMATS, errors=TABLE_ERRORS):
        file = open_table(nodes_file)
        require_column(file.names, columns.id, "the id of each node", "id_column")
        if needs_labels:
            require_column(file.names, columns.label, "the label of each node", "label_column")
        feature_names, notes = _choose_features(file.names, columns, features)
        others = [name for name in (columns.id, columns.label, columns.split) if name in file.names]
        _check_size(nodes_file, edges_file, file.num_rows, len(feature_names), memory_limit_gib)
        table = read_table(file, list(dict.fromkeys([*others, *feature_names])), text_columns=others)
        id_column = read_ids(table, columns.id)
        keys = _build_unique_keys(id_column, columns.id)
        ids = np.array(id_column.to_pylist(), dtype=object) if is_text(id_column.type) else id_column.to_numpy()
        matrix = _read_features(table, feature_names, ids)
        labels = read_texts(table, columns.label) if columns.label in others else None
        part = _read_parts(table, columns.split, ids) if columns.split in others else None
    with wrap_read_errors(edges_file, expected=TABLE_FORMATS, parameter="edges", errors=TABLE_ERRORS):
        edges, edge_notes = _read_edges(edges_file, columns, keys)
    return RawGraph(
        ids, matrix, tuple(feature_names), edges, labels, part, notes=notes + edge_notes, unlabelled="a blank cell"
    )


def _check_size(nodes_file: Path, edges_file: Path, num_rows: int, num_features: int, limit_gib: float | None) -> None:
    # 200 bytes for the id and the label of a node; edges take ten times the size of their file.
    num_other_bytes = 200 * num_rows + (10 * edges_file.stat().st_size if edges_file.is_file() else 0)
    num_bytes = estimate_feature_bytes(num_rows, num_features) + num_other_bytes
    content = f"about {num_rows:,} nodes with {num_features:,} features"
    check_memory(nodes_file, content, num_bytes, limit_gib=limit_gib)


def _choose_features(
    names: Sequence[str], columns: Columns, requested: Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """Return the feature columns, and notes about columns that are not used."""
    if unknown := [name for name in columns.ignore if name not in names]:
        close = nearest(unknown[0], names)
        raise InputError(
            f"ignore contains {unknown[0]!r}, which is not a column",
            expected=f"any of {join_names(names)}",
            parameter="ignore",
            suggestion=[close] if close else [],
        )
    available = columns.select_features(names)
    if requested is None:
        return available, []
    existing = set(available)
    if missing := [name for name in requested if name not in existing]:
        more = f" (and {len(missing) - 1} more are missing)" if len(missing) > 1 else ""
        raise InputError(
            f"there is no column {missing[0]!r}{more}",
            expected=f"the {len(requested)} feature columns that the model was trained on",
        )
    used = set(requested)
    unused = [name for name in available if name not in used]
    return list(requested), [f"columns that the model was not trained on: {join_names(unused)}"] if unused else []


def _build_unique_keys(column: pa.Array, name: str) -> pa.Array:
    keys = to_keys(column)
    counts = pc.value_counts(keys)
    repeated = counts.filter(pc.greater(counts.field("counts"), 1))
    if len(repeated):
        key = repeated.field("values")[0]
        rows = pc.indices_nonzero(pc.equal(keys, key)).to_pylist()
        raise InputError(
            f"the {name} {key.as_py()!r} is in rows {rows[0] + 1} and {rows[1] + 1} ({len(repeated)} repeated ids)",
            expected="each id once",
        )
    return keys


def _read_features(table: pa.Table, names: Sequence[str], ids: np.ndarray) -> np.ndarray:
    if not names:
        raise InputError(
            "there are no feature columns",
            expected="at least one column of numbers; if there are none, add a column of ones and use gkde or "
            "matern_ggp, which need no features",
        )
    matrix = np.empty((table.num_rows, len(names)))
    for index, name in enumerate(names):
        column = table[name].combine_chunks()
        is_flag = pa.types.is_boolean(column.type)
        if not (is_flag or pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
            raise InputError(
                f"the column {name!r} contains {_describe_text(column, ids)}, which is not a number",
                expected="numbers in every feature column: encode categories as columns of 0 and 1, or ignore them",
                parameter="ignore",
                suggestion=[name],
            )
        if column.null_count:
            row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
            raise InputError(
                f"{name!r} of node {ids.tolist()[row]!r} is blank ({column.null_count} blank in this column)",
                expected="a number in every row: fill the blanks, or ignore the column",
                parameter="ignore",
                suggestion=[name],
            )
        matrix[:, index] = column.cast(pa.int8()) if is_flag else column.to_numpy(zero_copy_only=False)
    return matrix


def _describe_text(column: pa.Array, ids: np.ndarray) -> str:
    """Describe the first value that is not a number."""
    for node, scalar in zip(ids.tolist(), column, strict=True):  # not a list, which might need a lot of memory
        value = scalar.as_py()
        try:
            float(value)
        except (TypeError, ValueError):
            if value is not None:
                return f"{str(value)[:40]!r} (node {node!r})"
    return f"values of type {column.type}"


def _read_parts(table: pa.Table, name: str, ids: np.ndarray) -> np.ndarray:
    parts = [(text or "").lower() for text in read_texts(table, name)]
    for row, part in enumerate(parts):
        if part not in PARTS:
            raise InputError(
                f"the {name} of node {ids.tolist()[row]!r} is {part!r}",
                expected="train, val, test or blank, or another column that holds the split",
                parameter="split_column",
                suggestion="NAME",
            )
    return np.array([PARTS[part] for part in parts], dtype=np.int8)


def _read_edges(path: Path, columns: Columns, keys: pa.Array) -> tuple[np.ndarray, list[str]]:
    """Return the node indices of the edges, and notes about columns that are not used."""
    ends = (columns.source, columns.target)
    if ends[0] == ends[1]:
        raise InputError(
            f"source_column and target_column are both {ends[0]!r}",
            expected="two columns",
            parameter="target_column",
            suggestion="NAME",
        )
    file = open_table(path)
    require_column(file.names, columns.source, "the first node of each edge", "source_column")
    require_column(file.names, columns.target, "the second node of each edge", "target_column")
    table = read_table(file, ends, text_columns=ends)
    indices = np.stack([_find_nodes(read_ids(table, name), name, keys) for name in ends]).astype(np.int64)
    unused = [name for name in file.names if name not in ends]
    return indices, [f"columns of the edges that are not used: {join_names(unused)}"] if unused else []


def _find_nodes(ids: pa.Array, name: str, keys: pa.Array) -> np.ndarray:
    """Return the index of each id in `keys`."""
    indices = pc.index_in(to_keys(ids), value_set=keys)
    if indices.null_count:
        rows = np.flatnonzero(indices.is_null().to_numpy(zero_copy_only=False))
        first = int(rows[0])
        raise InputError(
            f"the {name} {ids[first].as_py()!r} in row {first + 1} is not a node; "
            f"{len(rows)} of {len(ids)} rows refer to missing nodes",
            expected="ids from the table of nodes",
            hint="add these nodes, or remove their edges",
        )
    return indices.to_numpy()
