"""Damaged and hostile tables of a graph: the right content or one message, quickly."""

import gzip
import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from lopgpn_exp.data.files import csv_file, custom_graph
from tests.support.graph_files import EDGES, NODES, expect_error, read_csv, time_limit, write_csv

ENCODINGS = {
    "byte order mark": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "UTF-16": lambda text: text.encode("utf-16"),
    "UTF-16, big endian": lambda text: b"\xfe\xff" + text.encode("utf-16-be"),
    "gzip": lambda text: gzip.compress(text.encode()),
    "gzip in two members": lambda text: gzip.compress(text[:20].encode()) + gzip.compress(text[20:].encode()),
    "CR": lambda text: text.replace("\n", "\r").encode(),
    "CRLF": lambda text: text.replace("\n", "\r\n").encode(),
    "mixed line ends": lambda text: text.replace("\n", "\r\n", 2).encode(),
    "no line end at the end": lambda text: text.rstrip().encode(),
    "blank lines": lambda text: ("\n\n" + text.replace("\n", "\n\n")).encode(),
    "semicolons": lambda text: text.replace(",", ";").encode(),
    "quotes": lambda text: "\n".join(f'"{line}"' for line in text.replace(",", '","').split()).encode(),
}


@pytest.mark.parametrize("encode", ENCODINGS.values(), ids=ENCODINGS)
def test_the_same_tables_in_another_encoding_are_the_same_graph(tmp_path, encode):
    write_csv(tmp_path)
    expected = read_csv(tmp_path).fingerprint
    (tmp_path / "nodes.csv").write_bytes(encode(NODES))
    (tmp_path / "edges.csv").write_bytes(encode(EDGES))
    assert read_csv(tmp_path).fingerprint == expected


def test_compressed_tables_are_recognised_by_their_suffix(tmp_path):
    for name, text in (("nodes", NODES), ("edges", EDGES)):
        (tmp_path / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode()))
    assert custom_graph(path=str(tmp_path)).num_nodes == 4
    assert custom_graph(path=str(tmp_path / "nodes.csv.gz"), edges=str(tmp_path / "edges.csv.gz")).num_nodes == 4


@pytest.mark.parametrize(
    "content",
    [
        NODES.replace("blue", "blü").encode("latin-1"),
        NODES.replace("age", "größe").encode("latin-1"),
        NODES.replace("ann", "a\0n").encode(),
        NODES.replace("20.5", "2\0").encode(),
        NODES.encode("utf-16")[2:],
        NODES.encode("utf-16")[:-1],
        gzip.compress(NODES.encode())[:-12],
        gzip.compress(gzip.compress(NODES.encode())),
        b"\x1f\x8b",
        NODES.replace("ann", '"ann').encode(),
        NODES.replace("blue", "b" * 3_000_000).encode(),
        NODES.replace("age", "a" * 3_000_000).encode(),
        b"\0" * 100_000,
        b"," * 3_000_000,
        b'"' * 3_000_001,
        b',"' * 1_000_000,
        b"\n" * 1_000_000,
        b"id,label,x\n" + b"a,b,1\n" * 200_000,
    ],
    ids=range(18),
)
def test_a_file_that_is_no_table_is_one_message(tmp_path, content):
    write_csv(tmp_path)
    (tmp_path / "nodes.csv").write_bytes(content)
    with time_limit():
        error = expect_error("nodes.csv" if b"b" * 2000 not in content else "characters", path=str(tmp_path))
    assert len(str(error)) < 3000


def test_a_damaged_encoding_beyond_the_sample_is_one_message(tmp_path):
    rows = "".join(f"n{number},{'ab'[number % 2]},1.25\n" for number in range(100_000))
    for bad, message in ((b"\xff", "not text in UTF-8"), (b"\0", "NUL characters")):
        (tmp_path / "nodes.csv").write_bytes(f"id,label,x\n{rows}".encode() + b"last" + bad + b",a,2\n")
        (tmp_path / "edges.csv").write_text("source,target\nn1,n2\n")
        expect_error(message, path=str(tmp_path))


def test_quoted_line_ends_and_delimiters_are_part_of_a_cell_anywhere(tmp_path, monkeypatch):
    """In the header and beyond the first block that is read."""
    monkeypatch.setattr(csv_file, "BLOCK_BYTES", 2**16)
    rows = "".join(f'n{number},"{"ab"[number % 2]}\n;;;;;;{number % 3}",{number}\n' for number in range(20_000))
    write_csv(tmp_path, f'id,label,"length;;;; in\nm; or, if not, ft"\n{rows}', "source,target\nn1,n2\n")
    with time_limit():
        graph = read_csv(tmp_path)
    assert (graph.num_nodes, graph.num_classes) == (20_000, 6)
    assert graph.legend.features == ("length;;;; in\nm; or, if not, ft",)


def write_wide_table(folder, num_columns: int, num_rows: int, value: str = "0.5") -> None:
    header = ",".join(f"a_feature_with_number_{column}" for column in range(num_columns))
    cells = ",".join([value] * num_columns)
    rows = "".join(f"n{row},{'ab'[row % 2]},{cells}\n" for row in range(num_rows))
    write_csv(folder, f"id,label,{header}\n{rows}", "source,target\nn0,n1\n")


def test_a_table_of_many_columns_is_read_in_linear_time(tmp_path):
    write_wide_table(tmp_path, 60_000, 2)
    file = csv_file.CsvFile(tmp_path / "nodes.csv")
    assert (file.num_rows, len(file.names)) == (2, 60_002)  # although the header is longer than the sample
    with time_limit():
        assert read_csv(tmp_path).num_features == 60_000
    message = "about 2 nodes with 60,000 features) can take 0.0"
    expect_error(message, path=str(tmp_path), memory_limit_gib=0.001)


def test_more_columns_than_can_be_read_are_one_message(tmp_path):
    write_wide_table(tmp_path, 110_000, 1)
    with time_limit():
        expect_error("the table has 110,002 columns", path=str(tmp_path))


@pytest.mark.parametrize("num_rows", [1, 3, 1000])
def test_the_number_of_rows_is_estimated_from_long_rows_and_quoted_line_ends(tmp_path, num_rows):
    num_lines = 2_000_000 // num_rows if num_rows < 10 else 5
    cell = '"' + "text;,\n" * num_lines + '"'
    (tmp_path / "nodes.csv").write_text("id,text\n" + f"a,{cell}\n" * num_rows)
    assert csv_file.CsvFile(tmp_path / "nodes.csv").num_rows == pytest.approx(num_rows, rel=0.02, abs=1)


def test_a_compressed_table_that_expands_too_far_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_file, "MAX_UNPACKED_BYTES", 2**20)
    write_csv(tmp_path)
    (tmp_path / "nodes.csv").write_bytes(gzip.compress(b"id,label,x\n" + b"a,b,1\n" * 2**18))
    expect_error("has more than 1,048,576 bytes", path=str(tmp_path))


def test_a_pipe_is_refused_because_reading_it_would_block(tmp_path):
    write_csv(tmp_path)
    os.mkfifo(tmp_path / "pipe.csv")
    expect_error("not a file", path=str(tmp_path / "pipe.csv"), edges=str(tmp_path / "edges.csv"))
    expect_error("not a file", path=str(tmp_path / "nodes.csv"), edges=str(tmp_path / "pipe.csv"))


NESTED = pa.array([[1], [2], [3], [4]])


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("label", NESTED, "the column 'label' has type list<"),
        ("label", pa.array([b"a", b"b", b"a", b"b"]), "the column 'label' has type binary"),
        ("id", NESTED, "the column 'id' has type list<"),
        ("id", pa.array([1.5, 2.5, 3.5, 4.5]), "the column 'id' has type double"),
        ("id", pa.array([1, 1, 2, 3]), "the id '1' is in rows 1 and 2"),
        ("age", NESTED, "the column 'age' contains '[1]'"),
        ("age", pa.array([{"a": 1}] * 4), "the column 'age' contains"),
        ("age", pa.nulls(4), "'age' of node '007' is blank (4 blank in this column)"),
        ("age", pa.array([1.0, float("nan"), 2.0, 3.0]), "'age' of node 'ann' is nan"),
        ("age", pa.array(["2020-01-01"] * 4).cast(pa.date32()), "the column 'age' contains"),
        ("split", pa.array([True, False, True, False]), "the split of node '007' is 'true'"),
    ],
)
def test_columns_of_other_types_are_one_message(tmp_path, column, values, message):
    write_csv(tmp_path)
    table = pa.Table.from_pandas(pd.read_csv(tmp_path / "nodes.csv", dtype={"id": str}))
    table = table.set_column(table.column_names.index(column), column, values)
    pa.parquet.write_table(table, tmp_path / "nodes.parquet")
    expect_error(message, path=str(tmp_path / "nodes.parquet"), edges=str(tmp_path / "edges.csv"))


def test_a_text_that_is_repeated_in_many_rows_is_kept_once(tmp_path):
    """A parquet file of a few kilobytes could otherwise need 50 GB."""
    num_rows, text = 50_000, "x" * 10**6
    indices = pa.array(np.arange(num_rows) % 2, pa.int32())
    texts = pa.DictionaryArray.from_arrays(indices, pa.array([text, "b"]))
    ids, numbers = pa.array(np.arange(num_rows)), pa.array(np.ones(num_rows))
    pd.DataFrame({"source": [1], "target": [2]}).to_parquet(tmp_path / "edges.parquet")
    for name, message in (
        ("label", "characters"),
        ("id", "has more than 2,147,483,647 bytes"),
        ("x", "which is not a number"),
    ):
        columns = {"id": ids, "label": ids.cast(pa.string()), "x": numbers} | {name: texts}
        pa.parquet.write_table(pa.table(columns), tmp_path / "nodes.parquet")
        with time_limit():
            expect_error(message, path=str(tmp_path))
