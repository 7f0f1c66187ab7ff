"""Commands import only the heavy libraries that they need: help and wrong names none, stored results no torch."""

import time

import pytest

from lopgpn_exp.commands import COMMANDS
from lopgpn_exp.config.plan import plan_run
from lopgpn_exp.runs.execute import run
from lopgpn_exp.runs.finished_lookup import lookup_key, remember_run
from tests.support import compose
from tests.support.processes import run_command_lines, run_program


def test_help_is_answered_in_under_a_second(tmp_path):
    seconds = []
    for _ in range(3):  # the best of three: the machine may be busy
        start = time.perf_counter()
        code, output, imported = run_program(tmp_path, "--help")
        seconds.append(time.perf_counter() - start)
        assert (code, imported) == (0, set())
    assert all(f"  {name} " in output for name in COMMANDS)
    assert min(seconds) < 1


# Command lines with what their message says is wrong.
WRONG_NAMES = {
    "predcit": "there is no command 'predcit'",
    "predict --nosuch": "the following arguments are required: RUN",
    "predict nosuch": "there are no runs in outputs/runs",
    "register nosuch": "there are no runs in outputs/runs",
    "explain nosuch node --neighbours 0": "--neighbours is 0",
    "compare nosuch": "there is nothing to compare nosuch with",
    "results --export x.xlsx": "a name that ends in .csv or .parquet",
    "advise graph.npz --minutes 0": "--minutes is 0",
    "advise graph.npz model=gcn": "'model=gcn' cannot be set here",
    "tune model=appnp": "there is nothing to search",
    "ui --port 0": "--port is 0",
    "model=foo": "there is no model=foo",
    "trainer.patienc=3": "there is no trainer.patienc",
    "model.latent_dimm=3": "there is no model.latent_dimm",
    "trainer.patience=abc": "trainer.patience is 'abc'",
    "trainer.patience=0": "trainer.patience is 0",
    "init=-1": "init is -1",
    "model=foo -m": "there is no model=foo",
    "model=lop_gpn,foo -m": "there is no model=foo",
    "trainer.patienc=3 -m": "there is no trainer.patienc",
    "trainer.patience=1,abc -m": "trainer.patience is 'abc'",
}
WRONG_VALUES_OF_A_MODEL = {
    "model.latent_dim=0": "latent_dim is 0",
    "model.latent_dim=abc": "model.latent_dim is 'abc'",
    "model.teleport=7": "teleport is 7",
    "+model.latent_dimm=3": "model.latent_dimm is not an option",
    "model.optimizer.learning_rate=0": "model.optimizer.learning_rate is 0",
}


def test_help_of_every_command_shows_examples_and_imports_nothing_heavy(tmp_path):
    outcomes, imported = run_command_lines(tmp_path, [[name, "--help"] for name in COMMANDS])
    for name, (code, output) in zip(COMMANDS, outcomes, strict=True):
        assert code == 0, output
        assert ("lopgpn_exp model=gpn_sym dataset=cora_ml" if name == "run" else f"  lopgpn_exp {name} ") in output
    assert imported == set()


@pytest.mark.parametrize(
    ("errors", "libraries"), [(WRONG_NAMES, set()), (WRONG_VALUES_OF_A_MODEL, {"torch"})], ids=["names", "model values"]
)
def test_input_error_is_reported_without_libraries_that_it_does_not_need(tmp_path, errors, libraries):
    outcomes, imported = run_command_lines(tmp_path, [line.split() for line in errors])
    for line, (code, output) in zip(errors, outcomes, strict=True):
        assert code == 2, f"{line}: {output}"
        assert errors[line] in output
        assert "Traceback" not in output
    assert imported == libraries
    assert list(tmp_path.iterdir()) == []


def test_sweep_without_valid_runs_needs_neither_training_nor_a_database(tmp_path):
    code, output, imported = run_program(tmp_path, "model.teleport=7", "-m")
    assert code == 1, output
    assert "40 cannot be run: teleport is 7" in output
    assert imported == {"torch", "pandas"}  # pandas: the table of past runs
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """Return a folder with two finished runs in its `outputs`, their ids, and the command line of the first."""
    folder = tmp_path_factory.mktemp("digits")
    run_ids = []
    for split in (0, 1):
        words = ["trainer.max_epochs=2", "trainer.progress=false", "tracking=none", f"split.index={split}"]
        config = compose(*words, f"output_dir={folder / 'outputs'}")
        key = lookup_key(config)
        run_ids.append(run(plan_run(config)).result.run_id)
        remember_run(folder / "outputs", key, run_ids[-1])
    return folder, run_ids, [*words[:-1], "split.index=0"]


def test_stored_results_are_shown_without_torch(digits):
    folder, run_ids, words = digits
    lines = [words, ["score", run_ids[0]], ["results"], ["results", "--export", "runs.csv"], ["compare", *run_ids]]
    outcomes, imported = run_command_lines(folder, lines)
    for line, (code, output) in zip(lines, outcomes, strict=True):
        assert code == 0, f"{line}: {output}"
    assert "finished before" in outcomes[0][1]
    assert imported == {"pandas"}


@pytest.mark.parametrize(("words", "drawing"), [(["predict"], set()), (["explain", "5"], {"matplotlib"})])
def test_model_is_applied_without_what_only_training_needs(digits, words, drawing):
    folder, run_ids, _ = digits
    code, output, imported = run_program(folder, words[0], run_ids[0], *words[1:])
    assert code == 0, output
    assert imported == {"torch", "pandas", "numba"} | drawing
