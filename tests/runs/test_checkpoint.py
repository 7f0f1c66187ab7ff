"""Evaluating a given checkpoint: only one of the planned model, trained on the same graph, is accepted."""

from dataclasses import replace

import pytest
import torch

from lopgpn_exp.errors import InputError
from lopgpn_exp.models.checkpoint_file import build_model, read_checkpoint
from lopgpn_exp.training import load_module
from tests.support import run_tiny


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    return run_tiny(tmp_path_factory.mktemp("outputs"))


def test_checkpoint_can_be_evaluated(clean, tmp_path):
    other = run_tiny(tmp_path / "elsewhere", f"checkpoint={clean.folder / 'model.ckpt'}", "ood=gaussian")
    direct = run_tiny(tmp_path, "ood=gaussian")
    assert other.result.metrics == direct.result.metrics
    assert not (tmp_path / "elsewhere" / "trainings").exists()


def test_model_is_the_one_that_lightning_would_load(clean):
    path = clean.folder / "model.ckpt"
    checkpoint = read_checkpoint(path.read_bytes())
    expected = load_module(path, model_class=checkpoint.model_class).model.state_dict()
    state = build_model(checkpoint).state_dict()
    assert list(state) == list(expected)
    assert all(torch.equal(state[key], expected[key]) for key in expected)
    for key in ("model.more", "more"):  # neither unknown nor missing weights pass
        with pytest.raises((RuntimeError, ValueError), match="more"):
            build_model(replace(checkpoint, state=checkpoint.state | {key: torch.zeros(1)}))
    with pytest.raises(RuntimeError, match="Missing"):
        build_model(replace(checkpoint, state={}))


@pytest.mark.parametrize(
    ("overrides", "message", "hint"),
    [
        (["model=appnp"], r"holds a lopgpn_exp\.models\.LOPGPN", "the same model"),
        (["dataset.num_features=9"], "is for 8 features and 4 classes", "the same model"),
        (["model.teleport=0.5"], r"was trained with teleport 0\.1", "model.teleport=0.1"),
        (["split.index=1"], "was trained on another graph or split", "the same model and dataset"),
        (["dataset.seed=5"], "was trained on another graph or split", "the same model and dataset"),
    ],
)
def test_checkpoint_of_another_run_is_refused(clean, tmp_path, overrides, message, hint):
    with pytest.raises(InputError, match=message) as caught:
        run_tiny(tmp_path, f"checkpoint={clean.folder / 'model.ckpt'}", *overrides)
    assert hint in caught.value.hint


@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04 nonsense"])
def test_file_that_is_not_a_checkpoint_is_refused(tmp_path, content):
    path = tmp_path / "model.ckpt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match="checkpoint") as caught:
        run_tiny(tmp_path, f"checkpoint={path}")
    assert "model.ckpt" in caught.value.hint
