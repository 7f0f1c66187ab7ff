"""Shared fixtures. Tests that need the real datasets are skipped where these are not available."""

import logging
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from lopgpn_exp.data.datasets.synthetic import block_model
from lopgpn_exp.data.splits import random_split
from lopgpn_exp.graph import Graph
from tests.support import ROOT, SHARED
from tests.support.user_code import UserProject


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    """Use a single thread: the graphs of the tests are so small that threads slow them down."""
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"


@pytest.fixture(scope="session")
def real_data() -> Path:
    folder = SHARED / "data"
    if not folder.is_dir():
        pytest.skip("the real datasets are not available")
    return folder


@pytest.fixture(scope="session")
def golden() -> dict[str, np.ndarray]:
    """Return the weights and outputs of a trained GPN from an independent implementation (see tests/golden)."""
    with np.load(ROOT / "tests" / "golden" / "citeseer_gpn_sym.npz") as archive:
        return dict(archive)


@pytest.fixture(scope="session")
def small_graph() -> Graph:
    """Return a graph with 300 nodes, some of them isolated, 3 classes and a split."""
    graph = block_model(num_nodes=300, num_edges=600, num_classes=3, num_features=12, signal=2.0, seed=1)
    keep = ~torch.isin(graph.edge_index, torch.tensor([5, 17])).any(dim=0)
    graph = graph.replace(edge_index=graph.edge_index[:, keep])
    return random_split(graph, index=0, train=0.2, val=0.2, test=0.6)


def make_graph(edges: list[tuple[int, int]], features: list[list[float]], labels: list[int]) -> Graph:
    """Return a graph from lists."""
    return Graph.build(
        features=torch.tensor(features),
        edge_index=torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T,
        labels=torch.tensor(labels),
    )


@pytest.fixture(scope="session")
def tree_run(tmp_path_factory) -> tuple[Path, str]:
    """Return a folder with the tables of a graph, and the id of a run on them in its `outputs`."""
    from lopgpn_exp.config.plan import plan_run
    from lopgpn_exp.runs.execute import run
    from tests.support import compose
    from tests.support.tables import write_tables

    folder = tmp_path_factory.mktemp("trees")
    write_tables(folder)
    words = ["dataset=custom", f"dataset.path={folder}", f"output_dir={folder / 'outputs'}", "tracking=none"]
    return folder, run(plan_run(compose(*words, "trainer.progress=false"))).result.run_id


@pytest.fixture
def user_project(tmp_path, monkeypatch) -> Iterator[UserProject]:
    monkeypatch.syspath_prepend(str(tmp_path))
    project = UserProject(tmp_path)
    yield project
    project.forget()


@pytest.fixture
def build_graph():
    return make_graph


@pytest.fixture(scope="session")
def _empty_database(tmp_path_factory) -> Path:
    """Return an MLflow database without runs. All workers of a session share it: creating one takes ten seconds."""
    import sqlite3

    from filelock import FileLock

    from lopgpn_exp.tracking.store import connect

    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "mlflow"
    folder.mkdir(exist_ok=True)
    template = folder / "mlflow.db"
    with FileLock(folder / "lock"):
        if not template.is_file():
            connect(f"sqlite:///{folder / 'open.db'}")  # stays open in this process, so that its file is not copied
            with sqlite3.connect(folder / "open.db") as source, sqlite3.connect(folder / "copy.db") as copy:
                source.backup(copy)
                copy.execute("PRAGMA journal_mode=WAL")
            source.close()
            copy.close()
            (folder / "copy.db").rename(template)
    return template


@pytest.fixture
def tracked_outputs(_empty_database, tmp_path) -> Path:
    """Return an output folder with an MLflow database, which `command` uses by default."""
    folder = tmp_path / "outputs"
    folder.mkdir()
    shutil.copy(_empty_database, folder / "mlflow.db")
    return folder


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    """Return a function that runs the program in this process, in an empty folder: exit code, stdout, stderr."""
    from hydra.core.global_hydra import GlobalHydra

    from lopgpn_exp.commands import main

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["lopgpn_exp", *arguments])
        GlobalHydra.instance().clear()
        handlers = logging.root.handlers[:]
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        finally:
            logging.root.handlers[:] = handlers  # those of Hydra write to the stream of this test
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    monkeypatch.chdir(tmp_path)
    return call
