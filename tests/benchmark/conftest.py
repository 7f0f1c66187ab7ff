"""The stored leaderboard of the project."""

import pandas as pd
import pytest

from lopgpn_exp.benchmark.benchmark_audit import audit_benchmark
from lopgpn_exp.benchmark.benchmark_runs import load_benchmark
from tests.support import ROOT


@pytest.fixture(scope="session")
def stored_runs() -> pd.DataFrame:
    return load_benchmark(ROOT / "outputs" / "benchmark" / "runs.parquet")


@pytest.fixture(scope="session")
def stored_audit(stored_runs) -> pd.DataFrame:
    return audit_benchmark(stored_runs)
