"""Read two tables: nodes (id, label, split, features) and edges (source, target)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lopgpn_exp.data.files.feature_columns import FeatureColumns, NotNumbersError
from lopgpn_exp.data.files.memory import check_memory, estimate_feature_bytes, estimate_sparse_bytes
from lopgpn_exp.data.files.raw_graph import RawGraph
from lopgpn_exp.data.files.table_file import (
    TABLE_ERRORS,
    TABLE_FORMATS,
    TableFile,
    TableSource,
    empty_table_error,
    is_number,
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
from lopgpn_exp.data.scaling import RawMatrix
from lopgpn_exp.errors import InputError, nearest
from lopgpn_exp.graph import Part
from lopgpn_exp.graph.features import SPARSE_BELOW

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
SMALL_TABLE_BYTES = 2**24


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
    nodes_file: TableSource,
    edges_file: TableSource,
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
        check_size = _SizeCheck(nodes_file, edges_file, file, feature_names, memory_limit_gib)
        table, matrix = _read_nodes(file, others, feature_names, check_size)
        id_column = read_ids(table, columns.id)
        keys = _build_unique_keys(id_column, columns.id)
        ids = np.array(id_column.to_pylist(), dtype=object) if is_text(id_column.type) else id_column.to_numpy()
        labels = read_texts(table, columns.label) if columns.label in others else None
        part = _read_parts(table, columns.split, ids) if columns.split in others else None
    with wrap_read_errors(edges_file, expected=TABLE_FORMATS, parameter="edges", errors=TABLE_ERRORS):
        edges, edge_notes = _read_edges(edges_file, columns, keys)
    return RawGraph(
        ids, matrix, tuple(feature_names), edges, labels, part, notes=notes + edge_notes, unlabelled="a blank cell"
    )


class _SizeCheck:
    """Checks whether the memory is enough, by an estimate before reading and by the features read so far."""

    def __init__(
        self,
        nodes_file: TableSource,
        edges_file: TableSource,
        file: TableFile,
        features: Sequence[str],
        limit_gib: float | None,
    ) -> None:
        self._source, self._limit_gib = str(nodes_file), limit_gib
        self._content = f"about {file.num_rows:,} nodes with {len(features):,} features"
        # 200 bytes for the id and the label of a node; edges take ten times the size of their file.
        self._other_bytes = 200 * file.num_rows + 10 * _count_file_bytes(edges_file)
        self._checked_bytes = 0
        self(_estimate_features(file, features))

    def __call__(self, feature_bytes: int) -> None:
        """Raise an InputError if features of this size need too much memory."""
        if feature_bytes > self._checked_bytes:
            self._checked_bytes = 2 * feature_bytes  # the free memory is read again when the features have doubled
            check_memory(self._source, self._content, feature_bytes + self._other_bytes, limit_gib=self._limit_gib)


def _count_file_bytes(source: TableSource) -> int:
    return source.stat().st_size if isinstance(source, Path) and source.is_file() else 0


def _estimate_features(file: TableFile, features: Sequence[str]) -> int:
    """Return an estimate of the memory for features, which considers zeros unless the table is small."""
    num_bytes = estimate_feature_bytes(file.num_rows, len(features))
    if num_bytes < SMALL_TABLE_BYTES:
        return num_bytes
    density = file.sample_density(features)
    num_entries = int(density * file.num_rows * len(features))
    return num_bytes if density >= SPARSE_BELOW else estimate_sparse_bytes(file.num_rows, num_entries)


def _read_nodes(
    file: TableFile, others: Sequence[str], features: Sequence[str], check_size: Callable[[int], None]
) -> tuple[pa.Table, RawMatrix]:
    """Return the columns that are not features as a table, and the features as a matrix."""
    if not features:
        raise InputError(
            "there are no feature columns",
            expected="at least one column of numbers; if there are none, add a column of ones and use gkde or "
            "matern_ggp, which need no features",
        )
    columns = list(dict.fromkeys([*others, *features]))
    try:
        try:
            return _collect(file.stream(columns, text_columns=others), others, features, check_size)
        except (pa.ArrowInvalid, UnicodeError):  # not a number, or damaged: let the types be inferred
            table = read_table(file, columns, text_columns=others)
            return _collect(iter(table.to_batches()), others, features, check_size)
    except NotNumbersError as error:
        name = str(error)
        table = read_table(file, [others[0], name], text_columns=others)
        raise _column_error(table[name].combine_chunks(), name, read_ids(table, others[0]).to_pylist()) from None


def _collect(
    batches: Iterator[pa.RecordBatch],
    others: Sequence[str],
    features: Sequence[str],
    check_size: Callable[[int], None],
) -> tuple[pa.Table, RawMatrix]:
    feature_columns, rest = FeatureColumns(features), []
    for batch in batches:
        feature_columns.add(batch)
        rest.append(batch.select(others))
        check_size(feature_columns.required_bytes)
    if not rest:
        raise empty_table_error()
    return pa.Table.from_batches(rest), feature_columns.take_matrix()


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


def _column_error(column: pa.Array, name: str, ids: Sequence[object]) -> InputError:
    """Return the error about a feature column that contains blanks or something else than numbers."""
    if not (pa.types.is_boolean(column.type) or pa.types.is_null(column.type) or is_number(column.type)):
        return InputError(
            f"the column {name!r} contains {_describe_text(column, ids)}, which is not a number",
            expected="numbers in every feature column: encode categories as columns of 0 and 1, or ignore them",
            parameter="ignore",
            suggestion=[name],
        )
    row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
    return InputError(
        f"{name!r} of node {ids[row]!r} is blank ({column.null_count} blank in this column)",
        expected="a number in every row: fill the blanks, or ignore the column",
        parameter="ignore",
        suggestion=[name],
    )


def _describe_text(column: pa.Array, ids: Sequence[object]) -> str:
    """Describe the first value that is not a number."""
    for node, scalar in zip(ids, column, strict=True):  # not a list, which might need a lot of memory
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


def _read_edges(source: TableSource, columns: Columns, keys: pa.Array) -> tuple[np.ndarray, list[str]]:
    """Return the node indices of the edges, and notes about columns that are not used."""
    ends = (columns.source, columns.target)
    if ends[0] == ends[1]:
        raise InputError(
            f"source_column and target_column are both {ends[0]!r}",
            expected="two columns",
            parameter="target_column",
            suggestion="NAME",
        )
    file = open_table(source)
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
