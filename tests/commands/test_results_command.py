"""The results command: means, exports, and runs that travel in one file."""

import json
import re
import zipfile

import pandas as pd
import pytest

import lopgpn_exp
from tests.support import run_tiny


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("outputs")
    for overrides in (
        ["model=appnp"],
        ["model=appnp", "split.index=1"],
        ["model=gkde"],
        ["model=gkde", "split.index=1"],
    ):
        run_tiny(folder, *overrides)
    (folder / "runs" / "unfinished").mkdir()
    return folder


@pytest.fixture
def results(command, outputs):
    """Return a function that runs the command on the finished runs and returns what it prints."""

    def call(*words: str) -> str:
        code, out, err = command("results", *words, "--output-dir", str(outputs))
        assert code == 0, err
        return out

    return call


def test_means_are_printed_with_the_next_command(results, outputs):
    out = results("--model", "gkde")
    assert "gkde" in out
    assert "appnp" not in out
    assert "±" in out
    assert out.splitlines()[-1] == f"next     lopgpn_exp results --export runs.csv --output-dir {outputs}"


@pytest.mark.parametrize(("name", "read"), [("t.csv", pd.read_csv), ("t.parquet", pd.read_parquet)])
def test_exported_tables_are_read_back(results, outputs, tmp_path, name, read):
    assert f"written  {tmp_path / name}" in results("--export", str(tmp_path / name))
    accuracy = lopgpn_exp.load_results(outputs)["test/accuracy"]
    assert read(tmp_path / name)["test/accuracy"].tolist() == pytest.approx(accuracy.tolist())
    results("--aggregate", "--export", str(tmp_path / name))
    assert {"mean", "se", "low", "high"} <= set(read(tmp_path / name))


def test_packed_runs_are_extracted_once(command, results, outputs, tmp_path):
    file, target = tmp_path / "sweep.zip", tmp_path / "target"
    assert "2 runs packed" in results("--model", "gkde", "--pack", str(file))
    for expected in ("2 runs extracted, 0 were there already", "0 runs extracted, 2 were there already"):
        assert expected in command("results", "--output-dir", str(target), "--unpack", str(file))[1]
    pd.testing.assert_frame_equal(
        lopgpn_exp.load_results(target), lopgpn_exp.load_results(outputs, model="gkde"), check_like=True
    )
    assert not any(name.endswith("model.ckpt") for name in zipfile.ZipFile(file).namelist())
    results("--pack", str(file), "--models")
    assert sum(name.endswith("model.ckpt") for name in zipfile.ZipFile(file).namelist()) == 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--output-dir", "nowhere"], "no finished run in nowhere/runs"),
        (["--unpack", "nowhere.zip"], "nowhere.zip cannot be read"),
        (["--export", "table.xlsx"], ".csv or .parquet"),
        (["--pack", "no/folder/x.zip"], "cannot be written"),
    ],
    ids=lambda words: words[0],
)
def test_input_error_is_one_message(command, outputs, words, message):
    location = [] if "--output-dir" in words else ["--output-dir", str(outputs)]
    code, _, err = command("results", *words, *location)
    assert code == 2
    assert message in err
    assert "expected:" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("name", ["../evil/result.json", "a/b/c", "result.json"])
def test_foreign_archive_is_refused(command, tmp_path, name):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr(name, "{}")
    code, _, err = command("results", "--output-dir", str(tmp_path / "out"), "--unpack", str(tmp_path / "x.zip"))
    assert code == 2
    assert "an archive of packed runs" in err
    assert not (tmp_path / "evil").exists()


def test_archive_with_a_damaged_result_is_refused_as_a_whole(command, tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("some-run/result.json", json.dumps({"schema": 1}))
    code, _, err = command("results", "--unpack", "x.zip")
    assert code == 2
    assert re.search(r"x\.zip contains a damaged run \(.*result\.json cannot be read \(.*\w+: Field required\)\)", err)
    assert "try:" not in err
    assert not (tmp_path / "outputs" / "runs" / "some-run").exists()
