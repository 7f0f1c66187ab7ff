"""What needs no heavy library does not wait for one: help, and mistakes that can be found without."""

import subprocess
import sys

import pytest

HEAVY = ("torch", "pytorch_lightning", "mlflow", "pandas", "sklearn", "scipy.stats", "matplotlib", "torch_geometric")
# Runs a module as `python -m` does, and says in the end which of the libraries it imported.
PROBE = """
import atexit, runpy, sys
heavy, module, sys.argv = sys.argv[1].split(","), sys.argv[2], sys.argv[2:]
atexit.register(lambda: print("imported:", *[name for name in heavy if name in sys.modules]))
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""


def start(folder, module: str, *words: str) -> tuple[int, str, set[str]]:
    """Exit code, all output, and the heavy libraries that were imported."""
    command = [sys.executable, "-c", PROBE, ",".join(HEAVY), module, *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    out, _, imported = done.stdout.rpartition("imported:")
    return done.returncode, out + done.stderr, set(imported.split())


@pytest.mark.parametrize(
    "module", [f"lopgpn_exp{name}" for name in ("", ".results", ".tune", ".predict", ".score", ".explain", ".bounds")]
)
def test_help_imports_nothing_heavy(tmp_path, module):
    code, output, imported = start(tmp_path, module, "--help")
    assert code == 0, output
    assert f"python -m {module}" in output
    assert imported == set()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["model=foo"], "there is no model=foo"),
        (["trainer.patienc=3"], "there is no trainer.patienc"),
        (["model.latent_dimm=3"], "there is no model.latent_dimm"),
        (["trainer.patience=abc"], "trainer.patience is 'abc'"),
        (["trainer.patience=0"], "trainer.patience is 0"),
        (["init=-1"], "init is -1"),
        (["model=foo", "-m"], "there is no model=foo"),
        (["model=lop_gpn,foo", "-m"], "there is no model=foo"),
        (["trainer.patienc=3", "-m"], "there is no trainer.patienc"),
        (["trainer.patience=1,abc", "-m"], "trainer.patience is 'abc'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_name_or_type_is_said_without_anything_heavy(tmp_path, words, message):
    code, output, imported = start(tmp_path, "lopgpn_exp", *words)
    assert code == 2, output
    assert message in output
    assert imported == set()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("model.latent_dim=0", "latent_dim is 0"),
        ("model.latent_dim=abc", "model.latent_dim is 'abc'"),
        ("model.teleport=7", "teleport is 7"),
        ("+model.latent_dimm=3", "model.latent_dimm is not an option"),
        ("model.optimizer.learning_rate=0", "model.optimizer.learning_rate is 0"),
    ],
)
def test_a_wrong_value_of_a_model_takes_torch_alone(tmp_path, word, message):
    code, output, imported = start(tmp_path, "lopgpn_exp", word)
    assert code == 2, output
    assert message in output
    assert imported == {"torch"}


def test_a_sweep_that_cannot_run_at_all_takes_no_training_and_no_database(tmp_path):
    code, output, imported = start(tmp_path, "lopgpn_exp", "model.teleport=7", "-m")
    assert code == 1, output
    assert "40 cannot be run: teleport is 7" in output
    assert imported == {"torch", "pandas"}  # pandas: the table of past runs
    assert list(tmp_path.iterdir()) == []
