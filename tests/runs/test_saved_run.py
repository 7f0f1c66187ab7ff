"""A finished run, opened again: its names, its page, and what happens if files or code have changed."""

import re
import shutil

import numpy as np
import pytest

from lopgpn_exp.data.files import custom_graph
from lopgpn_exp.runs.checksums import write_checksums
from lopgpn_exp.runs.saved_run import SavedRun
from tests.support.tables import CLASSES


@pytest.fixture
def run(tree_run):
    folder, run_id = tree_run
    return SavedRun.open(folder / "outputs/runs" / run_id)


def test_legend_of_a_run_is_that_of_its_file(run, tree_run):
    graph = custom_graph(path=str(tree_run[0]))
    assert (run.legend.classes, run.legend.features) == (tuple(CLASSES), graph.legend.features)
    np.testing.assert_array_equal(run.legend.shift, graph.legend.shift)
    np.testing.assert_array_equal(run.legend.scale, graph.legend.scale)


def test_graph_of_a_run_is_the_one_that_it_was_evaluated_on(run):
    assert run.graph is run.graphs.evaluation is run.graphs.clean
    assert (run.num_features, run.num_classes) == (6, 3)


def test_page_of_a_run_shows_the_names_of_nodes_and_classes(run):
    text = (run.folder / "page.html").read_text()
    assert "class ash predicted as ash" in text
    assert re.search(r"<td[^>]*>tree \d{3}</td>", text)
    assert '"classes": ["ash", "birch", "oak"]' in text
    assert '"tree 000", "tree 001"' in text


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("model.ckpt", None, r"model\.ckpt cannot be opened"),
        ("predictions.parquet", b"no", r"predictions\.parquet cannot be read"),
        ("config.yaml", b"[", r"config\.yaml cannot be read"),
        ("config.yaml", b"text", r"config\.yaml cannot be read"),
        ("config.yaml", b"{}", r"config\.yaml cannot be read \(Missing mandatory value: model\)"),
        ("config.yaml", b"init: first", r"config\.yaml cannot be read \(init is 'first'\)"),
        ("legend.json", b"{}", r"legend\.json cannot be read"),
    ],
)
def test_damaged_file_is_one_message(command, run, tmp_path, name, content, message):
    folder = tmp_path / "outputs" / "runs" / run.folder.name
    shutil.copytree(run.folder, folder)
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    write_checksums(folder)  # not damaged, but written like this
    changed = ["--graph", str(run.output_dir.parent)] if name == "legend.json" else []
    code, _, err = command("predict", run.folder.name, *changed)
    assert code == 2
    assert re.search(message, err)
    assert re.search("force=true|rm -r", err)
    assert "Traceback" not in err


def test_lost_legend_is_not_taken_for_a_dataset_without_names(command, run, tmp_path):
    """The features of a changed version would not be scaled."""
    folder = tmp_path / "outputs" / "runs" / run.folder.name
    shutil.copytree(run.folder, folder)
    (folder / "legend.json").unlink()
    code, _, err = command("predict", run.folder.name, "--graph", str(run.output_dir.parent))
    assert code == 2
    assert "legend.json cannot be read" in err
