"""Open a CSV file, a parquet file or a table in memory, check its columns, and read columns of ids and text."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lopgpn_exp.data.files.csv_file import CsvFile
from lopgpn_exp.data.files.memory import check_num_columns
from lopgpn_exp.data.safe_load import READ_ERRORS
from lopgpn_exp.errors import InputError, nearest

TEXT_SUFFIXES = (".csv", ".tsv", ".txt")
TABLE_SUFFIXES = (*TEXT_SUFFIXES, *(f"{suffix}.gz" for suffix in TEXT_SUFFIXES), ".parquet")
TABLE_FORMATS = "a .csv or .parquet file"
TABLE_ERRORS = (*READ_ERRORS, pa.ArrowException, csv.Error)
STREAM_BYTES = 2**26  # of numbers that are in memory at a time
DENSITY_COLUMNS, DENSITY_ROWS = 64, 4096  # from which the share of zeros is estimated
MAX_ID_BYTES = 2**31 - 1
MAX_NAMES_SEARCHED = 10_000  # for one that is similar, which takes a second


class ParquetFile:
    """A parquet file of which only the metadata has been read.

    Attributes:
        names: column names.
        num_rows: number of rows.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        file = pq.ParquetFile(path)
        self._schema = file.schema_arrow
        self.names: list[str] = self._schema.names
        self.num_rows: int = file.metadata.num_rows
        check_num_columns(len(self.names))

    def read(self, columns: Sequence[str], *, text_columns: Sequence[str]) -> pa.Table:
        """Read some columns; the file says which of them are text."""
        return pq.read_table(self._path, columns=list(columns), read_dictionary=self._find_texts(columns))

    def stream(self, columns: Sequence[str], *, text_columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield rows in blocks."""
        with pq.ParquetFile(self._path, read_dictionary=self._find_texts(columns)) as file:
            yield from file.iter_batches(max(1, STREAM_BYTES // (8 * len(columns))), columns=list(columns))

    def sample_density(self, columns: Sequence[str]) -> float:
        """Return the share of numbers that are not zero in a few columns at the beginning of the file."""
        numeric = [name for name in columns if is_number(self._schema.field(name).type)]
        chosen = numeric[:: max(1, len(numeric) // DENSITY_COLUMNS)]
        with pq.ParquetFile(self._path) as file:
            batch = next(file.iter_batches(DENSITY_ROWS, columns=chosen), None) if chosen else None
        if batch is None:
            return 1.0
        num_nonzero = sum(np.count_nonzero(column.to_numpy(zero_copy_only=False)) for column in batch.columns)
        return num_nonzero / max(batch.num_rows * batch.num_columns, 1)

    def _find_texts(self, columns: Sequence[str]) -> list[str]:
        """Return the columns of text: a text that is repeated in many rows is kept only once in memory."""
        return [name for name in columns if is_text(self._schema.field(name).type)]


class MemoryTable:
    """A table that is in memory already, with the methods of a file.

    Args:
        name: what messages call it.
    """

    def __init__(self, name: str, table: pa.Table) -> None:
        self._name, self._table = name, table
        self.names: list[str] = table.column_names
        self.num_rows: int = table.num_rows
        check_num_columns(len(self.names))

    def __str__(self) -> str:
        return self._name

    def read(self, columns: Sequence[str], *, text_columns: Sequence[str]) -> pa.Table:
        """Return some columns; their types say which of them are text."""
        return self._table.select(list(columns))

    def stream(self, columns: Sequence[str], *, text_columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield rows in blocks."""
        size = max(1, STREAM_BYTES // (8 * len(columns)))
        yield from self.read(columns, text_columns=text_columns).to_batches(max_chunksize=size)

    def sample_density(self, columns: Sequence[str]) -> float:
        """Return 1: how many values are zero is found out when they are read."""
        return 1.0


TableFile: TypeAlias = CsvFile | ParquetFile | MemoryTable
TableSource: TypeAlias = Path | MemoryTable


def open_table(source: TableSource) -> TableFile:
    """Read the column names and the number of rows (estimated for CSV) of a table."""
    if isinstance(source, MemoryTable):
        table: TableFile = source
    else:
        table = ParquetFile(source) if source.suffix.lower() == ".parquet" else CsvFile(source)
    name, count = Counter(table.names).most_common(1)[0] if table.names else ("", 0)
    if count > 1:
        raise InputError(f"the column {name!r} occurs more than once", expected="each column once")
    if unnamed := [number for number, name in enumerate(table.names, start=1) if not name.strip()]:
        raise InputError(
            f"column {unnamed[0]} has no name",
            expected="a name for each column; write data frames without their index",
            hint="to_csv(..., index=False)",
        )
    return table


def read_table(file: TableFile, columns: Sequence[str], *, text_columns: Sequence[str]) -> pa.Table:
    """Read some columns of a table that has at least one row; `text_columns` of a CSV file are kept as written."""
    table = file.read(columns, text_columns=[name for name in text_columns if name in columns])
    if table.num_rows == 0:
        raise empty_table_error()
    return table


def empty_table_error() -> InputError:
    return InputError("the table has no rows", expected="one row per node or edge, below a line of column names")


def require_column(names: Sequence[str], name: str, content: str, parameter: str) -> None:
    """Raise an InputError if a column is missing; `parameter` is the argument that names it."""
    if name not in names:
        raise InputError(
            f"there is no column {name!r}; the columns are {join_names(names)}",
            expected=f"a column with {content}",
            parameter=parameter,
            suggestion=nearest(name, names[:MAX_NAMES_SEARCHED]) or "NAME",
        )


def join_names(names: Sequence[str]) -> str:
    """Join up to eight column names for a message."""
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def read_ids(table: pa.Table, name: str) -> pa.Array:
    """Return a column of ids as strings, or as integers if the file stores integers; none may be blank."""
    column = table[name].combine_chunks()
    if is_text(column.type):
        if pa.types.is_dictionary(column.type):
            lengths = pc.binary_length(column.dictionary.cast(pa.large_string())).take(column.indices)
            if (pc.sum(lengths).as_py() or 0) > MAX_ID_BYTES:
                raise InputError(f"the column {name!r} has more than {MAX_ID_BYTES:,} bytes", expected="shorter ids")
        column = column.cast(pa.string()).cast(pa.large_string())  # the first cast decodes categories
        if pc.any(pc.match_substring(column, "\0")).as_py():
            raise InputError(f"the column {name!r} contains NUL characters", expected="ids as text")
    elif not pa.types.is_integer(column.type):
        raise InputError(f"the column {name!r} has type {column.type}", expected="strings or integers")
    is_blank = column.is_null().to_numpy(zero_copy_only=False)
    if is_text(column.type):
        is_blank |= pc.equal(column.fill_null(""), "").to_numpy(zero_copy_only=False)
    if is_blank.any():
        row = int(np.flatnonzero(is_blank)[0])
        raise InputError(f"the {name} in row {row + 1} is blank", expected="a value in each row of this column")
    return column


def is_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def to_keys(column: pa.Array) -> pa.Array:
    """Return ids as strings, so that edges and nodes match even if the types of the two tables differ."""
    return column.cast(pa.large_string())


def read_texts(table: pa.Table, name: str) -> list[str | None]:
    """Return a column as strings, None where blank. Integers that a data frame stored as floats (3.0) become 3."""
    column = table[name].combine_chunks()
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (is_text(kind) or pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind)):
        raise InputError(f"the column {name!r} has type {kind}", expected="strings or numbers")
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    indices, values = encoded.indices.to_pylist(), encoded.dictionary.to_pylist()
    texts = {index: None if index is None else _to_text(values[index]) for index in set(indices)}
    if all(text is None or re.fullmatch(r"-?\d+(\.0+)?", text, re.ASCII) for text in texts.values()):
        texts = {index: None if text is None else text.partition(".")[0] for index, text in texts.items()}
    return [texts[index] for index in indices]


def _to_text(value: object) -> str | None:
    """Return a value as a string, None if it is blank or NaN."""
    return None if value is None or value != value else str(value).strip() or None
