"""The bounds command on finished runs: its output, files, next command and errors."""

import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from tests.support import run_tiny
from tests.support.html_pages import check_self_contained
from tests.support.processes import PROBE

RUN = "lop_gpn-synthetic-s0-i0-gaussian"


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("outputs")
    for overrides in (["ood=gaussian"], ["ood=leave_out_classes"], ["model=gpn_rw"]):
        run_tiny(folder, *overrides)
    return folder


@pytest.fixture
def bounds(command, outputs):
    return lambda *words: command("bounds", *words, "--output-dir", str(outputs))


@pytest.mark.parametrize("scenario", ["gaussian", "leave_out_classes"])
def test_bounds_of_a_run_are_those_of_its_predictions(bounds, outputs, tmp_path, monkeypatch, scenario):
    monkeypatch.setenv("COLUMNS", "60")
    (folder,) = (outputs / "runs").glob(f"lop_gpn-*-{scenario}-*")
    csv, html = tmp_path / "bounds.csv", tmp_path / "bounds.html"
    words = [f"lop_gpn-synthetic-s0-i0-{scenario}", "--nodes", "all", "--draws", "20"]
    code, out, _ = bounds(*words, "--csv", str(csv), "--html", str(html))
    assert code == 0
    assert "…" not in out  # nothing is cut off, however narrow the terminal is
    predictions = pd.read_parquet(folder / "predictions.parquet").query("part == 'test'")
    table = pd.read_csv(csv)
    assert table["node"].tolist() == predictions["node"].tolist()
    np.testing.assert_allclose(table["upper"], predictions["eu_so"], rtol=1e-9)
    assert f"all {len(predictions)} test nodes" in out.lower()
    area = 100 * roc_auc_score(predictions["is_ood"], predictions["eu_so"])
    assert re.search(rf"AUC-ROC, upper bound \(EU_SO\) +{area:.2f} \[", out)
    assert f"written  {html}" in out
    check_self_contained(html.read_text())


def test_the_next_command_can_be_run(bounds, command, tmp_path):
    _, out, _ = bounds(RUN, "--nodes", "9", "--draws", "4")
    (line,) = re.findall(r"next     lopgpn_exp (.*)", out)
    assert command(*line.split())[0] == 0
    assert (tmp_path / "bounds.html").is_file()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gpn_rw"], "is a GPNPosterior"),
        (["lop_gpn"], "'lop_gpn' is the beginning of 2 names"),
        (["model=lop_gpn"], "'model=lop_gpn' matches 2 runs"),
        (["lop_gnp-synthetic"], "'lop_gnp-synthetic' matches no run"),
        ([RUN, "--nodes", "1"], "--nodes is 1"),
        ([RUN, "--nodes", "many"], "--nodes is many"),
        ([RUN, "--draws", "1"], "--draws is 1"),
        ([RUN, "--seed", "-1"], "--seed is -1"),
        ([RUN, "--draws", "2", "--csv", "no/where.csv"], "no/where.csv cannot be written"),
    ],
)
def test_an_input_error_is_one_message(bounds, words, message):
    code, _, err = bounds(*words)
    assert code == 2
    assert message in err
    assert "expected:" in err


@pytest.mark.parametrize("words", [["--help"], ["wrong"], ["lop_gpn", "--draws", "0"]])
def test_help_and_typos_load_neither_pandas_nor_torch(outputs, tmp_path, words):
    command = [sys.executable, "-c", PROBE, "pandas,torch,matplotlib", "bounds", *words, "--output-dir", str(outputs)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "lopgpn_exp" in done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "imported:"
