"""The compare command: its output, files, next command and errors."""

import re
import subprocess
import sys

import pandas as pd
import pytest

from lopgpn_exp.evaluation.comparison import compare_groups, select_metrics
from lopgpn_exp.runs.query import select_runs
from tests.support.processes import PROBE
from tests.support.random_runs import random_run, save_example_runs, save_run, save_sweep

FILTERS = ["model=gkde,scenario=none", "model=lop_gpn,scenario=none", "model=lop_gpn,scenario=none,split=0+1"]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("outputs")
    save_example_runs(folder)
    return folder


@pytest.fixture
def compare(command, outputs):
    return lambda *words: command("compare", *words, "--output-dir", str(outputs))


def compare_from_python(outputs, words):
    groups = {selection.label: selection.runs for selection in select_runs(words, outputs, read_tags=dict)}
    return compare_groups(groups, select_metrics(groups, every=True)).table


def test_the_comparison_is_printed_with_the_next_command(compare, outputs, tmp_path):
    code, out, _ = compare(*FILTERS)
    assert code == 0
    assert "cora · none" in out
    lines = out.splitlines()
    assert lines[-1].startswith(
        "next     lopgpn_exp compare model=gkde,scenario=none model=lop_gpn,scenario=none model="
    )
    assert lines[-1].endswith(f"--html comparison.html --output-dir {outputs}")
    last_line = compare(*FILTERS, "--metric", "test/ece")[1].splitlines()[-1]
    assert last_line.endswith(f" --metric test/ece --html comparison.html --output-dir {outputs}")
    last_line = compare(*FILTERS, "--html", str(tmp_path / "t.html"))[1].splitlines()[-1]
    assert last_line == f"written  {tmp_path / 't.html'}"


def test_runs_are_described_by_their_ids_and_sweeps_by_their_size(compare):
    _, out, _ = compare("gkde-cora-s0-i0-none", "lop_gpn-cora-s0-i0-none")
    assert "gkde-cora-s0-i0-none-aaaa, the reference" in out
    _, out, _ = compare("sweep-none1", "scenario=none")
    assert "sweep, 8 runs, 1 more not finished, the reference" in out


def test_only_the_named_metrics_are_shown(compare):
    _, out, _ = compare("model=gkde", "model=lop_gpn", "--metric", "ood/auroc", "test/nll")
    assert "NLL ↓" in out
    assert "AUC-ROC TU" in out
    assert "ECE" not in out


@pytest.mark.parametrize(("name", "read"), [("t.csv", pd.read_csv), ("t.parquet", pd.read_parquet)])
def test_the_exported_table_is_the_comparison(compare, outputs, tmp_path, name, read):
    words = ["model=gkde", "model=lop_gpn"]
    compare(*words, "--all", "--export", str(tmp_path / name))
    pd.testing.assert_frame_equal(read(tmp_path / name), compare_from_python(outputs, words), check_dtype=False)


def test_the_page_escapes_the_names_of_sweeps(compare, outputs, tmp_path):
    run_ids = [path.name for path in (outputs / "runs").glob("gkde-*")]
    save_sweep(outputs, "sweep-hostile", name="<script>alert(1)</script>", run_ids=run_ids)
    compare("model=lop_gpn", "sweep-hostile", "model=gkde", "--html", str(tmp_path / "page.html"))
    page = (tmp_path / "page.html").read_text()
    assert "<script" not in page
    assert "&lt;script&gt;" in page


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["model=gkde"], "nothing to compare model=gkde with", "lopgpn_exp compare model=gkde model=lop_gpn"),
        (["model=gkde", "model=nothing"], "no finished run matches model=nothing", ""),
        (["model=gkde", "model=lop_gpn", "--export", "t.xlsx"], ".csv or .parquet", ""),
        (
            ["model=gkde", "model=lop_gpn", "--metric", "test/acuracy"],
            "no metric 'test/acuracy'",
            "--metric test/accuracy",
        ),
        (["model=gkde", "model=lop_gpn", "--metric", "nothing"], "no metric 'nothing'", "--metric test/accuracy"),
        (["model=gkde", "model=lop_gpn", "--html", "/nowhere/at/all.html"], "cannot be written", ""),
        (["model=gkde,scenario=none", "model=lop_gpn,scenario=bernoulli"], "no dataset and scenario in common", ""),
        (["sweep-none1", "sweep-bernoulli1"], "no dataset, scenario and model in common", ""),
    ],
)
def test_an_input_error_is_one_message(compare, words, message, hint):
    code, _, err = compare(*words)
    assert code == 2
    assert message in err
    assert "expected:" in err
    if hint:
        assert err.rstrip().endswith(f"try:      {hint}")


def test_looking_up_an_mlflow_id_does_not_create_a_store(compare, outputs):
    code, _, err = compare("0" * 32, "model=gkde")
    assert code == 2
    assert re.search(r"there is no .*mlflow\.db", err)
    assert not (outputs / "mlflow.db").exists()


def test_a_damaged_table_of_nodes_is_named(command, tmp_path):
    for model in ("gkde", "lop_gpn"):
        save_run(tmp_path, random_run(model))
    path = tmp_path / "runs" / "lop_gpn-cora-s0-i0-none-aaaa" / "predictions.parquet"
    path.write_text("x")
    code, _, err = command("compare", "gkde", "lop_gpn", "--output-dir", str(tmp_path))
    assert code == 2
    assert f"{path} cannot be read" in err
    assert "rm -r" in err  # without a config, the command that made the run is not known


@pytest.mark.parametrize(("option", "name"), [("--export", "x.csv"), ("--export", "x.parquet"), ("--html", "x.html")])
def test_a_file_that_cannot_be_written_is_named_with_the_reason(compare, tmp_path, option, name):
    path = tmp_path / "nodir" / name
    code, _, err = compare("gkde-cora-s1-i0-none", "lop_gpn-cora-s1-i0-none", option, str(path))
    assert code == 2
    assert f"{path} cannot be written (" in err
    assert "(None)" not in err


@pytest.mark.parametrize("words", [["--help"], ["wrong", "names"]])
def test_help_and_typos_load_neither_pandas_nor_torch(outputs, tmp_path, words):
    command = [sys.executable, "-c", PROBE, "pandas,torch,numpy", "compare", *words, "--output-dir", str(outputs)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "lopgpn_exp" in done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "imported:"
