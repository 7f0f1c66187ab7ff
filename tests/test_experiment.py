"""One run end to end: what it leaves behind, what it does not do twice, and what it refuses."""

import json
import math
import os
import sqlite3
import subprocess
import sys

import pandas as pd
import pytest
import torch

from lopgpn_exp import training
from lopgpn_exp.errors import InputError
from lopgpn_exp.evaluation import predictions
from lopgpn_exp.experiment import trainings
from lopgpn_exp.experiment.build import plan
from lopgpn_exp.experiment.files import folder_written_at_once
from lopgpn_exp.experiment.results import read_result
from lopgpn_exp.experiment.runner import run
from lopgpn_exp.experiment.seeds import stream
from lopgpn_exp.training import load_module
from tests.test_models import MODELS, SMALL, composed

TINY = [
    "dataset=synthetic",
    "dataset.num_nodes=300",
    "dataset.num_edges=700",
    "dataset.num_classes=4",
    "dataset.num_features=8",
    "dataset.signal=2",
    "trainer.max_epochs=6",
    "trainer.progress=false",
    "tracking=none",
]


def outcome(tmp_path, *overrides):
    return run(plan(composed(*TINY, f"output_dir={tmp_path}", *overrides)))


SCENARIOS = ["none", "leave_out_classes", "bernoulli", "gaussian", "feature_dropout", "feature_noise"]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_run_leaves_what_the_contract_says(tmp_path, scenario):
    done = outcome(tmp_path, f"ood={scenario}", "split.index=3", "init=2")
    result = json.loads((done.folder / "result.json").read_text())
    assert {"schema", "run_id", "model", "dataset", "split", "init", "scenario", "metrics", "curves", "epochs"} | {
        "seconds",
        "peak_rss_mb",
        "versions",
    } <= set(result)
    assert (result["schema"], result["run_id"]) == (1, done.folder.name)
    assert (result["model"], result["dataset"], result["scenario"]) == ("lop_gpn", "synthetic", scenario)
    assert (result["split"], result["init"]) == (3, 2)
    assert set(result["seconds"]) == {"load", "prepare", "train", "evaluate"}
    measures = ["tu", "au", "eu", "eu_pc", "eu_so", "lconf"]
    assert list(result["curves"]) == [f"arc/{m}" for m in measures]
    assert all(len(curve) == 100 for curve in result["curves"].values())
    expected = {f"test/{m}" for m in ("accuracy", "brier", "ece", "nll")} | {f"test/auarc/{m}" for m in measures}
    expected |= {"val/accuracy", "val/nll"}
    if scenario != "none":
        expected |= {"id/accuracy", "ood/accuracy"} | {f"change/{m}" for m in measures}
        expected |= {f"ood/{kind}/{m}" for kind in ("auroc", "aupr", "fpr95") for m in measures}
    assert set(result["metrics"]) == expected
    shares = [
        v for k, v in result["metrics"].items() if not k.startswith("change/") and k not in ("test/nll", "test/brier")
    ]
    assert all(0 <= value <= 1 for value in shares)
    table = pd.read_parquet(done.folder / "predictions.parquet")
    assert list(table.columns) == ["node", "part", "label", "predicted", "confidence", "is_ood", *measures]
    assert len(table) == 300
    assert set(table["part"]) <= {"train", "val", "test", "none"}
    assert bool(table["is_ood"].any()) == (scenario != "none")
    assert "model:" in (done.folder / "config.yaml").read_text()
    assert "could not be drawn" not in (done.folder / "page.html").read_text()
    assert {path.name for path in done.folder.iterdir()} == {
        "config.yaml",
        "model.ckpt",
        "predictions.parquet",
        "result.json",
        "arc.png",
        "page.html",
    } | ({"ood.png"} if scenario != "none" else set())


@pytest.mark.parametrize("model", MODELS)
def test_every_model_runs_and_its_checkpoint_gives_its_predictions(tmp_path, model):
    overrides = [f"output_dir={tmp_path}", f"model={model}", *SMALL.get(model, []), "ood=leave_out_classes"]
    planned = plan(composed(*TINY, *overrides))
    done = run(planned)
    graph = planned.scenario_transform(planned.load())
    module = load_module(done.folder / "model.ckpt")
    pd.testing.assert_frame_equal(
        predictions(module.model.predict(graph), graph), pd.read_parquet(done.folder / "predictions.parquet")
    )
    assert read_result(done.folder) == done.result


def test_a_finished_run_is_not_run_again_unless_forced(tmp_path, monkeypatch):
    first = outcome(tmp_path)
    calls = []
    original = training.fit
    monkeypatch.setattr(training, "fit", lambda *a, **k: calls.append(1) or original(*a, **k))
    again = outcome(tmp_path)
    assert again.cached
    assert again.result == first.result
    assert not calls
    forced = outcome(tmp_path, "force=true")
    assert not forced.cached
    assert calls == [1]
    assert forced.result["metrics"] == first.result["metrics"]
    assert forced.folder == first.folder


def test_feature_scenarios_share_the_clean_training(tmp_path):
    clean = outcome(tmp_path)
    for scenario in ("bernoulli", "gaussian"):
        done = outcome(tmp_path, f"ood={scenario}")
        assert done.result["training_id"] == clean.result["training_id"]
        assert (done.folder / "model.ckpt").read_bytes() == (clean.folder / "model.ckpt").read_bytes()
    assert outcome(tmp_path, "ood=leave_out_classes").result["training_id"] != clean.result["training_id"]
    assert len([path for path in (tmp_path / "trainings").iterdir() if path.is_dir()]) == 2


def test_everything_that_changes_a_result_changes_its_identity(tmp_path):
    base = outcome(tmp_path)
    changes = [
        "model.teleport=0.2",
        "model.optimizer.learning_rate=0.02",
        "split.index=1",
        "init=1",
        "dataset.seed=1",
        "trainer.max_epochs=5",
        "ood=bernoulli",
        "model=gpn_sym",
    ]
    ids = {outcome(tmp_path, change).result["run_id"] for change in changes}
    assert len(ids | {base.result["run_id"]}) == len(changes) + 1
    assert outcome(tmp_path, "trainer.progress=true").cached


def test_the_same_identity_gives_the_same_bits_in_two_processes(tmp_path):
    results = []
    for name in ("one", "two"):
        command = [sys.executable, "-m", "lopgpn_exp", *TINY, f"output_dir={tmp_path / name}", "ood=gaussian"]
        subprocess.run(command, check=True, capture_output=True)
        (folder,) = (tmp_path / name / "runs").iterdir()
        results.append((folder.name, read_result(folder)["metrics"], pd.read_parquet(folder / "predictions.parquet")))
    assert results[0][:2] == results[1][:2]
    pd.testing.assert_frame_equal(results[0][2], results[1][2], check_exact=True)


def test_two_processes_that_need_the_same_training_do_it_once(tmp_path):
    """Both start at once; the training folder is written once and both runs report the same training."""
    commands = [
        [sys.executable, "-m", "lopgpn_exp", *TINY, f"output_dir={tmp_path}", f"ood={ood}"]
        for ood in ("none", "gaussian")
    ]
    processes = [subprocess.Popen(c, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for c in commands]
    outputs = [process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    results = [read_result(folder) for folder in (tmp_path / "runs").iterdir()]
    assert len(results) == 2
    assert results[0]["training_id"] == results[1]["training_id"]
    assert results[0]["seconds"]["train"] == results[1]["seconds"]["train"]  # one training, one duration


def test_an_error_while_training_leaves_nothing_half_written(tmp_path, monkeypatch):
    def dies(*_, checkpoint_path, **__):
        checkpoint_path.write_bytes(b"half")
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(training, "fit", dies)
        with pytest.raises(RuntimeError, match="killed"):
            outcome(tmp_path)
    assert not [path for path in (tmp_path / "trainings").iterdir() if path.is_dir()]
    assert not (tmp_path / "runs").exists()
    assert not outcome(tmp_path).cached


def test_a_killed_process_leaves_nothing_that_passes_for_finished(tmp_path):
    """SIGKILL in the middle of training, then the same command again."""
    endless = [*TINY[:-3], "trainer.max_epochs=100000", "trainer.patience=100000", *TINY[-2:]]
    process = subprocess.Popen(
        [sys.executable, "-m", "lopgpn_exp", *endless, f"output_dir={tmp_path}"], stderr=subprocess.DEVNULL
    )
    while process.poll() is None and not list((tmp_path / "trainings").glob(".*")):
        pass
    process.kill()
    process.wait()
    assert not (tmp_path / "runs").exists()
    assert not [path for path in (tmp_path / "trainings").iterdir() if not path.name.startswith(".") and path.is_dir()]
    assert not outcome(tmp_path).cached


def test_a_full_disk_is_one_message_and_no_result(tmp_path):
    def write_until_full():
        with folder_written_at_once(tmp_path / "runs" / "x") as scratch:
            (scratch / "result.json").write_text("{}")
            raise OSError(28, os.strerror(28))

    with pytest.raises(InputError, match="No space left") as caught:
        write_until_full()
    assert "output_dir=FOLDER" in str(caught.value)
    assert list((tmp_path / "runs").iterdir()) == []


def test_an_output_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        outcome(tmp_path / "file" / "outputs")


def test_a_result_of_another_schema_is_refused(tmp_path):
    done = outcome(tmp_path)
    path = done.folder / "result.json"
    path.write_text(json.dumps(done.result | {"schema": 0}))
    with pytest.raises(InputError, match="has schema 0") as caught:
        outcome(tmp_path)
    assert "force=true" in caught.value.hint
    assert outcome(tmp_path, "force=true").result["schema"] == 1


@pytest.mark.parametrize("content", ["", "{", "[]", '{"a": 1}'])
def test_a_damaged_result_is_refused(tmp_path, content):
    (tmp_path / "result.json").write_text(content)
    with pytest.raises(InputError, match="cannot be read"):
        read_result(tmp_path)


def test_a_folder_without_a_result(tmp_path):
    with pytest.raises(InputError, match="holds no result"):
        read_result(tmp_path)


def test_a_checkpoint_can_be_evaluated(tmp_path):
    clean = outcome(tmp_path)
    other = outcome(tmp_path / "elsewhere", f"checkpoint={clean.folder / 'model.ckpt'}", "ood=gaussian")
    direct = outcome(tmp_path, "ood=gaussian")
    assert other.result["metrics"] == direct.result["metrics"]
    assert not (tmp_path / "elsewhere" / "trainings").exists()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["model=appnp"], r"holds a lopgpn_exp\.models\.LOPGPN"),
        (["dataset.num_features=9"], "is for 8 features and 4 classes"),
        (["model.teleport=0.5"], r"was trained with model\.teleport=0\.1"),
        (["split.index=1"], "was trained on another graph or split"),
        (["dataset.seed=5"], "was trained on another graph or split"),
    ],
)
def test_a_checkpoint_of_another_model_is_refused(tmp_path, overrides, message):
    checkpoint = outcome(tmp_path).folder / "model.ckpt"
    with pytest.raises(InputError, match=message):
        outcome(tmp_path, f"checkpoint={checkpoint}", *overrides)


@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04 nonsense"])
def test_a_checkpoint_that_is_none_is_refused(tmp_path, content):
    path = tmp_path / "model.ckpt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match="checkpoint"):
        outcome(tmp_path, f"checkpoint={path}")


@pytest.mark.parametrize("damage", ["{", "[]", "{}", '{"epochs": 1, "seconds": {}, "peak_rss_mb": 1}', None])
def test_a_damaged_training_is_done_again(tmp_path, damage):
    first = outcome(tmp_path)
    (folder,) = [path for path in (tmp_path / "trainings").iterdir() if path.is_dir()]
    if damage is None:
        (folder / "model.ckpt").unlink()
    else:
        (folder / "training.json").write_text(damage)
    again = outcome(tmp_path, "ood=gaussian")
    assert again.result["training_id"] == first.result["training_id"]
    assert (folder / "model.ckpt").is_file()


@pytest.mark.parametrize("file", ["predictions.parquet", "config.yaml"])
def test_a_run_that_lost_a_file_is_run_again(tmp_path, file):
    first = outcome(tmp_path)
    (first.folder / file).unlink()
    again = outcome(tmp_path)
    assert not again.cached
    assert (again.folder / file).is_file()
    assert again.result["metrics"] == first.result["metrics"]


def test_memory_limits_are_no_part_of_the_identity(tmp_path):
    outcome(tmp_path)
    assert outcome(tmp_path, "model.memory_limit_gib=9").cached


def test_a_training_record_is_read_back(tmp_path):
    made = trainings.Training(tmp_path / "x", 7, {"prepare": 0.5, "train": 1.5}, 12.0)

    def train(path):
        path.write_bytes(b"weights")
        return made

    first = trainings.training(tmp_path, "abc", train)
    second = trainings.training(tmp_path, "abc", lambda _: pytest.fail("trained again"))
    assert first == second
    assert (first.epochs, first.checkpoint.read_bytes()) == (7, b"weights")


def test_seed_streams_are_independent_and_fixed():
    assert stream("training", 0, 1) != stream("training", 1, 0)
    assert stream("training", 0) != stream("scenario/gaussian", 0)
    assert stream("training", 0, 0) == 5014218136554246131  # another value would silently change every result


@pytest.mark.filterwarnings("ignore")  # MLflow's own
def test_mlflow_holds_metrics_curves_params_and_artifacts(tmp_path):
    from mlflow.tracking import MlflowClient

    from lopgpn_exp.experiment.tracking import Tracker, default_uri

    planned = plan(composed(*TINY, f"output_dir={tmp_path}", "ood=gaussian"))
    done = run(planned)
    tracker = Tracker(None, "test", tmp_path)
    mlflow_id = tracker.add(done.folder, planned.resolved, planned.title)
    assert tracker.add(done.folder, planned.resolved, planned.title) == mlflow_id  # once, however often it is asked
    client = MlflowClient(default_uri(tmp_path))
    logged = client.get_run(mlflow_id)
    assert logged.info.status == "FINISHED"
    assert logged.info.run_name == "lop_gpn · synthetic · split 0 · gaussian"
    assert logged.data.metrics["ood/auroc/eu"] == pytest.approx(done.result["metrics"]["ood/auroc/eu"])
    assert logged.data.params["model.teleport"] == "0.1"
    assert {
        "model": "lop_gpn",
        "dataset": "synthetic",
        "split": "0",
        "scenario": "gaussian",
    }.items() <= logged.data.tags.items()
    history = sorted(client.get_metric_history(mlflow_id, "arc/tu"), key=lambda metric: metric.step)
    assert [metric.step for metric in history] == list(range(100))
    assert [metric.value for metric in history] == pytest.approx(done.result["curves"]["arc/tu"])
    artifacts = {artifact.path for artifact in client.list_artifacts(mlflow_id)}
    assert {"config.yaml", "result.json", "predictions.parquet", "arc.png", "ood.png"} <= artifacts
    connection = sqlite3.connect(tmp_path / "mlflow.db")
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


@pytest.mark.filterwarnings("ignore")
def test_mlflow_out_of_reach_is_one_message(tmp_path):
    from lopgpn_exp.experiment.tracking import Tracker

    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="MLflow cannot be used"):
        Tracker(f"sqlite:///{tmp_path}/file/mlflow.db", "test", tmp_path)


def test_numbers_are_finite_everywhere(tmp_path):
    done = outcome(tmp_path, "ood=gaussian", "model=appnp")
    assert all(math.isfinite(value) for value in done.result["metrics"].values())
    assert torch.get_num_threads() == 1
