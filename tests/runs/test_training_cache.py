"""Trainings are done once: by the process that comes first, completely or not at all, and again if damaged."""

import os
import time

import pytest

from lopgpn_exp import training
from lopgpn_exp.errors import InputError
from lopgpn_exp.runs.run_folder import read_result
from lopgpn_exp.runs.storage import atomic_folder
from lopgpn_exp.runs.training_cache import Training, get_or_train
from tests.support import TINY, run_tiny
from tests.support.processes import Program


def test_training_is_read_back(tmp_path):
    def train(path):
        path.write_bytes(b"weights")
        return Training(path, 7, {"prepare": 0.5, "train": 1.5}, 12.0, {"training/loss": [[1, 0.5]]})

    first = get_or_train(tmp_path, "abc", train)
    second = get_or_train(tmp_path, "abc", lambda _: pytest.fail("trained again"))
    assert first == second
    assert (first.epochs, first.checkpoint.read_bytes()) == (7, b"weights")
    assert first.history == {"training/loss": [[1, 0.5]]}


def test_processes_that_need_the_same_training_do_it_once(tmp_path):
    """Two programs start at the same time and share an output folder."""
    programs = [Program(tmp_path, *TINY, f"ood={scenario}") for scenario in ("none", "gaussian")]
    assert [program.wait() for program in programs] == [0, 0], [program.output for program in programs]
    first, second = (read_result(folder) for folder in (tmp_path / "outputs" / "runs").iterdir())
    assert first.training_id == second.training_id
    assert first.seconds["train"] == second.seconds["train"]  # one training has one duration


def test_error_in_a_training_leaves_nothing_behind(tmp_path, monkeypatch):
    def fail(*_, checkpoint_path, **__):
        checkpoint_path.write_bytes(b"half")
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(training, "fit", fail)
        with pytest.raises(RuntimeError, match="killed"):
            run_tiny(tmp_path)
    assert not [path for path in (tmp_path / "trainings").iterdir() if path.is_dir()]
    assert not list((tmp_path / "runs").glob("[!.]*"))
    assert not run_tiny(tmp_path).is_cached


def test_killed_training_does_not_count_as_finished(tmp_path):
    """SIGKILL in the middle of a training, then the same run again."""
    outputs = tmp_path / "outputs"
    program = Program(tmp_path, *TINY, "trainer.max_epochs=100000", "trainer.patience=100000")
    while program.is_running and not list((outputs / "trainings").glob(".*")):
        time.sleep(0.01)
    assert program.is_running, program.output
    program.kill()
    assert not list((outputs / "runs").glob("[!.]*"))
    assert not [path for path in (outputs / "trainings").iterdir() if not path.name.startswith(".") and path.is_dir()]
    assert not run_tiny(outputs).is_cached


@pytest.mark.parametrize("damage", ["{", "[]", "{}", '{"epochs": 1, "seconds": {}, "peak_rss_mb": 1}', None])
def test_damaged_training_is_done_again(tmp_path, damage):
    first = run_tiny(tmp_path)
    (folder,) = [path for path in (tmp_path / "trainings").iterdir() if path.is_dir()]
    if damage is None:
        (folder / "model.ckpt").unlink()
    else:
        (folder / "training.json").write_text(damage)
    again = run_tiny(tmp_path, "ood=gaussian")
    assert again.result.training_id == first.result.training_id
    assert (folder / "model.ckpt").is_file()


def test_full_disk_is_one_message_and_leaves_nothing_behind(tmp_path):
    def write_until_full():
        with atomic_folder(tmp_path / "runs" / "x") as temporary:
            (temporary / "result.json").write_text("{}")
            raise OSError(28, os.strerror(28))

    with pytest.raises(InputError, match="No space left") as caught:
        write_until_full()
    assert (caught.value.parameter, caught.value.suggestion) == ("output_dir", "FOLDER")
    assert list((tmp_path / "runs").iterdir()) == []
