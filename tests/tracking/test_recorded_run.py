"""Whether MLflow shows a run, read from its database without MLflow, agrees with what MLflow itself says."""

import sqlite3

import pytest

from lopgpn_exp.tracking import Tracker, find_recorded_run
from tests.support import run_tiny

pytestmark = pytest.mark.filterwarnings("ignore")  # MLflow's own
TRACKING = {"enabled": True, "uri": None, "experiment": "lopgpn_exp"}


@pytest.fixture
def recorded(tracked_outputs):
    """Return a tracker, the run that it has written, and a function that looks the run up."""
    outcome = run_tiny(tracked_outputs, "model=gkde")
    tracker = Tracker(None, "lopgpn_exp", tracked_outputs)
    mlflow_id = tracker.add(outcome.folder, outcome.result)

    def find(**tracking):
        return find_recorded_run({**TRACKING, **tracking}, tracked_outputs, outcome.folder, outcome.result)

    return tracker, outcome, mlflow_id, find


def change_database(output_dir, *statements):
    with sqlite3.connect(output_dir / "mlflow.db") as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def test_tracked_run_has_the_links_of_the_tracker(recorded, tracked_outputs):
    tracker, outcome, _, find = recorded
    assert find().links == tracker.links([outcome.result.dataset])
    assert list(find().links) == ["single runs"]
    assert find().ui == tracker.ui
    uri = f"sqlite:///{tracked_outputs}/mlflow.db"
    assert find(uri=uri).ui == f"lopgpn_exp ui --uri {uri}"


def test_run_that_mlflow_does_not_show_completely_is_not_found(recorded):
    tracker, outcome, mlflow_id, find = recorded
    for options in ({"experiment": "other"}, {"uri": "http://127.0.0.1:9"}, {"uri": "sqlite:///no/such.db"}):
        assert find(**options) is None
    tracker.client.update_run(mlflow_id, status="RUNNING")
    assert find() is None
    tracker.client.set_terminated(mlflow_id)
    tracker.client.set_tag(mlflow_id, "digest", "of another result")
    assert find() is None
    tracker.client.delete_tag(mlflow_id, "digest")
    assert find() is None
    tracker.add(outcome.folder, outcome.result)  # as the run command does then: it adds the digest
    assert find() is not None
    tracker.client.delete_run(mlflow_id)
    assert find() is None
    tracker.add(outcome.folder, outcome.result)
    assert find() is not None


def test_missing_dashboard_second_copy_and_deleted_experiment_are_noticed(recorded, tracked_outputs):
    tracker, outcome, _, find = recorded
    change_database(tracked_outputs, "DELETE FROM experiment_tags WHERE key LIKE '%.runs'")
    assert find() is None
    Tracker(None, "lopgpn_exp", tracked_outputs).add(outcome.folder, outcome.result)
    assert find() is not None
    tracker._write_run(outcome.folder, outcome.result, None, {})
    assert find() is None
    tracker.client.delete_experiment(tracker.experiment_id)
    assert find() is None


@pytest.mark.parametrize("statement", ["DROP TABLE experiment_tags", "ALTER TABLE runs RENAME COLUMN status TO state"])
def test_database_of_another_version_is_left_to_mlflow(recorded, tracked_outputs, statement):
    _, _, _, find = recorded
    change_database(tracked_outputs, statement)
    assert find() is None


def test_file_that_is_no_database_is_left_to_mlflow(recorded, tmp_path):
    (tmp_path / "text.db").write_text("no database" * 1000)
    assert recorded[3](uri=f"sqlite:///{tmp_path}/text.db") is None
