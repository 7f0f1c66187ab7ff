"""Tracking in a shared database: a PostgreSQL server on this machine that the test starts and stops.

`make test-services` runs it. It needs the Debian package postgresql, and root.
"""

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from lopgpn_exp.config.plan import plan_run
from lopgpn_exp.runs.execute import run
from lopgpn_exp.tracking import Tracker
from tests.support import TINY, compose

BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
pytestmark = [
    pytest.mark.skipif(os.environ.get("LOPGPN_SERVICES") != "1" or not BINARIES, reason="make test-services runs this"),
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture
def database(tmp_path):
    folder = tmp_path / "pg"
    folder.mkdir()
    shutil.chown(folder, "postgres")
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents[:3]:
        parent.chmod(parent.stat().st_mode | 0o055)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    as_user = ["runuser", "-u", "postgres", "--"]
    run_quiet = {"check": True, "capture_output": True}
    subprocess.run([*as_user, str(BINARIES[-1] / "initdb"), "-D", str(folder / "data"), "-A", "trust"], **run_quiet)
    server = [*as_user, str(BINARIES[-1] / "pg_ctl"), "-D", str(folder / "data"), "-w"]
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder}"
    subprocess.run([*server, "-o", options, "-l", str(folder / "log"), "start"], **run_quiet)
    try:
        subprocess.run([*as_user, "createdb", "-h", "127.0.0.1", "-p", str(port), "mlflow"], **run_quiet)
        yield f"postgresql://postgres@127.0.0.1:{port}/mlflow"
    finally:
        subprocess.run([*server, "-m", "immediate", "stop"], check=False, capture_output=True)


def test_runs_are_tracked_in_postgresql(database, tmp_path):
    outputs = tmp_path / "outputs"
    plan = plan_run(compose(*TINY, f"output_dir={outputs}", "ood=gaussian"))
    outcome = run(plan)
    tracker = Tracker(database, "shared", outputs)
    mlflow_id = tracker.add(outcome.folder, outcome.result, plan.config)
    again = Tracker(database, "shared", outputs).add(outcome.folder, outcome.result, plan.config)
    assert again == mlflow_id
    logged = tracker.client.get_run(mlflow_id)
    assert logged.info.status == "FINISHED"
    assert logged.data.metrics["ood/auroc/eu"] == pytest.approx(outcome.result.metrics["ood/auroc/eu"])
    assert len(tracker.client.get_metric_history(mlflow_id, "arc/tu")) == 100
    assert logged.info.artifact_uri.startswith(outputs.resolve().as_uri())  # not the folder it was started in
