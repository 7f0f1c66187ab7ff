"""The advise command: what it recommends, that test labels play no part in it, and that it can be continued."""

import json
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lopgpn_exp.data.files import custom_graph
from lopgpn_exp.data.splits import own_split
from lopgpn_exp.evaluation.choice import Estimate
from lopgpn_exp.graph import Part
from lopgpn_exp.report.choice_report import _points
from lopgpn_exp.runs.table import read_results
from tests.support.html_pages import Reader, charts
from tests.support.tables import write_tables

METHODS = ["--methods", "gcn, mlp"]  # the order is that of the list of methods
FEW_EPOCHS = ["trainer.max_epochs=30"]
TIMES = ("seconds", "peak_rss_mb")


def write_split(folder: Path, *, exchange_test_labels: bool = False) -> None:
    """Write a graph with a split column; optionally every test node gets the label of another class."""
    folder.mkdir(exist_ok=True)
    write_tables(folder)
    graph = own_split(custom_graph(path=str(folder)), index=0)
    table = pd.read_csv(folder / "nodes.csv", keep_default_na=False)
    parts = np.array([part.name.lower() for part in Part])[graph.part.numpy()]
    table.insert(2, "split", np.where(parts == "none", "", parts))
    if exchange_test_labels:
        is_test = table["split"] == "test"
        table.loc[is_test, "label"] = table["label"].map({"ash": "birch", "birch": "oak", "oak": "ash"})
    table.to_csv(folder / "nodes.csv", index=False)


def read_advice(output_dir: Path) -> dict:
    (path,) = (output_dir / "advice").glob("*/advice.json")
    return json.loads(path.read_text())


def without_times(advice: dict) -> dict:
    """Return the advice without what differs between two trainings of the same: how long they took."""
    methods = [{key: value for key, value in method.items() if key not in TIMES} for method in advice["methods"]]
    first, *others = advice["sentences"]
    return {**advice, "methods": methods, "sentences": [first.rpartition(";")[0], *others], "command": ""}


def test_advice_does_not_depend_on_test_labels_and_its_command_trains_the_winner(command, tmp_path):
    for name, changed in (("first", False), ("second", True)):
        write_split(tmp_path / name, exchange_test_labels=changed)
        code, out, err = command("advise", name, *METHODS, *FEW_EPOCHS, "--output-dir", f"{name}/outputs")
        assert code == 0, err
    labels = [pd.read_csv(tmp_path / name / "nodes.csv").set_index("split")["label"] for name in ("first", "second")]
    assert (labels[0]["test"] != labels[1]["test"]).all()
    first, second = (read_advice(tmp_path / name / "outputs") for name in ("first", "second"))
    assert without_times(first) == without_times(second)  # with the ids of its four runs
    assert len(first["run_ids"]) == 4
    assert {result.dataset for result in read_results(tmp_path / "first" / "outputs")} == {"advice"}

    # What is typed next is complete and valid.
    program, *words = shlex.split(second["command"])
    assert program == "lopgpn_exp"
    assert words[0] == f"model={second['winner']}"
    code, _, err = command(*words, "tracking=none", "trainer.progress=false")
    assert code == 0, err
    lines = [line.removeprefix("next").strip() for line in out.splitlines()[-2:]]
    assert sorted(shlex.split(lines[0])[2:]) == sorted(words)
    code, out, err = command(*shlex.split(lines[1])[1:])
    assert code == 0, err
    assert "300 nodes of" in out


def test_advice_is_continued_and_names_what_there_was_no_time_for(command, tmp_path):
    write_tables(tmp_path)
    words = ["advise", "nodes.csv", "--edges", "edges.csv", *FEW_EPOCHS]
    code, out, err = command(*words, "--methods", "mlp")
    assert code == 0, err
    assert "300 nodes, 900 undirected edges" in out  # the survey
    assert "- Only mlp was trained: there is nothing to compare it with." in out
    runs = tmp_path / "outputs" / "runs"
    times = {path: path.stat().st_mtime_ns for path in runs.glob("*/result.json")}
    assert len(times) == 2
    code, out, err = command(*words, *METHODS, "--minutes", "0.0001")
    assert code == 0, err
    assert "- Not compared: gcn (no time left: more --minutes)." in out
    assert times == {path: path.stat().st_mtime_ns for path in runs.glob("*/result.json")}
    page = Path(next(line for line in out.splitlines() if line.endswith("page.html")).split()[1]).read_text()
    Reader(page)
    assert "Not compared: gcn" in page
    assert [len(list(chart.iter("circle"))) for chart in charts(page, "choice")] == [1] * 3


def test_a_budget_too_small_for_any_method(command, tmp_path):
    write_tables(tmp_path)
    code, _, err = command("advise", ".", *METHODS, "--minutes", "0.0001")
    assert code == 2
    assert "no method finished within 0.0001 minutes" in err
    assert "try:      --minutes 1" in err


def test_a_folder_that_cannot_be_written_is_one_message_before_any_training(command, tmp_path, monkeypatch):
    write_tables(tmp_path)
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write everywhere
    code, out, err = command("advise", ".", *METHODS, "--output-dir", "results")
    assert code == 2
    assert "results cannot be written (Permission denied)" in err
    assert "try:      --output-dir FOLDER" in err
    assert "Comparing" not in out


def test_method_that_cannot_be_trained_is_named_with_what_was_expected(command, tmp_path):
    write_tables(tmp_path)
    code, out, err = command("advise", ".", "--methods", "mlp,matern_ggp", *FEW_EPOCHS)
    assert code == 0, err
    assert "- Not compared: matern_ggp (num_eigenpairs is 500; expected: from 1 to 300, the number of nodes)." in out


def test_interval_of_a_small_difference_does_not_end_at_zero():
    assert _points(Estimate(-0.0008, -0.0013, -0.0003)) == "-0.08 points [-0.13, -0.03]"
    assert _points(Estimate(0.103, 0.077, 0.128)) == "+10.3 points [+7.7, +12.8]"


LABELS = {"none": "", "one": "oak", "few": ["oak", "ash"] * 12}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "the following arguments are required: GRAPH\n"),
        (["nosuch.csv"], "there is no file nosuch.csv"),
        (["nodes.csv"], "try:      --edges edges.csv"),
        (["none"], "no node has a label"),
        (["one"], "all labels are 'oak'"),
        (["few"], "the split has 4 validation nodes\n  expected: at least 20"),
        ([".", "--minutes", "0"], "--minutes is 0\n  expected: a number above 0"),
        ([".", "--minutes", "-1"], "--minutes is -1"),
        ([".", "--minutes", "nan"], "--minutes is nan"),
        ([".", "--minutes", "soon"], "invalid float value: 'soon'"),
        ([".", "--minutes", "1e300"], "--minutes is 1e+300\n  expected: a number above 0, at most 525,600"),
        ([".", "--methods", "gnc"], "try:      --methods gcn"),
        ([".", "--methods", ""], "--methods is empty\n  expected: names of models\n  try:      --methods mlp,gcn"),
        ([".", "--methods", " , "], "--methods is empty"),
        ([".", "--output-dir", "nodes.csv/x"], "nodes.csv/x cannot be written (Not a directory)"),
        ([".", "model=gcn"], "'model=gcn' cannot be set here"),
        ([".", "dataset.path=x"], "'dataset.path=x' cannot be set here"),
        ([".", "dataset.label_column=kind"], "there is no column 'kind'"),
    ],
)
def test_input_error_is_one_message_before_any_training(command, tmp_path, words, message):
    write_tables(tmp_path)
    if words and words[0] in LABELS:
        folder = tmp_path / words[0]
        folder.mkdir()
        write_tables(folder)
        table = pd.read_csv(folder / "nodes.csv").assign(label="")
        labels = LABELS[words[0]]
        table.loc[: (len(labels) - 1 if isinstance(labels, list) else len(table)), "label"] = labels
        table.to_csv(folder / "nodes.csv", index=False)
    code, _, err = command("advise", *words)
    assert code == 2
    assert message in err
    assert "Traceback" not in err
    assert not (tmp_path / "outputs" / "runs").exists()
