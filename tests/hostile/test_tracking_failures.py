"""Whatever happens to MLflow, runs and sweeps finish, and MLflow is complete in the end."""

import errno
import shutil
import sqlite3
import time
from pathlib import Path
from threading import Thread
from unittest.mock import MagicMock

import pandas as pd
import pytest
import requests
import sqlalchemy.exc
from filelock import Timeout
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from lopgpn_exp.records import Attempt, Job, SweepRecord
from lopgpn_exp.runs.sweep_folder import write_sweep
from lopgpn_exp.runs.table import read_results
from lopgpn_exp.tracking import Tracker, fault_tolerance
from lopgpn_exp.tracking.catch_up import read_finished_work, track_runs, track_sweeps
from tests.support import TINY, TRACKED, compose
from tests.support.mlflow_store import MlflowStore
from tests.support.sweeps import before_each_run

pytestmark = pytest.mark.filterwarnings("ignore")  # MLflow's own

SINGLE = [*TRACKED, "model=gkde"]
SWEEP = [*TRACKED, "model=gkde", "split.index=0,1,2", "ood=none", "-m"]
# Errors, and the reason that the warning gives.
ERRORS = [
    (MlflowException("API request failed"), "(API request failed)"),
    (requests.ConnectionError("Connection refused"), "(Connection refused)"),
    (sqlalchemy.exc.OperationalError("INSERT", {}, Exception("connection closed")), "(connection closed)"),
    (Timeout("/some/.lock"), "(The file lock '/some/.lock' could not be acquired.)"),
    (OSError(errno.ENOSPC, "No space left on device"), "([Errno 28] No space left on device)"),
    (RuntimeError("a bug in MLflow"), "(RuntimeError: a bug in MLflow)"),
]


@pytest.fixture(scope="module")
def _finished_runs(tmp_path_factory) -> Path:
    """Return the output folder of a sweep that was not tracked, with the run of `SINGLE` among its runs."""
    from lopgpn_exp.sweeps.executors import execute_serially
    from lopgpn_exp.sweeps.run_sweep import run_sweep

    folder = tmp_path_factory.mktemp("finished") / "outputs"
    configs = [compose(*TINY, *SINGLE[-1:], f"split.index={i}", f"output_dir={folder}") for i in range(3)]
    assert not any(attempt.has_failed for attempt in run_sweep(configs, execute_serially))
    return folder


@pytest.fixture
def store(tracked_outputs) -> MlflowStore:
    """Return an empty store."""
    return MlflowStore(tracked_outputs)


@pytest.fixture
def finished(store, _finished_runs) -> MlflowStore:
    """Return an empty store next to finished runs."""
    shutil.copytree(_finished_runs, store.output_dir, dirs_exist_ok=True)
    return store


def warnings_in(text: str) -> list[str]:
    assert "Traceback" not in text
    return [line for line in text.splitlines() if "warning:" in line]


def fail_with(error):
    def fail(*_, **__):
        raise error

    return fail


def test_sweep_goes_on_without_mlflow_and_track_adds_the_rest(command, store, monkeypatch):
    """The disk of MLflow is full from the second run on, in the middle of writing a run."""
    with monkeypatch.context() as patch:

        def fill_disk(plan):
            if plan.split == 1:
                patch.setattr(MlflowClient, "log_artifact", fail_with(OSError(errno.ENOSPC, "No space left on device")))
                patch.setattr(MlflowClient, "set_terminated", fail_with(MlflowException("database or disk is full")))

        before_each_run(patch, fill_disk)
        code, out, err = command(*SWEEP)
    assert code == 0, err
    assert "page     outputs/sweeps/sweep-" in out
    first, last = warnings_in(err)  # one when it starts, one at the end
    assert "No space left on device). Results are safe in files" in first
    assert last.endswith("To add what is missing: lopgpn_exp track")
    assert len(read_results(store.output_dir)) == 3
    assert command("track")[0] == 0
    store.check_complete()
    assert "3 runs, 1 sweep: added 0, updated 0, already there 4" in command("track")[1]


def test_locked_database_does_not_stop_a_sweep(command, store, monkeypatch):
    """Another program holds a write lock from the second run on, and releases it when all runs are finished."""
    from mlflow.store.db import utils

    original, lock = utils.sql.text, DatabaseLock(store.output_dir)
    with monkeypatch.context() as patch:
        patch.setattr(utils.sql, "text", lambda query: original(query.replace("20000", "200")))  # ms, not 20 s
        before_each_run(patch, lambda plan: lock.acquire() if plan.split == 1 else None)
        patch.setattr("lopgpn_exp.sweeps.run_sweep.write_sweep", lock.release_before(write_sweep))
        code, out, err = command(*SWEEP)
        assert code == 0, err
        first, last = warnings_in(err)
        assert "database is locked" in first
        assert "MLflow can be used again and is complete now" in last
        assert "models on synthetic" in out
        store.check_complete()
        lock.acquire()
        code, _, err = command("track", "--experiment", "new")
        lock.release()
    assert code == 2
    assert "database is locked" in err
    assert "Traceback" not in err


class DatabaseLock:
    """A write lock on the database, held by a connection of its own."""

    def __init__(self, output_dir: Path) -> None:
        self.file = output_dir / "mlflow.db"

    def acquire(self) -> None:
        self.connection = sqlite3.connect(self.file, isolation_level=None)
        self.connection.execute("BEGIN EXCLUSIVE")

    def release(self) -> None:
        self.connection.close()

    def release_before(self, function):
        def call(*arguments):
            self.release()
            return function(*arguments)

        return call


def test_single_run_is_shown_and_kept_without_mlflow(command, finished, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, "log_artifact", fail_with(MlflowException("server is gone")))
        code, out, err = command(*SINGLE)
    assert code == 0
    assert "accuracy 0." in out
    assert "(server is gone). To add what is missing: lopgpn_exp track" in warnings_in(err)[-1]
    assert [run.info.status for run in finished.search()] == ["RUNNING"]
    assert command("track")[0] == 0
    finished.check_complete()


@pytest.mark.parametrize("words", [SINGLE, ["track"]], ids=["run", "track"])
def test_missing_and_damaged_dashboards_come_back(command, finished, words):
    assert command("track")[0] == 0
    with sqlite3.connect(finished.output_dir / "mlflow.db") as connection:
        connection.execute("DELETE FROM experiment_tags WHERE key LIKE '%models-synthetic'")
        connection.execute("UPDATE experiment_tags SET value = 'deflate;x' WHERE key LIKE '%.runs'")
    connection.close()
    assert finished.dashboards == set()
    assert command(*words)[0] == 0
    assert finished.dashboards == ({None} if words == SINGLE else {None, "synthetic"})


@pytest.mark.parametrize("method", ["log_artifact", "set_experiment_tag"])
def test_whatever_a_kill_leaves_out_is_made_up_for(command, finished, monkeypatch, method):
    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, method, fail_with(KeyboardInterrupt()))
        assert command("track")[0] == 130
    assert command(*SWEEP)[0] == 0
    finished.check_complete()


def test_result_of_an_earlier_version_is_replaced_only_if_it_differs(command, finished):
    """Its MLflow run has no digest."""
    assert command(*SINGLE)[0] == 0
    (run,) = finished.search()
    finished.client.delete_tag(run.info.run_id, "digest")
    assert command(*SINGLE)[0] == 0
    (same,) = finished.search()
    assert same.info.run_id == run.info.run_id
    finished.client.delete_tag(run.info.run_id, "digest")
    finished.client.log_metric(run.info.run_id, "test/accuracy", 2.0)
    assert command(*SINGLE)[0] == 0
    (new,) = finished.search()
    assert new.data.metrics["test/accuracy"] < 1


@pytest.mark.parametrize(("error", "reason"), ERRORS, ids=[type(error).__name__ for error, _ in ERRORS])
def test_no_error_of_mlflow_reaches_a_run(capsys, error, reason):
    """... in any of the methods, and it is reported once."""
    broken = MagicMock(spec=Tracker, uri="http://server", ui=None, track_command="lopgpn_exp track --uri http://server")
    for method in ("add", "add_attempt", "open_sweep", "close_sweep", "links"):
        getattr(broken, method).side_effect = error
    tracker = fault_tolerance.FaultTolerantTracker(broken)
    tracker.open_sweep(SweepRecord("sweep-1", "sweep", ("run-1",), {}))
    tracker.add_attempt(failed_attempt("run-1"))
    tracker.close_sweep(pd.DataFrame(), pd.DataFrame(), {})
    assert tracker.finish([]) == {}
    first, last = warnings_in(capsys.readouterr().err)
    assert f"MLflow cannot be used now {reason}. Results are safe in files" in first
    assert "MLflow lacks run-1 and 1 more" in last
    assert last.endswith("lopgpn_exp track --uri http://server")


@pytest.mark.parametrize(("seconds", "limit"), [(0.1, 40), (5, 25), (60, 3)])
def test_dead_server_costs_at_most_a_tenth_of_a_sweep(monkeypatch, seconds, limit):
    clock = [0.0]
    monkeypatch.setattr(fault_tolerance.time, "monotonic", lambda: clock[0])
    broken = MagicMock(spec=Tracker, uri="http://server", ui=None, track_command="lopgpn_exp track")

    def fail(attempt):
        clock[0] += seconds
        raise requests.ConnectionError("refused")

    broken.add_attempt.side_effect = fail
    tracker = fault_tolerance.FaultTolerantTracker(broken)
    for i in range(1000):  # runs of one second
        clock[0] += 1
        tracker.add_attempt(failed_attempt(f"run-{i}"))
    assert 1 < broken.add_attempt.call_count <= limit
    assert tracker.finish([]) == {}
    assert len(tracker._waiting) == 1000


def failed_attempt(run_id: str) -> Attempt:
    job = Job({}, run_id, "gkde", "synthetic", run_id, run_id, Path("outputs") / "runs" / run_id)
    return Attempt(job, 0.0, "failed")


def test_entry_that_mlflow_refuses_does_not_block_the_others(monkeypatch):
    monkeypatch.setattr(fault_tolerance, "RETRY_SECONDS", 0)
    picky = MagicMock(spec=Tracker, uri="http://server", ui=None, track_command="lopgpn_exp track")

    def refuse_one(attempt):
        if attempt.job.run_id == "odd":
            raise MlflowException("invalid value")

    picky.add_attempt.side_effect = refuse_one
    tracker = fault_tolerance.FaultTolerantTracker(picky)
    for run_id in ("odd", "a", "b"):
        tracker.add_attempt(failed_attempt(run_id))
    assert tracker.finish([]) == {}
    assert list(tracker._waiting) == ["odd"]


def test_forced_run_replaces_the_earlier_one(command, finished):
    """A run that belongs to a sweep stays in it."""
    assert "3 runs, 1 sweep: added 4, updated 0, already there 0" in command("track")[1]
    (before,) = finished.search("tags.kind = 'run' and tags.split = '1'")
    assert command(*SINGLE, "split.index=1", "force=true")[0] == 0
    (after,) = finished.search("tags.kind = 'run' and tags.split = '1'")
    assert after.info.run_id != before.info.run_id
    finished.check_complete()
    assert "added 0, updated 1, already there 3" in command("track")[1]  # the means of the sweep were older
    finished.check_complete()


@pytest.mark.parametrize("words", [SINGLE, SWEEP, ["ui", "--port", "5999"]], ids=["run", "sweep", "ui"])
def test_folder_in_place_of_the_database_is_one_message(command, tmp_path, monkeypatch, words):
    monkeypatch.setattr("lopgpn_exp.runs.execute._execute", lambda _: pytest.fail("trained"))
    (tmp_path / "outputs" / "mlflow.db").mkdir(parents=True)
    start = time.monotonic()
    code, _, err = command(*words)
    assert time.monotonic() - start < 10
    assert code == 2
    assert "MLflow cannot be used at sqlite:///outputs/mlflow.db" in err
    assert "Is a directory" in err
    option = "--uri " if words[0] == "ui" else "tracking.uri="
    assert f"try:      {option}sqlite:///outputs/runs.db" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("mode", [[], ["-m"]], ids=["run", "sweep"])
def test_data_is_checked_before_the_database_is_created(command, tmp_path, mode):
    (tmp_path / "graph.csv").write_bytes(b"\x89PNG not a table")
    code, _, err = command("dataset=custom", "dataset.path=graph.csv", "trainer.progress=false", *mode)
    assert code != 0
    assert "Creating the MLflow database" not in err
    assert not list(tmp_path.rglob("mlflow.db"))


def test_processes_that_track_the_same_runs_write_them_once(finished):
    """Each thread has a tracker of its own, as a process has."""
    threads = [Thread(target=track_everything, args=(finished.output_dir,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    finished.check_complete()


def track_everything(output_dir: Path) -> None:
    tracker, work = Tracker(None, "lopgpn_exp", output_dir), read_finished_work(output_dir)
    list(track_runs(tracker, work))
    track_sweeps(tracker, work)
