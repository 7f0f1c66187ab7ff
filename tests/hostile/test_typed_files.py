"""Files of a run with valid checksums whose content has the wrong types: one message, and no number is read."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
import torch

from lopgpn_exp.runs.checksums import write_checksums
from lopgpn_exp.runs.training_cache import _read_training
from tests.support.fuzzing import MAX_SECONDS, limit_time
from tests.support.hostile import edit_checkpoint, edit_config


@pytest.fixture
def folder(tree_outputs, tmp_path) -> Path:
    """Return the folder of a run in `outputs` of the current folder."""
    shutil.copytree(tree_outputs, tmp_path / "outputs")
    (folder,) = (tmp_path / "outputs" / "runs").glob("[!.]*")
    return folder


def expect_message(command, words: list[str], message: str) -> None:
    code, _, err = command(*words)
    assert (code, "Traceback" in err) == (2, False), err
    assert message in err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": "abc"}, "not lists of names"),
        ({"features": [1, 2]}, "not lists of names"),
        ({"shift": [1.0]}, "shift is not a finite number for each of 6 features"),
        ({"scale": [1e999] * 6}, "Infinity"),
        ({"shift": None}, "only one of shift and scale"),
    ],
)
def test_legend_of_wrong_types_is_refused(command, folder, tree_outputs, change, message):
    path = folder / "legend.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    write_checksums(folder)
    expect_message(command, ["predict", folder.name, "--graph", str(tree_outputs.parent)], message)


@pytest.mark.parametrize(
    "change", [{"epochs": "3"}, {"seconds": {"train": None}}, {"peak_rss_mb": []}, {"history": {"loss": [1]}}]
)
def test_training_of_wrong_types_is_not_used(folder, change):
    (training,) = (path for path in (folder.parent.parent / "trainings").iterdir() if path.is_dir())
    assert _read_training(training) is not None
    path = training / "training.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    write_checksums(training)
    with limit_time(MAX_SECONDS):  # without the checks of annotations, which find this only in tests
        assert _read_training(training) is None


def test_target_that_is_not_a_name_is_refused(command, folder):
    edit_config(folder, lambda config: config["model"].update(_target_=["os.system"]))
    expect_message(command, ["predict", folder.name], "['os.system'] (model)")


def test_run_with_a_config_without_names_is_left_out_of_means(command, folder):
    """Labels of repeated runs are made from their configs, and one such file must not stop `results` for all."""
    copy = folder.with_name(f"{folder.name}2")
    shutil.copytree(folder, copy)
    content = json.loads((copy / "result.json").read_text()) | {"run_id": copy.name}
    (copy / "result.json").write_text(json.dumps(content))
    edit_config(copy, lambda config: config["model"].pop("name"))
    for words in (["results"], ["results", "--aggregate", "--export", "means.csv"]):
        code, _, err = command(*words)
        assert code == 0
        assert f"1 run is left out, because its files cannot be read:\n  {copy.name}: " in err
        assert "model.name is missing" in err
    assert set(pd.read_csv("means.csv")["splits"]) == {1}


def test_checkpoint_with_tensors_as_options_is_refused(command, folder):
    change = {"teleport": torch.ones(2)}
    edit_checkpoint(folder / "model.ckpt", lambda content: content["hyper_parameters"]["model_options"].update(change))
    expect_message(command, ["predict", folder.name], "Tensor is not JSON serializable")


@pytest.mark.parametrize(
    ("command_name", "change", "message"),
    [
        ("predict", lambda table: table.drop(columns="label"), "there is no column 'label'"),
        ("predict", lambda table: table.assign(label="a"), "not whole numbers"),
        ("predict", lambda table: table.assign(part="other"), "is_ood or part"),
        ("predict", lambda table: table.assign(au="a"), "'au' has values that are not finite numbers"),
        ("predict", lambda table: table.assign(eu_so=float("nan")), "'eu_so' has values"),
        ("predict", lambda table: table.drop(columns=["au", "tu"]), "no aleatoric measure"),
        ("predict", lambda table: table.assign(node=table["node"] + 1), "not numbered in order"),
        ("bounds", lambda table: table.head(50), "has 50 nodes, and the graph 300"),
    ],
)
def test_table_of_nodes_of_wrong_types_is_refused(command, folder, command_name, change, message):
    path = folder / "predictions.parquet"
    change(pd.read_parquet(path)).to_parquet(path, index=False)
    write_checksums(folder)
    expect_message(command, [command_name, folder.name], message)
