"""Open a CSV or parquet file, check its columns, and read columns of ids and text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv
import pyarrow.parquet as pq

from lopgpn_exp.data.safe_load import READ_ERRORS
from lopgpn_exp.errors import InputError, nearest

TABLE_SUFFIXES = (".csv", ".tsv", ".txt", ".parquet")
TABLE_FORMATS = "a .csv or .parquet file"
TABLE_ERRORS = (*READ_ERRORS, pa.ArrowException)
SAMPLE_BYTES = 2**20  # the number of rows of a CSV file is estimated from this many bytes


def read_table_shape(path: Path) -> tuple[int, list[str]]:
    """Return the number of rows (estimated for CSV) and the column names, without reading the table."""
    if path.suffix == ".parquet":
        file = pq.ParquetFile(path)
        return file.metadata.num_rows, file.schema_arrow.names
    with path.open("rb") as csv_file:
        sample = csv_file.read(SAMPLE_BYTES)
    header, _, body = sample.partition(b"\n")
    num_lines = max(body.count(b"\n"), 1)
    num_rows = (path.stat().st_size - len(header)) * num_lines / max(len(body), 1)
    return int(num_rows), header.decode("utf-8", "replace").strip().split(_find_delimiter(path))


def _find_delimiter(path: Path) -> str:
    """Return whichever of comma, semicolon and tab is most frequent in the header."""
    with path.open("rb") as file:
        header = file.readline(SAMPLE_BYTES)
    return max(",;\t", key=lambda delimiter: header.count(delimiter.encode()))


def read_table(path: Path, *, text_columns: Sequence[str]) -> pa.Table:
    """Read a table; `text_columns` of a CSV file are not parsed as numbers, since the id 007 is not 7."""
    if path.suffix == ".parquet":
        table = pq.read_table(path)
    else:
        table = pv.read_csv(
            path,
            parse_options=pv.ParseOptions(delimiter=_find_delimiter(path)),
            convert_options=pv.ConvertOptions(
                column_types=dict.fromkeys(text_columns, pa.string()), null_values=["", "NA", "NaN", "nan"]
            ),
        )
    names = table.column_names
    if repeated := [name for name in names if names.count(name) > 1]:
        raise InputError(f"the column {repeated[0]!r} occurs more than once", expected="each column once")
    if unnamed := [number for number, name in enumerate(names, start=1) if not name.strip()]:
        raise InputError(
            f"column {unnamed[0]} has no name",
            expected="a name for each column; write data frames without their index",
            hint="to_csv(..., index=False)",
        )
    if table.num_rows == 0:
        raise InputError("the table has no rows", expected="one row per node or edge, below a line of column names")
    return table


def require_column(table: pa.Table, name: str, content: str, parameter: str) -> None:
    """Raise an InputError if a column is missing; `parameter` is the argument that names it."""
    if name not in table.column_names:
        raise InputError(
            f"there is no column {name!r}; the columns are {join_names(table.column_names)}",
            expected=f"a column with {content}",
            parameter=parameter,
            suggestion=nearest(name, table.column_names) or "NAME",
        )


def join_names(names: Sequence[str]) -> str:
    """Join up to eight column names for a message."""
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def read_ids(table: pa.Table, name: str) -> pa.Array:
    """Return a column of ids as strings, or as integers if the file stores integers; none may be blank."""
    column = table[name].combine_chunks()
    if is_text(column.type):
        column = column.cast(pa.string()).cast(pa.large_string())  # the first cast decodes categories
    elif not pa.types.is_integer(column.type):
        raise InputError(f"the column {name!r} has type {column.type}", expected="strings or integers")
    is_blank = column.is_null().to_numpy(zero_copy_only=False)
    if is_text(column.type):
        is_blank |= pc.equal(column.fill_null(""), "").to_numpy(zero_copy_only=False)
    if is_blank.any():
        row = int(np.flatnonzero(is_blank)[0])
        raise InputError(f"the {name} in row {row + 1} is blank", expected=f"a {name} in each row")
    return column


def is_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def to_keys(column: pa.Array) -> pa.Array:
    """Return ids as strings, so that edges and nodes match even if the types of the two tables differ."""
    return column.cast(pa.large_string())


def read_texts(table: pa.Table, name: str) -> list[str | None]:
    """Return a column as strings, None where blank. Integers that a data frame stored as floats (3.0) become 3."""
    column = table[name].combine_chunks()
    values = column.to_pylist()
    if pa.types.is_floating(column.type):
        values = [None if value is None or value != value else value for value in values]
    texts = [None if value is None else str(value).strip() or None for value in values]
    if all(text is None or re.fullmatch(r"-?\d+(\.0+)?", text, re.ASCII) for text in texts):
        return [None if text is None else text.partition(".")[0] for text in texts]
    return texts
