"""Two tables: nodes (id, label, split, features) and edges (source, target), as CSV or parquet."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv
import pyarrow.parquet as pq

from lopgpn_exp.data.custom.memory import check_memory, feature_bytes
from lopgpn_exp.data.custom.raw import PARTS, RawGraph, told_of
from lopgpn_exp.errors import InputError, nearest

TABLES = (".csv", ".tsv", ".txt", ".parquet")
DAMAGE = (OSError, ValueError, KeyError, TypeError, pa.ArrowException)
SAMPLE = 2**20  # bytes from which the rows of a CSV file are estimated


@dataclass(frozen=True)
class Columns:
    """What the columns with a meaning are called; every other one is a feature."""

    id: str = "id"
    label: str = "label"
    split: str = "split"
    source: str = "source"
    target: str = "target"
    ignore: tuple[str, ...] = ()


def read_tables(
    nodes: Path,
    edges: Path,
    columns: Columns,
    *,
    memory_limit_gib: float | None,
    needs_labels: bool = True,
    features: Sequence[str] | None = None,
) -> RawGraph:
    """`features` are the columns to read as such, in their order; None: all that have no other meaning."""
    with told_of(nodes, damage=DAMAGE):
        _check_size(nodes, edges, columns, memory_limit_gib)
        table = _read(nodes, texts=(columns.id, columns.label, columns.split))
        _need(table, columns.id, "id", "id_column")
        if needs_labels:
            _need(table, columns.label, "label", "label_column")
        column = _id_column(table, columns.id)
        keys = _keys(column, columns.id)
        ids = np.array(column.to_pylist(), dtype=object) if _is_text(column.type) else column.to_numpy()
        named = table.column_names
        chosen, notes = _feature_columns(named, columns, features)
        matrix = _features(table, chosen, ids)
        labels = _texts(table, columns.label) if columns.label in named else None
        part = _part(table, columns.split, ids) if columns.split in named else None
    with told_of(edges, damage=DAMAGE, option="dataset.edges"):
        links, more = _edges(edges, columns, keys)
    return RawGraph(ids, matrix, tuple(chosen), links, labels, part, notes=notes + more)


def _feature_columns(
    named: Sequence[str], columns: Columns, wanted: Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """Names of the features, and what is said of columns that are none."""
    if unknown := [name for name in columns.ignore if name not in named]:
        close = nearest(unknown[0], named)
        raise InputError(
            f"dataset.ignore names {unknown[0]!r}, which is no column",
            expected="some of " + _listed(named),
            hint=f"dataset.ignore=[{close}]" if close else "",
        )
    meant = {columns.id, columns.label, columns.split, *columns.ignore}
    left = [name for name in named if name not in meant]
    if wanted is None:
        return left, []
    if missing := [name for name in wanted if name not in left]:
        raise InputError(
            f"there is no column {missing[0]!r}" + (f", nor {len(missing) - 1} more" if len(missing) > 1 else ""),
            expected=f"the {len(wanted)} feature columns that the model was trained on",
        )
    others = [name for name in left if name not in set(wanted)]
    return list(wanted), [f"columns that the model does not know: {_listed(others)}"] if others else []


def _check_size(nodes: Path, edges: Path, columns: Columns, limit: float | None) -> None:
    num_rows, names = _shape(nodes)
    width = len([n for n in names if n not in {columns.id, columns.label, columns.split, *columns.ignore}])
    others = 200 * num_rows + (10 * edges.stat().st_size if edges.is_file() else 0)  # ids and labels; edges, twice
    what = f"about {num_rows:,} nodes with {width:,} features"
    check_memory(nodes, what, feature_bytes(num_rows, width) + others, limit_gib=limit)


def _shape(path: Path) -> tuple[int, list[str]]:
    """Rows (of a CSV file: about how many) and column names, without reading the table."""
    if path.suffix == ".parquet":
        described = pq.ParquetFile(path)
        return described.metadata.num_rows, described.schema_arrow.names
    with path.open("rb") as file:
        sample = file.read(SAMPLE)
    header, _, rest = sample.partition(b"\n")
    lines = max(rest.count(b"\n"), 1)
    rows = (path.stat().st_size - len(header)) * lines / max(len(rest), 1)
    return int(rows), header.decode("utf-8", "replace").strip().split(_delimiter(path))


def _delimiter(path: Path) -> str:
    """That of comma, semicolon and tab which the header holds most often."""
    with path.open("rb") as file:
        header = file.readline(SAMPLE)
    return max(",;\t", key=lambda sign: header.count(sign.encode()))


def _read(path: Path, *, texts: Sequence[str]) -> pa.Table:
    """A table whose columns `texts` are kept as they are written: the id 007 is not the number 7."""
    if path.suffix == ".parquet":
        table = pq.read_table(path)
    else:
        table = pv.read_csv(
            path,
            parse_options=pv.ParseOptions(delimiter=_delimiter(path)),
            convert_options=pv.ConvertOptions(
                column_types=dict.fromkeys(texts, pa.string()), null_values=["", "NA", "NaN", "nan"]
            ),
        )
    names = table.column_names
    if repeated := [name for name in names if names.count(name) > 1]:
        raise InputError(f"the column {repeated[0]!r} is there twice", expected="each column once")
    if any(not name.strip() for name in names):
        raise InputError(
            f"column {names.index(next(n for n in names if not n.strip())) + 1} has no name",
            expected="a name for each column; of a data frame's own numbering, nothing",
            hint="to_csv(..., index=False)",
        )
    if table.num_rows == 0:
        raise InputError("the table has no rows", expected="one row a node, or an edge, below a line of column names")
    return table


def _need(table: pa.Table, name: str, meaning: str, option: str) -> None:
    if name not in table.column_names:
        close = nearest(name, table.column_names)
        raise InputError(
            f"there is no column {name!r} but {_listed(table.column_names)}",
            expected=f"a column with each row's {meaning}",
            hint=f"dataset.{option}={close or 'NAME'}",
        )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _id_column(table: pa.Table, name: str) -> pa.Array:
    """Texts, or whole numbers where a parquet file has them so; none is blank."""
    column = table[name].combine_chunks()
    if _is_text(column.type):
        column = column.cast(pa.string()).cast(pa.large_string())  # of a dictionary too
    elif not pa.types.is_integer(column.type):
        raise InputError(f"the column {name!r} holds {column.type}", expected="texts or whole numbers")
    blank = column.is_null().to_numpy(zero_copy_only=False)
    if _is_text(column.type):
        blank |= pc.equal(column.fill_null(""), "").to_numpy(zero_copy_only=False)
    if blank.any():
        row = int(np.flatnonzero(blank)[0])
        raise InputError(f"the {name} in row {row + 1} is blank", expected=f"a {name} in each row")
    return column


def _is_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _as_text(column: pa.Array) -> pa.Array:
    """By which edges find their nodes, whatever the two tables hold ids as."""
    return column.cast(pa.large_string())


def _keys(column: pa.Array, name: str) -> pa.Array:
    """Ids as texts; each must be there once."""
    keys = _as_text(column)
    counts = pc.value_counts(keys)
    twice = counts.filter(pc.greater(counts.field("counts"), 1))
    if len(twice):
        key = twice.field("values")[0]
        rows = pc.indices_nonzero(pc.equal(keys, key)).to_pylist()
        raise InputError(
            f"the {name} {key.as_py()!r} is in rows {rows[0] + 1} and {rows[1] + 1}; "
            f"{len(twice)} ids are there more than once",
            expected="each id once",
        )
    return keys


def _features(table: pa.Table, names: Sequence[str], ids: np.ndarray) -> np.ndarray:
    if not names:
        raise InputError(
            "no column is left for features",
            expected="at least one column of numbers; without any, a column of ones and model=gkde or model=matern_ggp",
        )
    matrix = np.empty((table.num_rows, len(names)))
    for at, name in enumerate(names):
        column = table[name].combine_chunks()
        if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or _is_flag(column.type)):
            raise InputError(
                f"the column {name!r} holds {_example(column, ids)}, which is no number",
                expected="numbers in every feature column; encode categories as columns of 0 and 1",
                hint=f"dataset.ignore=[{name}]",
            )
        if column.null_count:
            row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
            raise InputError(
                f"{name!r} of node {ids[row]!r} is blank ({column.null_count} blank in this column)",
                expected="a number in every row",
                hint=f"fill it, or dataset.ignore=[{name}]",
            )
        matrix[:, at] = column.cast(pa.int8()) if _is_flag(column.type) else column.to_numpy(zero_copy_only=False)
    return matrix


def _is_flag(kind: pa.DataType) -> bool:
    return pa.types.is_boolean(kind)


def _example(column: pa.Array, ids: np.ndarray) -> str:
    """The first value that is no number, and whose it is."""
    for row, value in enumerate(column.to_pylist()):
        try:
            float(value)
        except (TypeError, ValueError):
            if value is not None:
                return f"{str(value)[:40]!r} (node {ids[row]!r})"
    return f"values of type {column.type}"


def _texts(table: pa.Table, name: str) -> list[str | None]:
    """Labels as texts, blank where unknown. Of numbers, 3.0 is 3: blanks beside them make whole ones fractions."""
    column = table[name].combine_chunks()
    values = column.to_pylist()
    if pa.types.is_floating(column.type):
        values = [None if value is None or value != value else value for value in values]
    texts = [None if value is None else str(value).strip() or None for value in values]
    if all(text is None or re.fullmatch(r"-?\d+(\.0+)?", text, re.ASCII) for text in texts):
        return [None if text is None else text.partition(".")[0] for text in texts]
    return texts


def _part(table: pa.Table, name: str, ids: np.ndarray) -> np.ndarray:
    words = [(word or "").lower() for word in _texts(table, name)]
    for row, word in enumerate(words):
        if word not in PARTS:
            raise InputError(
                f"the {name} of node {ids[row]!r} is {word!r}",
                expected="train, val, test, or blank",
                hint="dataset.split_column=NAME if another column holds the split",
            )
    return np.array([PARTS[word] for word in words], dtype=np.int8)


def _edges(path: Path, columns: Columns, keys: pa.Array) -> tuple[np.ndarray, list[str]]:
    ends = (columns.source, columns.target)
    if ends[0] == ends[1]:
        raise InputError(f"source and target are both the column {ends[0]!r}", expected="two columns")
    table = _read(path, texts=ends)
    for name, option in zip(ends, ("source_column", "target_column"), strict=True):
        _need(table, name, "node id at one end", option)
    numbers = []
    for name in ends:
        ids = _id_column(table, name)
        found = pc.index_in(_as_text(ids), value_set=keys)
        if found.null_count:
            rows = np.flatnonzero(found.is_null().to_numpy(zero_copy_only=False))
            strange = ids[int(rows[0])].as_py()
            raise InputError(
                f"the {name} {strange!r} in row {rows[0] + 1} is no node; {len(rows)} of {len(ids)} rows are so",
                expected="ids of the table of nodes",
                hint="add these nodes, or leave out their edges",
            )
        numbers.append(found.to_numpy())
    rest = [name for name in table.column_names if name not in ends]
    notes = [f"columns of the edges that are not used: {_listed(rest)}"] if rest else []
    return np.stack(numbers).astype(np.int64), notes
