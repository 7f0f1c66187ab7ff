"""A sweep that is killed at random moments and started again ends like an undisturbed one."""

import os
import random
import time

import pandas as pd
import pytest

from lopgpn_exp.runs.run_folder import read_result
from tests.support import TINY
from tests.support.processes import Program

SWEEP = ["-m", "model=appnp,gpn_sym", "split.index=0,1"]
JOBLIB = ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2"]
NUM_KILLS = int(os.environ.get("LOPGPN_KILLS", "0"))
MAX_NEW_RUNS = 4  # runs that a sweep may finish before it is killed


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Return the run folders of the sweep when nothing stops it."""
    folder = tmp_path_factory.mktemp("undisturbed")
    program = Program(folder, *TINY, *SWEEP)
    assert program.wait() == 0, program.output
    return finished_runs(folder)


def finished_runs(folder):
    return sorted((folder / "outputs" / "runs").glob("[!.]*"))


@pytest.mark.parametrize(("launcher", "num_kills"), [([], 4), (JOBLIB, 1)], ids=["local", "joblib"])
def test_killed_sweep_ends_like_an_undisturbed_one(tmp_path, undisturbed, launcher, num_kills):
    """Send SIGKILL to all processes of a sweep of 16 runs at random moments, then run the same command to the end.

    The environment variable LOPGPN_KILLS sets the number of kills: 20 in `make test-kill`.
    """
    chance = random.Random(int(os.environ.get("LOPGPN_KILL_SEED", "0")))
    for _ in range(NUM_KILLS or num_kills):
        program = Program(tmp_path, *TINY, *SWEEP, *launcher)
        goal = min(len(finished_runs(tmp_path)) + chance.randint(0, MAX_NEW_RUNS), len(undisturbed) - 1)
        while program.is_running and len(finished_runs(tmp_path)) < goal:
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.5))
        program.kill()
    last = Program(tmp_path, *TINY, *SWEEP)
    assert last.wait() == 0, last.output
    assert [folder.name for folder in finished_runs(tmp_path)] == [folder.name for folder in undisturbed]
    assert len(undisturbed) == 16
    for expected, folder in zip(undisturbed, finished_runs(tmp_path), strict=True):
        assert read_result(folder).metrics == read_result(expected).metrics
        pd.testing.assert_frame_equal(
            pd.read_parquet(folder / "predictions.parquet"), pd.read_parquet(expected / "predictions.parquet")
        )
