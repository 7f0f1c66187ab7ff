"""The run command as a user meets it: its output, and one message without a traceback for every wrong value."""

import sqlite3

import pytest
from mlflow.tracking import MlflowClient

from lopgpn_exp import training
from lopgpn_exp.runs import execute
from tests.support import TINY, TRACKED

# What the message says is wrong, and what it suggests or expects.
ERRORS = {
    "model=lopgpn": ("there is no model=lopgpn", "model=lop_gpn"),
    "dataset=cora": ("there is no dataset=cora", "dataset=cora_ml"),
    "ood=gausian": ("there is no ood=gausian", "ood=gaussian"),
    "modle=appnp": ("there is no modle", "model=..."),
    "model.teleprt=0.2": ("there is no model.teleprt", "model.teleport=..."),
    "trainer.patiense=3": ("there is no trainer.patiense", "trainer.patience=..."),
    "+model.teleprt=0.2": ("model.teleprt is not an option", "model.teleport=0.2"),
    "model.optimizer.learn_rate=1": ("there is no model.optimizer.learn_rate", "model.optimizer.learning_rate=..."),
    "model.teleport=high": ("model.teleport is 'high'", "a number"),
    "model.num_steps=1.5": ("model.num_steps is 1.5", "a whole number"),
    "model.num_steps=true": ("model.num_steps is True", "a whole number"),
    "model.flow=radal": ("model.flow is 'radal'", "model.flow=radial"),
    "trainer.patience=long": ("trainer.patience is 'long'", "a whole number"),
    "trainer.patience=0": ("trainer.patience is 0", "1 or more"),
    "force=maybe": ("force is 'maybe'", "true or false"),
    "init=-1": ("init is -1", "0 or more"),
    "split.index=12": ("index is 12", "split.index=9"),
    "split.train=0.5": ("= 1.45", "a sum of 1"),
    "split=official": ("no official split", "split=random"),
    "model.teleport=0": ("teleport is 0", "model.teleport=0.1"),
    "model.optimizer.learning_rate=0": ("model.optimizer.learning_rate is 0", "a positive number"),
    "dataset.num_nodes=1": ("1 nodes in 4 classes", "at least 2 classes"),
    "checkpoint=nowhere.ckpt": ("nowhere.ckpt cannot be read", "model.ckpt"),
    "trainer.accelerator=gpu": ("accelerator is 'gpu'", "trainer.accelerator=auto"),
    "trainer.accelerator=nonsense": ("accelerator is 'nonsense'", "trainer.accelerator=auto"),
    "trainer.validate_every=100": ("trainer.validate_every is 100", "at least one validation"),
    "trainer.threads=100000000000": ("trainer.threads is 100000000000", "at most"),
    "+trainer.foo=1": ("there is no trainer.foo", "one of trainer.max_epochs"),
    "+tracking.foo=1": ("there is no tracking.foo", "tracking.uri"),
    "+ini=3": ("there is no ini", "init=..."),
    "+ood.foo=1": ("ood.foo is set", "ood=none"),
    "model.optimizer.learning_rate=nan": ("model.optimizer.learning_rate is nan", "a positive number"),
    "model.optimizer.weight_decay=-1": ("model.optimizer.weight_decay is -1", "0 or more"),
    "model.optimizer=null": ("model.optimizer is None", "learning_rate"),
    "model.optimizer.learning_rate=null": ("model.optimizer.learning_rate is None", "a number"),
    "model.name=../../x": ("model.name is '../../x'", "letters, digits"),
    "ood.stage=evaluation": ("ood.stage is evaluation", "both none, or neither"),
    "ood.stage=foo": ("ood.stage is 'foo'", "one of none, training, evaluation"),
    "~split.index": ("split.index is missing", "split=..."),
    "~trainer": ("lopgpn_exp: ", "expected:"),
    "output_dir=": ("output_dir is empty", "output_dir=outputs"),
    "split.count=0": ("count is 0", "split.count=10"),
    "dataset.seed=-1": ("seed is -1", "dataset.seed=0"),
    "dataset.num_features=0": ("num_features is 0", "1 or more"),
    "dataset.degree_exponent=nan": ("degree_exponent is nan", "more than 2"),
    "model.memory_limit_gib=nan": ("memory_limit_gib is nan", "model.memory_limit_gib=8"),
    "checkpoint=/etc/hostname": ("cannot be opened", "model.ckpt"),
    "model=1": ("must be a string", "group=option"),
    "model=[1": ("lopgpn_exp: ", "group=option"),
    "model._target_=nowhere.Model": ("cannot be imported", "import path"),
}


@pytest.mark.parametrize("override", ERRORS)
def test_wrong_value_is_one_message_before_any_training(command, override, monkeypatch):
    monkeypatch.setattr(training, "fit", lambda *_, **__: pytest.fail("trained"))
    code, _, err = command(*TINY, override)
    what, hint = ERRORS[override]
    assert code == 2
    assert what in err
    assert hint in err
    assert "expected:" in err
    assert "Traceback" not in err


def test_scenario_without_ood_nodes_is_refused(command):
    code, _, err = command(*TINY, "ood=gaussian", "ood.fraction=1e-9")
    assert code == 2
    assert "made no test node out-of-distribution" in err


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("uri", ["http://127.0.0.1:9", "sqlite:////proc/x.db"])
def test_unusable_tracking_store_is_reported_before_training(command, uri, monkeypatch):
    monkeypatch.setattr(training, "fit", lambda *_, **__: pytest.fail("trained"))
    code, _, err = command(*TINY, "tracking=mlflow", f"tracking.uri={uri}")
    assert code == 2
    assert f"MLflow cannot be used at {uri}" in err
    assert "try:      tracking.uri=sqlite:///outputs/mlflow.db" in err


def test_file_that_is_no_database_is_reported_before_training(command, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "fit", lambda *_, **__: pytest.fail("trained"))
    (tmp_path / "text.db").write_text("no database" * 1000)
    code, _, err = command(*TINY, "tracking=mlflow", "tracking.uri=sqlite:///text.db")
    assert code == 2
    assert "MLflow cannot be used at sqlite:///text.db (file is not a database)" in err


def test_experiment_without_a_name_is_reported_before_training(command, monkeypatch):
    monkeypatch.setattr(training, "fit", lambda *_, **__: pytest.fail("trained"))
    code, _, err = command(*TRACKED, "tracking.experiment=")
    assert code == 2
    assert "experiment is empty" in err
    assert "try:      tracking.experiment=lopgpn_exp, or tracking=none" in err


@pytest.mark.filterwarnings("ignore")  # MLflow's own
def test_store_that_fails_after_training_is_a_warning(command, tracked_outputs):
    """Whether MLflow accepts the version of a database is known only once it is imported, after the result is shown."""
    with sqlite3.connect(tracked_outputs / "mlflow.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0'")
    connection.close()
    code, out, err = command(*TRACKED, "model=gkde")
    assert code == 0
    assert "accuracy 0." in out
    assert "browse" not in out
    assert "warning: MLflow cannot be used at sqlite:///outputs/mlflow.db" in err
    assert "to track them later: lopgpn_exp track" in err


@pytest.mark.filterwarnings("ignore")  # MLflow's own
def test_finished_run_is_shown_from_the_lookup_only_if_mlflow_has_it(command, tracked_outputs, monkeypatch):
    words = [*TRACKED, "model=gkde"]
    command(*words)
    original, located = execute.locate_run, []
    monkeypatch.setattr(execute, "locate_run", lambda plan: located.append(plan) or original(plan))
    first, links = command(*words)[1], "viewStateShareKey=runs"
    assert not located
    assert "finished before" in first
    assert links in first
    (folder,) = (tracked_outputs / "runs").iterdir()
    client = MlflowClient(f"sqlite:///{tracked_outputs}/mlflow.db")
    (run,) = client.search_runs(["1"])
    client.delete_run(run.info.run_id)
    assert command(*words)[1] == first
    assert len(located) == 1
    (again,) = client.search_runs(["1"])
    assert again.data.tags["run_id"] == folder.name
    for changed in (["force=true"], ["split.index=1"], ["tracking.experiment=other"]):
        located.clear()
        assert command(*words, *changed)[0] == 0
        assert len(located) == 1


def test_run_prints_a_table_its_folder_and_the_next_command(command):
    code, out, _ = command(*TINY, "ood=gaussian")
    assert code == 0
    for text in (
        "lop_gpn · synthetic · split 0 · gaussian",
        "accuracy 0.",
        "EU_SO",
        "OOD AUC-ROC",
        "results  outputs/runs/",
        "next     lopgpn_exp predict lop_gpn-synthetic-s0-i0-gaussian-",
    ):
        assert text in out
    again = command("run", *TINY, "ood=gaussian")[1]
    assert "finished before" in again
    assert "force=true" in again


def test_next_command_names_another_output_folder(command):
    _, out, _ = command(*TINY, "model=gkde", "output_dir=other place")
    last = out.splitlines()[-1]
    assert last.startswith("next     lopgpn_exp predict gkde-synthetic-s0-i0-none-")
    assert last.endswith(" --output-dir 'other place'")


def test_dry_run_prints_the_identity_and_writes_nothing(command, tmp_path):
    code, out, _ = command("dry_run=true", "tracking=none")
    assert (code, out) == (0, "lop_gpn-digits-s0-i0-none-500cb89095: to do\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore")  # MLflow's own
def test_tracked_run_names_the_command_that_serves_it(command, tracked_outputs):
    code, out, _ = command(*TRACKED)
    assert code == 0
    assert "browse   lopgpn_exp ui" in out
    assert "http://127.0.0.1:5000/#/experiments/1/runs?viewStateShareKey=runs&compareRunsMode=CHART" in out


def test_bug_keeps_its_traceback(command, monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(training, "fit", fail)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        command(*TINY)
