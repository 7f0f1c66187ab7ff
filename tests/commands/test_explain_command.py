"""The explain command: one node in the terminal and as a picture."""

import re
from pathlib import Path

import pytest


@pytest.fixture
def explain(command, tree_run):
    folder, run_id = tree_run
    return lambda node, *words: command("explain", run_id, node, *words, "--output-dir", str(folder / "outputs"))


def test_node_is_explained_in_the_terminal_and_as_a_picture(explain):
    code, out, _ = explain("tree 007", "--picture", "why.svg")
    assert code == 0
    assert re.search(r"tree 007 +\d+\.\d% +█+ +itself", out)
    assert re.search(r"EU 0\.\d+ = 0\.\d+ \(\d+%\)", out)
    assert "written  why.svg" in out
    assert Path("why.svg").read_text().count("<svg") == 1


def test_picture_is_named_after_the_node(explain):
    assert "written  tree_007.svg" in explain("tree 007")[1]
    assert Path("tree_007.svg").is_file()


def test_node_is_explained_in_a_changed_version(explain, tree_run):
    folder, _ = tree_run
    assert explain("tree 007", "--graph", str(folder))[1] == explain("tree 007")[1]


@pytest.mark.parametrize(
    ("node", "options", "message"),
    [
        ("tree 2999", [], "try:      tree 299"),
        ("tree 001", ["--picture", "why.bmp"], "--picture is why.bmp"),
        ("tree 001", ["--neighbours", "0"], "--neighbours is 0"),
        ("tree 001", ["--edges", "edges.csv"], "--edges is given without --graph"),
    ],
)
def test_input_error_is_one_message_and_writes_nothing(explain, tmp_path, node, options, message):
    code, _, err = explain(node, *options)
    assert code == 2
    assert message in err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []
