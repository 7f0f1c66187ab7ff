"""The fuzzer, and the table of its counts at the end of the session."""

import os
from functools import partial
from pathlib import Path

import pytest

from tests.support.fuzzing import Fuzzer, format_counts

PROPERTY = "fuzz counts"


@pytest.fixture(scope="session")
def fuzz_count() -> int:
    """Return the number of mutated files per format: a few in `make test`, many in `make test-hostile`."""
    return int(os.environ.get("LOPGPN_FUZZ", "60"))


@pytest.fixture
def fuzzer(tmp_path, fuzz_count, record_property, monkeypatch) -> Fuzzer:
    """Return a fuzzer; a module `evil`, which a file may name, can be imported from the current folder."""
    (tmp_path / "evil.py").write_text("class Evil:\n    pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return Fuzzer(tmp_path, fuzz_count, partial(record_property, PROPERTY))


@pytest.fixture(scope="session")
def tree_outputs(tmp_path_factory) -> Path:
    """Return an output folder with a run on a user's own graph, which lies beside it as two tables."""
    from lopgpn_exp.config.plan import plan_run
    from lopgpn_exp.runs.execute import run
    from tests.support import compose
    from tests.support.tables import write_tables

    folder = tmp_path_factory.mktemp("trees")
    write_tables(folder)
    words = ["dataset=custom", f"dataset.path={folder}", f"output_dir={folder / 'outputs'}", "tracking=none"]
    run(plan_run(compose(*words, "trainer.max_epochs=3", "trainer.progress=false")))
    return folder / "outputs"


def pytest_terminal_summary(terminalreporter) -> None:
    """Print the counts of all formats, also those that test processes have sent."""
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, [])]
    rows = [value for report in reports for name, value in report.user_properties if name == PROPERTY]
    if rows:
        terminalreporter.section("fuzzing")
        terminalreporter.write_line("\n".join(format_counts(rows)))
