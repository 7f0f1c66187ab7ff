"""Programs that share an output folder or a database, and workers that share a sweep."""

import os

import pytest

from lopgpn_exp.runs.table import load_results
from tests.support import TRACKED
from tests.support.processes import Program


def test_workers_compute_the_same_identity_as_the_controller(tmp_path):
    """Numerical libraries use other numbers of threads in a worker; the graph must not depend on them."""
    words = [
        "trainer.max_epochs=1",
        "tracking=none",
        "-m",
        "hydra/launcher=joblib",
        "hydra.launcher.n_jobs=2",
        "split.index=0,1",
        "ood=none",
    ]
    program = Program(tmp_path, *words)
    assert program.wait() == 0, program.output
    assert len(load_results(tmp_path / "outputs")) == 2


@pytest.mark.parametrize("repeat", range(int(os.environ.get("LOPGPN_STARTS", "1"))))
def test_programs_that_start_at_once_share_a_new_database(tmp_path, repeat):
    """The environment variable LOPGPN_STARTS sets how often: 20 in `make test-kill`."""
    programs = [Program(tmp_path, *TRACKED, f"init={i}") for i in range(4)]
    codes = [program.wait() for program in programs]
    assert codes == [0] * 4, "\n".join(program.output for program in programs)
    assert len(load_results(tmp_path / "outputs")) == 4
