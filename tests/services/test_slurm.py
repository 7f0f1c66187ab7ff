"""Sweeps on Slurm: munge, slurmctld and slurmd on this machine, which the test starts and stops.

`make test-slurm` runs it. It needs the Debian packages slurm-wlm and munge, and root.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from lopgpn_exp.runs.table import load_results, read_results
from tests.support import TINY

pytestmark = pytest.mark.skipif(
    os.environ.get("LOPGPN_SLURM") != "1" or not shutil.which("slurmctld"), reason="make test-slurm runs this"
)

CONFIG = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
JobRequeue=1
MaxArraySize=1000
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/d.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldLogFile={folder}/ctld.log
SlurmdLogFile={folder}/d.log
SlurmctldPort=16817
SlurmdPort=16818
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=8000 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("slurm")
    host = socket.gethostname().split(".")[0]
    for name in ("state", "spool"):
        (folder / name).mkdir()
    (folder / "slurm.conf").write_text(CONFIG.format(host=host, folder=folder))
    environment = os.environ | {"SLURM_CONF": str(folder / "slurm.conf")}
    subprocess.run(["service", "munge", "restart"], check=True, capture_output=True)
    daemons = [
        subprocess.Popen([shutil.which(name), "-D", "-f", str(folder / "slurm.conf"), *extra], env=environment)
        for name, extra in (("slurmctld", []), ("slurmd", ["-N", host]))
    ]
    try:
        for _ in range(60):
            state = subprocess.run(
                ["sinfo", "-h", "-o", "%T"], env=environment, capture_output=True, text=True, check=False
            )
            if "idle" in state.stdout:
                break
            time.sleep(1)
        else:
            pytest.fail(f"Slurm did not start: {state}")
        yield environment
    finally:
        subprocess.run(["scancel", "--user=root"], env=environment, check=False)
        for daemon in daemons:
            daemon.terminate()
            daemon.wait(30)


WORDS = ["-m", "hydra/launcher=slurm", "hydra.launcher.chunk=4", "hydra.launcher.mem_gb=2", "model=appnp,gkde"]
SWEEP = [*WORDS, "split.index=0,1,2"]


def start(folder: Path, environment, *words):
    command = [sys.executable, "-m", "lopgpn_exp", *TINY, f"output_dir={folder}", *SWEEP, *words]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_sweep_on_slurm_gives_the_numbers_of_a_local_one(cluster, tmp_path):
    process = start(tmp_path / "slurm", cluster)
    out, _ = process.communicate(timeout=200)
    assert process.returncode == 0, out
    words = [word for word in SWEEP if not word.startswith("hydra")]
    command = [sys.executable, "-m", "lopgpn_exp", *TINY, f"output_dir={tmp_path / 'local'}", *words]
    subprocess.run(command, env=cluster, check=True, capture_output=True)
    columns = ["run_id", "test/accuracy", "test/nll"]
    tables = [load_results(tmp_path / name)[columns] for name in ("slurm", "local")]
    assert len(tables[0]) == 24
    pd.testing.assert_frame_equal(*tables)


def test_killed_task_is_reported_and_the_same_command_completes_the_sweep(cluster, tmp_path):
    """After `scancel --signal=KILL` finished runs are kept, nothing incomplete counts, and the others run again."""
    slow = ["model=gpn_sym", "trainer.max_epochs=150", "trainer.patience=1000"]
    process = start(tmp_path, cluster, *slow)
    while not list((tmp_path / "runs").glob("[!.]*/result.json")):
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.5)
    subprocess.run(["scancel", "--signal=KILL", "--full", "--user=root"], env=cluster, check=True)
    out, _ = process.communicate(timeout=200)
    assert process.returncode == 1, out
    assert "the scheduler ended the job" in out
    before = {result.run_id for result in read_results(tmp_path)}
    assert 0 < len(before) < 12
    again = start(tmp_path, cluster, *slow)
    out, _ = again.communicate(timeout=200)
    assert again.returncode == 0, out
    assert f"{len(before)} already done" in out
    assert len(read_results(tmp_path)) == 12


def test_requeued_task_starts_again_and_nothing_counts_twice(cluster, tmp_path):
    """Pre-emption: the scheduler stops running tasks and puts them back into the queue."""
    slow = ["model=gpn_sym", "trainer.max_epochs=150", "trainer.patience=1000"]
    process = start(tmp_path, cluster, *slow)
    while not list((tmp_path / "runs").glob("[!.]*/result.json")):
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.5)
    running = ["squeue", "-h", "-r", "-t", "RUNNING", "-o", "%F_%K"]
    tasks = subprocess.run(running, env=cluster, check=True, capture_output=True, text=True).stdout.split()
    assert tasks
    for task in tasks:
        subprocess.run(["scontrol", "requeue", task], env=cluster, check=True)
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0, out
    assert len(read_results(tmp_path)) == 12
