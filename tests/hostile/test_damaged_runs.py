"""Damaged files of runs and trainings: no number is read from them, and the message says how to repair them."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pandas as pd
import pytest

from lopgpn_exp.runs.run_folder import read_result
from tests.support import TINY
from tests.support.hostile import damage

WORDS = [*TINY, "model.teleport=0.2"]


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Path:
    from lopgpn_exp.config.plan import plan_run
    from lopgpn_exp.runs.execute import run
    from tests.support import compose

    outputs = tmp_path_factory.mktemp("made") / "outputs"
    run(plan_run(compose(*WORDS, f"output_dir={outputs}")))
    return outputs


@pytest.fixture
def folder(template, tmp_path) -> Path:
    """Return the folder of a finished run in `outputs` of the current folder, with its training."""
    shutil.copytree(template, tmp_path / "outputs")
    (folder,) = (tmp_path / "outputs" / "runs").glob("[!.]*")
    return folder


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("model.ckpt", ["predict"]),
        ("model.ckpt", ["explain", "0"]),
        ("predictions.parquet", ["predict"]),
        ("predictions.parquet", ["score"]),
        ("predictions.parquet", ["compare", "RUN"]),
        ("result.json", ["predict"]),
        ("config.yaml", ["predict"]),
        ("SHA256SUMS", ["predict"]),
    ],
)
def test_damaged_file_of_a_run_is_named_and_the_printed_command_repairs_it(command, folder, name, words):
    before = read_result(folder)
    damage(folder / name, start=0)
    call = [folder.name if word == "RUN" else word for word in words]
    code, out, err = command(call[0], folder.name, *call[1:])
    assert code == 2, out
    assert folder.name in err
    assert "Traceback" not in err
    hint = next(line for line in err.splitlines() if "try:" in line).partition("try:")[2].strip()
    if hint.startswith("lopgpn_exp"):
        _, *repair = shlex.split(hint)
        assert "force=true" in repair
    else:
        assert hint.startswith("rm -r")
        repair = WORDS
        shutil.rmtree(folder)
    code, _, err = command(*repair, *([] if repair is WORDS else ["tracking=none"]))
    assert code == 0, err
    assert read_result(folder).metrics == before.metrics
    assert command(call[0], folder.name, *call[1:])[0] == 0


@pytest.mark.parametrize("name", ["result.json", "predictions.parquet", "config.yaml", "SHA256SUMS"])
def test_damaged_run_is_made_again_by_its_own_command(command, folder, name):
    before = read_result(folder)
    damage(folder / name, start=0)
    code, out, err = command(*WORDS)
    assert code == 0, err
    assert "making the run again" in out + err
    assert read_result(folder).metrics == before.metrics


@pytest.mark.parametrize("name", ["model.ckpt", "training.json", "SHA256SUMS"])
def test_damaged_training_is_trained_again(command, folder, name):
    """512 zeroed bytes in a checkpoint changed 76 flags and a stored accuracy before there were checksums."""
    expected = Path("expected")
    assert command(*WORDS, "ood=gaussian", f"output_dir={expected}")[0] == 0
    (training,) = (path for path in Path("outputs/trainings").iterdir() if path.is_dir())
    damage(training / name, start=0 if name == "SHA256SUMS" else None)
    code, out, err = command(*WORDS, "ood=gaussian")
    assert code == 0, err
    assert re.search(r"The training in .* is damaged .*: training again", out + err)
    (clean,), (again,) = (list(root.glob("runs/[!.]*gaussian*")) for root in (expected, Path("outputs")))
    assert read_result(clean).metrics == read_result(again).metrics
    pd.testing.assert_frame_equal(*(pd.read_parquet(run / "predictions.parquet") for run in (clean, again)))


def test_checkpoint_outside_a_run_folder_is_checked_too(command, folder):
    """A copied checkpoint has no SHA256SUMS beside it, but checksums inside."""
    copy = Path("copy.ckpt")
    shutil.copy(folder / "model.ckpt", copy)
    damage(copy)
    code, _, err = command(*WORDS, f"checkpoint={copy}", "output_dir=elsewhere")
    assert code == 2
    assert "copy.ckpt cannot be opened" in err
    assert not list(Path("elsewhere").glob("runs/[!.]*"))


def test_run_without_checksums_is_read_if_it_was_made_before_there_were_any(command, folder):
    path = folder / "result.json"
    (folder / "SHA256SUMS").unlink()
    code, _, err = command("predict", folder.name)
    assert code == 2
    assert "has no SHA256SUMS" in err
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema": 1}))
    assert command("predict", folder.name)[0] == 0
