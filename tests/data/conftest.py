"""Fixtures of the data tests."""

from pathlib import Path

import pytest

from tests.support.graph_files import write_csv


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder with a small graph as two CSV tables."""
    write_csv(tmp_path)
    return tmp_path
