"""Files and folders: complete or not there, with checksums, and without what killed processes left behind."""

import json
import os
import subprocess
import sys
import threading

import pandas as pd
import pytest

from lopgpn_exp.runs.checksums import CHECKSUM_FILE, read_verified, write_checksums
from lopgpn_exp.runs.storage import atomic_folder, atomic_write, clean_output_dir, read_json, write_table
from lopgpn_exp.scratch import HOST, partial_path, replaced_path


def write_folder(final, text):
    with atomic_folder(final) as temporary:
        (temporary / "a.txt").write_text(text)


def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_checksums_are_those_of_sha256sum(tmp_path):
    write_folder(tmp_path / "x", "content")
    process = subprocess.run(["sha256sum", "-c", CHECKSUM_FILE], cwd=tmp_path / "x", capture_output=True, text=True)
    assert (process.returncode, process.stdout) == (0, "a.txt: OK\n")
    assert read_verified(tmp_path / "x" / "a.txt") == b"content"


def test_every_change_of_a_file_is_noticed(tmp_path):
    write_folder(tmp_path / "x", "content")
    path = tmp_path / "x" / "a.txt"
    for changed in ("", "Content", "content ", "conten"):
        path.write_text(changed)
        with pytest.raises(ValueError, match="differs from its checksum"):
            read_verified(path)
    (tmp_path / "x" / "b.txt").write_text("new")
    with pytest.raises(ValueError, match="has no checksum"):
        read_verified(tmp_path / "x" / "b.txt")


def test_folder_without_checksums_is_read_as_it_is(tmp_path):
    (tmp_path / "a.txt").write_text("content")
    assert read_verified(tmp_path / "a.txt") == b"content"


@pytest.mark.parametrize("text", ["{", "NaN", '{"a": -Infinity}', "[" * 100_000, "9" * 5000, "\ud800", ""])
def test_json_that_is_not_ours_is_a_value_error(tmp_path, text):
    (tmp_path / "a.json").write_text(text, errors="surrogatepass")
    with pytest.raises(ValueError, match=r".+"):
        read_json(tmp_path / "a.json")


def test_existing_folder_is_replaced_and_a_failure_keeps_it(tmp_path):
    final = tmp_path / "x"
    write_folder(final, "first")
    write_folder(final, "second")
    assert (final / "a.txt").read_text() == "second"

    def fail():
        with atomic_folder(final) as temporary:
            (temporary / "a.txt").write_text("third")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert (final / "a.txt").read_text() == "second"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_processes_that_finish_the_same_folder_at_once_leave_one_of_them(tmp_path, monkeypatch):
    """Eight threads with names of their own stand for processes; without a retry some fail with `OSError 39`."""
    final, errors = tmp_path / "x", []
    monkeypatch.setattr("lopgpn_exp.scratch.os.getpid", lambda: threading.get_ident())

    def write_many(text):
        try:
            for _ in range(30):
                write_folder(final, text)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=write_many, args=[str(number)]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert read_verified(final / "a.txt").decode() in map(str, range(8))
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_what_a_dead_process_left_is_removed(tmp_path, monkeypatch):
    runs = tmp_path / "runs"
    write_folder(runs / "kept", "x")
    with monkeypatch.context() as patch:
        patch.setattr("lopgpn_exp.scratch.os.getpid", dead_pid)
        partial_path(runs / "run").mkdir()
        partial_path(tmp_path / "table.csv").write_text("")
        replaced_path(runs / "kept").mkdir()
        os.rename(runs / "kept", replaced_path(runs / "interrupted"))  # killed between two renames
    partial_path(runs / "alive").mkdir()
    elsewhere = runs / f".run.not-{HOST}.1.partial"
    elsewhere.mkdir()
    clean_output_dir(tmp_path)
    names = {path.name for path in (*tmp_path.iterdir(), *runs.iterdir())}
    assert names == {"runs", "kept", "interrupted", partial_path(runs / "alive").name, elsewhere.name}
    assert read_verified(runs / "interrupted" / "a.txt") == b"x"


def test_partial_file_keeps_its_suffix(tmp_path):
    """The writers of figures choose the format by it."""
    seen = []
    atomic_write(tmp_path / "why.svg", lambda path: seen.append(path.suffix) or path.write_text(""))
    assert seen == [".svg"]


def test_csv_has_no_formulas(tmp_path):
    cells = ["=HYPERLINK('x')", "+1+1", "-2+3", "@SUM(A1)", "\tx", "\rx", "-1", "+2.5", "plain", None]
    table = pd.DataFrame({"=name": cells, "number": [-1.5] * len(cells)})
    write_table(tmp_path / "t.csv", table)
    read = pd.read_csv(tmp_path / "t.csv", dtype={"'=name": str}, keep_default_na=False)
    assert list(read.columns) == ["'=name", "number"]
    assert read["'=name"].tolist() == [
        *(f"'{cell}".replace("\r", "\n") for cell in cells[:6]),
        "-1",
        "+2.5",
        "plain",
        "",
    ]
    assert (read["number"] == -1.5).all()
    assert table["=name"][0] == cells[0]  # the table itself is not changed
    write_table(tmp_path / "t.parquet", table)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "t.parquet"), table)


def test_checksums_of_a_changed_folder_can_be_written_again(tmp_path):
    write_folder(tmp_path / "x", "content")
    (tmp_path / "x" / "a.txt").write_text(json.dumps({"a": 1}))
    write_checksums(tmp_path / "x")
    assert read_json(tmp_path / "x" / "a.txt") == {"a": 1}
