"""A sweep through everything at once ends like an undisturbed one. `make test-hostile` runs it; it needs root."""

import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import closing, suppress
from pathlib import Path

import pandas as pd
import pytest

from lopgpn_exp.runs.run_folder import read_result
from tests.support import TINY, TRACKED
from tests.support.mlflow_store import MlflowStore
from tests.support.processes import Program

pytestmark = pytest.mark.skipif(os.environ.get("LOPGPN_DISASTER") != "1", reason="make test-hostile runs this")

SWEEP = ["-m", "model=appnp,gpn_sym,gkde", "split.index=0,1", "ood=none,gaussian,bernoulli,leave_out_classes"]
NUM_RUNS = 24
LOCK_SECONDS = 60
NUM_KILLS = 10
DISK_MIB = 200


class Server:
    """An MLflow server on a database, which can be killed and started again at the same address."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.start()

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [sys.executable, "-m", "mlflow", "server", "--workers", "1", "--port", str(self.port)]
        command += ["--backend-store-uri", f"sqlite:///{self.folder}/mlflow.db"]
        command += ["--artifacts-destination", str(self.folder / "mlartifacts")]
        self.process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        for _ in range(600):
            with suppress(urllib.error.URLError, OSError), urllib.request.urlopen(f"{self.uri}/health", timeout=2):
                return
            time.sleep(0.2)
        raise TimeoutError("the MLflow server did not start")

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def disk(tmp_path):
    """Mount a small disk for the output folder and the database."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(folder)], check=False)
    if mount.returncode:
        pytest.skip("mounting a disk needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def server(disk):
    server = Server(disk)
    yield server
    server.kill()


def finished_runs(folder: Path) -> list[Path]:
    return sorted(path.parent for path in (folder / "outputs" / "runs").glob("[!.]*/result.json"))


def wait_for_runs(program: Program, folder: Path, count: int) -> None:
    while program.is_running and len(finished_runs(folder)) < count:
        time.sleep(0.02)


def fill_disk(disk: Path, program: Program) -> None:
    """Leave no space after the next run; the sweep ends with one message for each run that cannot be written."""
    wait_for_runs(program, disk, len(finished_runs(disk)) + 1)
    with suppress(OSError), (disk / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(2**12))
    assert program.wait() in (1, 2), program.output
    assert "No space left" in program.output
    assert "Traceback" not in program.output
    (disk / "filler").unlink()


def lock_database(disk: Path, program: Program) -> None:
    """Hold the write lock of the database for a minute; the sweep waits or goes on, and finishes all runs."""
    wait_for_runs(program, disk, len(finished_runs(disk)) + 1)
    with closing(sqlite3.connect(disk / "mlflow.db", timeout=60, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        assert len(finished_runs(disk)) < NUM_RUNS
        time.sleep(LOCK_SECONDS)
        connection.execute("ROLLBACK")
    assert program.wait() == 0, program.output
    assert len(finished_runs(disk)) == NUM_RUNS
    assert "Traceback" not in program.output


def test_sweep_survives_everything(tmp_path, disk, server):
    """Ten kills, two of them after the server was killed too, a locked database, and a full disk."""
    reference = Program(tmp_path / "undisturbed", *TINY, *SWEEP)
    chance = random.Random(3)
    command = [*TRACKED, *SWEEP, f"tracking.uri={server.uri}"]
    events = ["kill"] * (NUM_KILLS - 2) + ["server"] * 2
    chance.shuffle(events)
    assert reference.wait() == 0, reference.output
    for event in events:
        program = Program(disk, *command)
        wait_for_runs(program, disk, len(finished_runs(disk)) + chance.randint(0, 2))
        time.sleep(chance.uniform(0, 1))
        assert program.is_running, program.output
        if event == "server":
            server.kill()
            time.sleep(5)
        program.kill()
        if event == "server":
            server.start()
    fill_disk(disk, Program(disk, *command))
    lock_database(disk, Program(disk, *command))
    last = Program(disk, *command)
    assert last.wait() == 0, last.output
    check_results(tmp_path / "undisturbed", disk)
    MlflowStore(disk / "outputs", uri=server.uri).check_complete()
    assert not list((disk / "outputs").glob("*/.*.partial*"))


def check_results(expected: Path, actual: Path) -> None:
    pairs = list(zip(finished_runs(expected), finished_runs(actual), strict=True))
    assert len(pairs) == NUM_RUNS
    for undisturbed, run in pairs:
        assert undisturbed.name == run.name
        assert read_result(undisturbed).metrics == read_result(run).metrics
        assert read_result(undisturbed).curves == read_result(run).curves
        pd.testing.assert_frame_equal(*(pd.read_parquet(path / "predictions.parquet") for path in (undisturbed, run)))
