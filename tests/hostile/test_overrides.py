"""Odd command lines: one message and a code other than zero, at once and without a traceback."""

import os
import pickle
from pathlib import Path

import pytest
import yaml

from tests.support import TINY

HUGE = "100000000000"
LONG = "x" * 5_000
# What the message says, by override.
REFUSED = {
    f"model.hidden_dim={HUGE}": "at most 16,384: each feature has a weight",
    "model.latent_dim=5000": "at most 4,096",
    "model.flow_layers=1000000000": "at most 1,000",
    "model.num_steps=1000000000": "at most 10,000: each step multiplies by the graph once",
    "model.hidden_dim=99999999999999999999999999": "at most 15 digits",
    f"model.hidden_dim={'1' * 4400}": "4300 digits",
    "trainer.max_epochs=1000000000000": "at most 10,000,000",
    "trainer.patience=1000000000000": "at most 10,000,000",
    "trainer.threads=5000": "at most 1,024",
    "init=1000000000": "at most 1,000,000",
    "inits=1000000000": "at most 1,000,000",
    f"dataset.num_nodes={HUGE}": "the graph is held in memory",
    "dataset.num_features=1000000000": "16 GiB",
    "dataset.signal=nan": "signal is nan",
    f"model.name={LONG}": "bytes in total",
    f"dataset.name={LONG}": "bytes in total",
    f"ood.name={LONG}": "bytes in total",
    "model.name=-x": "not starting with",
    f"output_dir={LONG}": "255 in each name",
    f"data_root={'a/' * 3000}": "3,000 bytes",
    "+model.x=" + "{a:" * 10_000 + "1" + "}" * 10_000: "levels deep",
    "+model.x=" + "[" * 10_000 + "]" * 10_000: "levels deep",
    "output_dir=${" * 10_000: "levels deep",
    "split._target_=builtins.exit": "not an option of builtins.exit",
    "model=[1": "not a valid override",
    "model='abc": "not a valid override",
    "output_dir=[a]b": "\"output_dir='VALUE'\"",
    "mödel=x": "not a valid override",
    "model=lop_gpn,gkde": "add -m",
    "--bogus": "unrecognized arguments: --bogus",
    "--cfg=nope": "invalid choice: 'nope'",
    "--info=nope": "invalid choice: 'nope'",
    "--package=x": "--cfg job too",
    "--config-path=conf": "unrecognized arguments",
}
MATERN = {
    "num_eigenpairs": HUGE,
    "quadrature_points": HUGE,
    "max_steps": HUGE,
    "adam_steps": HUGE,
    "epochs": HUGE,
    "max_inducing": HUGE,
    "nu": "inf",
    "learning_rate": "nan",
    "eigen_tolerance": "0",
}
SWEEPS = {
    "split.index=": "split.index is ''",
    "split.index=[]": "split.index is '[]'",
    "inits=0": "init=range(0) has no values",
    "model=glob(zzz*)": "model=glob(zzz*) has no values",
    "split.index=range(5,1)": "split.index=range(5,1) has no values",
    "split.count=0": "split.index=range(0) has no values",
    "split.index=range(0,nan)": "split.index=range(0,nan) is not a valid range",
    "split.index=range(1000000000)": "at most 100,000",
    "model.teleport=range(0,1,0.0)": "model.teleport=range(0,1,0.0) is not a valid range",
    "init=range(1000000)": "at most 100,000",
    "output_dir=a,b": "output_dir has 2 values",
    "output_dir=ü,b": "output_dir has 2 values",
    "tracking.experiment=a,b": "tracking.experiment has 2 values",
    "model=choice()": "not a valid override",
}


def check_refused(outcome, message):
    code, out, err = outcome
    assert code == 2
    assert message in err
    assert "expected: " in err
    assert "done" not in out


@pytest.mark.parametrize("override", REFUSED, ids=lambda word: word[:40])
def test_override_is_refused_with_a_reason(command, override):
    check_refused(command(*TINY, "dry_run=true", override), REFUSED[override])


@pytest.mark.parametrize("option", MATERN)
def test_option_of_matern_ggp_is_bounded(command, option):
    words = [*TINY, "dry_run=true", "model=matern_ggp", f"model.{option}={MATERN[option]}"]
    check_refused(command(*words), f"{option} is ")


@pytest.mark.parametrize("override", SWEEPS)
def test_sweep_without_runs_or_with_too_many_is_refused(command, override):
    check_refused(command(*TINY, "dry_run=true", "ood=none", override, "-m"), SWEEPS[override])


@pytest.mark.parametrize("n_jobs", ["0", "x", "1.5", "null", "[]", "100000000"])
def test_number_of_processes_is_checked(command, n_jobs):
    words = ["hydra/launcher=joblib", f"hydra.launcher.n_jobs={n_jobs}", "-m"]
    check_refused(command(*TINY, "dry_run=true", *words), "hydra.launcher.n_jobs=-1")


def test_pickle_of_hydras_rerun_is_not_loaded(command, tmp_path):
    class Opened:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "opened"),))

    (tmp_path / "config.pickle").write_bytes(pickle.dumps(Opened()))
    check_refused(command("--experimental-rerun", "config.pickle"), "unrecognized arguments")
    assert not (tmp_path / "opened").exists()


PATHS = ["./ü", "a=b", "a b", "a(b)", "a,b", "a'b", 'a"b', "a#b", "a%b", "a$b", "a{b", "a[b]", "日本", "a;b", "a&b"]
PATHS += ["a!b", "a\\b", "a\\'b", "a*b", "1e3", "007", "true", "a=b,c=d", "-x"]


@pytest.mark.parametrize("path", PATHS)
def test_path_is_used_as_it_is_typed(command, path):
    code, out, err = command(*TINY, "--cfg", "job", f"output_dir={path}")
    assert code == 0, err
    code, _, err = command("results", f"--output-dir={path}")
    assert f"no finished run in {Path(path) / 'runs'}" in err  # what the other commands make of it
    assert yaml.safe_load(out)["output_dir"] == path


def test_tilde_is_the_home_folder(command, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    code, _, err = command(*TINY, "output_dir=~/runs here", "checkpoint=~/x.ckpt")
    assert code == 2
    assert f"the checkpoint {tmp_path}/home/x.ckpt cannot be read" in err
    _, _, err = command("results", "--output-dir=~/x")
    assert f"{tmp_path}/home/x/runs" in err
    _, _, err = command(*TINY, "--config-dir=~/conf", "dry_run=true")
    assert f"there is no folder {tmp_path}/home/conf" in err


def test_values_of_a_sweep_are_quoted_one_by_one(command, tmp_path):
    words = ["dataset.name=ü,b", "split.index=0", "init=0", "ood=none", "-m"]
    code, out, err = command(*TINY, "dry_run=true", *words)
    assert code == 0, err
    assert out.strip().startswith("2 runs")


def test_typo_in_an_option_of_a_class_is_corrected_without_a_group(command):
    check_refused(command("check", "lopgpn_exp.models.GPN", "hidden_dm=3"), "try:      hidden_dim=3")
    check_refused(command("check", "lopgpn_exp.models.GPN", "hidden_dim=1,2"), "has several values")


SEARCHES = {
    "model.teleport=range(0,10,0)": "is not a valid range",
    "model.teleport=range(0,1,0.0)": "is not a valid range",
    "model.teleport=range(0,nan)": "is not a valid range",
    "model.teleport=range(1,0)": "has no value",
    "model.teleport=range(0,1000000000)": "more than 10,000 values",
    "model.teleport=interval(0,inf)": "searched from 0 to inf",
    "model=glob(x*)": "cannot be searched",
}


@pytest.mark.parametrize("override", SEARCHES)
def test_search_that_cannot_be_made_is_refused(command, override):
    check_refused(command("tune", override), SEARCHES[override])
