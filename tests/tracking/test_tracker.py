"""What MLflow contains after a run, and what is reported if it cannot be used."""

import sqlite3
from threading import Thread

import pytest
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from lopgpn_exp.config.plan import plan_run
from lopgpn_exp.errors import InputError
from lopgpn_exp.runs.execute import run
from lopgpn_exp.tracking import Tracker, default_uri
from lopgpn_exp.tracking.dashboards import read_dashboards, runs_dashboard
from tests.support import TINY, compose

pytestmark = pytest.mark.filterwarnings("ignore")  # MLflow's own


def test_metrics_curves_params_and_artifacts_of_a_run_are_tracked_once(tracked_outputs):
    plan = plan_run(compose(*TINY, f"output_dir={tracked_outputs}", "ood=gaussian"))
    outcome = run(plan)
    tracker = Tracker(None, "test", tracked_outputs)
    mlflow_id = tracker.add(outcome.folder, outcome.result, plan.config)
    assert tracker.add(outcome.folder, outcome.result, plan.config) == mlflow_id
    client = MlflowClient(default_uri(tracked_outputs))
    logged = client.get_run(mlflow_id)
    assert logged.info.status == "FINISHED"
    assert logged.info.run_name == "lop_gpn · synthetic · split 0 · gaussian"
    assert logged.data.metrics["ood/auroc/eu"] == pytest.approx(outcome.result.metrics["ood/auroc/eu"])
    assert logged.data.params["model.teleport"] == "0.1"
    tags = {"model": "lop_gpn", "dataset": "synthetic", "split": "0", "scenario": "gaussian"}
    assert tags.items() <= logged.data.tags.items()
    history = sorted(client.get_metric_history(mlflow_id, "arc/tu"), key=lambda metric: metric.step)
    assert [metric.step for metric in history] == list(range(100))
    assert [metric.value for metric in history] == pytest.approx(outcome.result.curves["arc/tu"])
    artifacts = {artifact.path for artifact in client.list_artifacts(mlflow_id)}
    assert {"config.yaml", "result.json", "predictions.parquet", "arc.png", "ood.png"} <= artifacts


def test_processes_that_add_metrics_at_once_lose_none(tracked_outputs, monkeypatch):
    """The second tracker starts while the first one is between reading and writing the dashboard."""
    (tracked_outputs / "runs").mkdir()
    first, second = (Tracker(None, "test", tracked_outputs) for _ in range(2))
    thread = Thread(target=second._update_dashboard, args=(runs_dashboard, {"test/nll"}))
    original = first.client.get_experiment

    def read_slowly(experiment_id):
        experiment = original(experiment_id)
        thread.start()
        thread.join(timeout=0.5)
        return experiment

    with monkeypatch.context() as patch:
        patch.setattr(first.client, "get_experiment", read_slowly)
        first._update_dashboard(runs_dashboard, {"test/accuracy"})
    thread.join()
    (dashboard,) = read_dashboards(original(first.experiment_id).tags)
    assert dashboard.metrics == {"test/accuracy", "test/nll"}


def test_tag_that_another_machine_has_just_inserted_is_set_again(tracked_outputs, monkeypatch):
    (tracked_outputs / "runs").mkdir()
    tracker = Tracker(None, "test", tracked_outputs)
    original, calls = tracker.client.set_experiment_tag, []

    def fail_once(*arguments):
        calls.append(arguments)
        if len(calls) == 1:
            raise MlflowException("UNIQUE constraint failed")
        original(*arguments)

    monkeypatch.setattr(tracker.client, "set_experiment_tag", fail_once)
    tracker._update_dashboard(runs_dashboard, {"test/nll"})
    assert calls[0] == calls[1]
    assert list(tracker.links([])) == ["single runs"]


def test_new_database_uses_write_ahead_logging(tmp_path):
    tracker = Tracker(None, "test", tmp_path)
    assert tracker.uri == default_uri(tmp_path)
    connection = sqlite3.connect(tmp_path / "mlflow.db")
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_database_that_cannot_be_created_is_one_message(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="MLflow cannot be used") as caught:
        Tracker(f"sqlite:///{tmp_path}/file/mlflow.db", "test", tmp_path)
    assert (caught.value.parameter, caught.value.suggestion) == ("uri", "sqlite:///outputs/mlflow.db")
