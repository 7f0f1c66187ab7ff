"""The track command: what is finished in a folder and missing in MLflow is written there, once."""

import os

import pytest

from lopgpn_exp.runs.table import read_results
from tests.support import TINY
from tests.support.mlflow_store import MlflowStore

pytestmark = pytest.mark.filterwarnings("ignore")  # MLflow's own

SWEEP = [*TINY, "model=gkde", "ood=none", "-m"]


@pytest.fixture
def store(tracked_outputs) -> MlflowStore:
    return MlflowStore(tracked_outputs)


def latest_sweep(store: MlflowStore) -> str:
    (summary,) = store.search("tags.kind = 'summary' and tags.latest = 'true'")
    return summary.data.tags["sweep"]


def test_runs_and_sweeps_without_tracking_are_written_once(command, store):
    for splits in ("split.index=0,1", "split.index=1,2"):
        assert command(*SWEEP, splits)[0] == 0
    older, newer = sorted((store.output_dir / "sweeps").glob("sweep-*"), key=lambda path: path.stat().st_mtime)
    code, out, _ = command("track")
    assert code == 0
    assert out.startswith("3 runs, 2 sweeps: added 5, updated 0, already there 0\n")
    assert "browse   lopgpn_exp ui, then" in out
    assert "models on synthetic" in out
    children = {run.data.tags["split"]: run.data.tags["sweep"] for run in store.search("tags.kind = 'run'")}
    assert children == {"0": older.name, "1": newer.name, "2": newer.name}  # a shared run is in the newer one
    assert latest_sweep(store) == newer.name
    entries = {run.info.run_id for run in store.search()}
    assert command("track")[1].startswith("3 runs, 2 sweeps: added 0, updated 0, already there 5\n")
    assert {run.info.run_id for run in store.search()} == entries
    # An older sweep, one of whose runs has changed, does not take the place of the newer one.
    assert command(*TINY, "model=gkde", "force=true")[0] == 0
    assert command("track")[1].startswith("3 runs, 2 sweeps: added 0, updated 3, already there 2\n")
    assert latest_sweep(store) == newer.name
    assert command("track")[1].startswith("3 runs, 2 sweeps: added 0, updated 0, already there 5\n")


def test_deleted_entries_are_written_again_and_damaged_runs_are_named(command, store):
    assert command(*SWEEP, "split.index=0,1")[0] == 0
    assert command("track")[0] == 0
    first, second = store.search("tags.kind = 'run'")
    store.client.delete_run(first.info.run_id)
    store.client.update_run(second.info.run_id, status="RUNNING")
    assert command("track")[1].startswith("2 runs, 1 sweep: added 1, updated 1, already there 1\n")
    store.check_complete()
    damaged = store.output_dir / "runs" / read_results(store.output_dir)[0].run_id
    (damaged / "result.json").write_text("{")
    code, out, err = command("track")
    assert code == 0
    assert f"skipped outputs/runs/{damaged.name}: " in err
    assert out.startswith("1 run, 1 sweep: added 0, updated 1, already there 1\n")  # the means without it


def test_folder_without_runs_is_one_message_and_creates_no_database(command, tmp_path):
    code, _, err = command("track", "--output-dir", "empty")
    assert code == 2
    assert "there are no finished runs in empty/runs" in err
    assert "try:      --output-dir DIR" in err
    assert os.listdir(tmp_path) == []
