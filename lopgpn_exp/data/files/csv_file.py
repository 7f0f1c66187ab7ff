"""Read CSV files: three delimiters, any line end, UTF-8 or UTF-16, with or without gzip."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pv

from lopgpn_exp.data.files.memory import check_num_columns
from lopgpn_exp.errors import InputError

DELIMITERS = ",;\t"
SAMPLE_BYTES = 2**20  # the number of rows is estimated from this many bytes, or more if rows are longer
BLOCK_BYTES = 2**26  # longest header or row; small blocks of many columns would be slow
STREAM_BYTES = 2**23  # of text that are parsed at a time; as numbers, they take four times as much if most are zero
DENSITY_CHARS = 2**18  # from which the share of zeros is estimated
MAX_UNPACKED_BYTES = 2**31
GZIP_MARK = b"\x1f\x8b"
UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
LINE_END = re.compile(r"\r\n?|\n")
# A cell in quotes, which may contain delimiters and line ends; the end of a sample may cut it off.
QUOTED = re.compile(r'(?<![^,;\t\r\n])"[^"]*+(?:""[^"]*+)*+(?:"|\Z)')


class CsvFile:
    """A CSV file of which only the beginning has been read.

    Attributes:
        names: column names.
        num_rows: number of rows, estimated.
    """

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            is_packed = file.read(2) == GZIP_MARK
        self._source: Path | bytes = _unpack(path) if is_packed else path
        with self._open() as stream:
            self._encoding = "utf-16" if stream.read(2) in UTF16_MARKS else "utf-8"
        text, line_ends, num_chars = self._read_sample()
        if not text:
            raise ValueError("the file is empty")
        header = text[: line_ends[0]]
        if "\0" in text or "\ufffd" in header:
            raise _encoding_error()
        masked = _mask_quoted(header)
        self._delimiter = max(DELIMITERS, key=masked.count)
        check_num_columns(masked.count(self._delimiter) + 1)
        self.names: list[str] = next(csv.reader(io.StringIO(header, newline=""), delimiter=self._delimiter), [])
        rows_length = max(line_ends[-1] - line_ends[0], 1)
        num_rows = (num_chars - line_ends[0]) * max(len(line_ends) - 1, 1) / rows_length
        self.num_rows = math.ceil(min(num_rows, num_chars / max(len(self.names), 1)))  # at least one character per cell

    def read(self, columns: Sequence[str], *, text_columns: Sequence[str]) -> pa.Table:
        """Read some columns; `text_columns` are not parsed as numbers, since the id 007 is not 7."""
        try:
            with self._open() as stream:
                return pv.read_csv(
                    stream, *self._options(columns, dict.fromkeys(text_columns, pa.string()), BLOCK_BYTES)
                )
        except (pa.ArrowInvalid, UnicodeError) as error:
            if isinstance(error, UnicodeError) or "invalid UTF8" in str(error):
                raise _encoding_error() from None
            raise

    def stream(self, columns: Sequence[str], *, text_columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield rows in blocks, ten times faster than `read`, because all other columns are parsed as numbers.

        Raises:
            pa.ArrowInvalid: if a column is true or false, or not a number.
        """
        types = dict.fromkeys(columns, pa.float64()) | dict.fromkeys(text_columns, pa.string())
        with self._open() as stream, pv.open_csv(stream, *self._options(columns, types, STREAM_BYTES)) as reader:
            yield from reader

    def sample_density(self, columns: Sequence[str]) -> float:
        """Return the share of cells that are not zero at the beginning of the file, whatever their column."""
        text, line_ends, _ = self._read_sample()
        sample = text[line_ends[0] : line_ends[0] + DENSITY_CHARS]
        num_cells = sample.count(self._delimiter) + len(LINE_END.findall(sample))
        zeros = re.findall(rf"(?<![^{self._delimiter}\r\n])0(?:\.0*)?(?=[{self._delimiter}\r\n])", sample)
        return 1 - len(zeros) / max(num_cells, 1)

    def _options(
        self, columns: Sequence[str], types: dict[str, pa.DataType], block_size: int
    ) -> tuple[pv.ReadOptions, pv.ParseOptions, pv.ConvertOptions]:
        return (
            pv.ReadOptions(encoding=self._encoding, block_size=block_size),
            pv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
            pv.ConvertOptions(column_types=types, include_columns=list(columns), null_values=["", "NA", "NaN", "nan"]),
        )

    def _open(self) -> pa.NativeFile:
        return pa.BufferReader(self._source) if isinstance(self._source, bytes) else pa.OSFile(str(self._source))

    def _read_sample(self) -> tuple[str, list[int], int]:
        """Return the beginning of the text with at least one row, where its lines end, and the length of all text."""
        with self._open() as stream:
            size, num_bytes = stream.size(), SAMPLE_BYTES
            while True:
                stream.seek(0)
                sample = stream.read(num_bytes)
                text = codecs.getincrementaldecoder(self._encoding)("replace").decode(sample).lstrip("\ufeff\r\n")
                line_ends = [match.end() for match in LINE_END.finditer(_mask_quoted(text))]
                if len(line_ends) > 1 or len(sample) >= min(size, BLOCK_BYTES):
                    return text, line_ends or [len(text)], len(text) * size // max(len(sample), 1)
                num_bytes *= 8


def _unpack(path: Path) -> bytes:
    with gzip.open(path) as file:
        content = file.read(MAX_UNPACKED_BYTES + 1)
    if len(content) > MAX_UNPACKED_BYTES:
        raise InputError(
            f"the compressed table has more than {MAX_UNPACKED_BYTES:,} bytes",
            expected="a smaller table, or a .parquet file, which is compressed and faster to read",
        )
    return content


def _mask_quoted(text: str) -> str:
    """Return a text of the same length in which no cell contains a quoted delimiter or line end."""
    return QUOTED.sub(lambda match: "x" * len(match[0]), text)


def _encoding_error() -> InputError:
    return InputError(
        "the table contains characters that are not text in UTF-8",
        expected="text in UTF-8 or UTF-16, without NUL characters",
        hint="save it as 'CSV UTF-8', or convert it: iconv -f LATIN1 -t UTF-8 OLD.csv > NEW.csv",
    )
