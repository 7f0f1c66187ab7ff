"""Shared fixtures. Real data and golden outputs are read from beside the project; tests that need them skip without."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from lopgpn_exp.data.splits import random_split
from lopgpn_exp.data.synthetic import block_model
from lopgpn_exp.graph import Graph

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    """The suite's graphs are tiny: threads cost more than they bring."""
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"


@pytest.fixture(scope="session")
def real_data() -> Path:
    folder = SHARED / "data"
    if not folder.is_dir():
        pytest.skip("the real datasets are not here")
    return folder


@pytest.fixture(scope="session")
def golden() -> dict[str, np.ndarray]:
    path = SHARED / "golden" / "citeseer_gpn_sym.npz"
    if not path.is_file():
        pytest.skip("the golden outputs are not here")
    with np.load(path) as archive:
        return dict(archive)


@pytest.fixture(scope="session")
def small_graph() -> Graph:
    """300 nodes, 3 classes, a few of them isolated, with a split."""
    graph = block_model(num_nodes=300, num_edges=600, num_classes=3, num_features=12, signal=2.0, seed=1)
    keep = ~torch.isin(graph.edge_index, torch.tensor([5, 17])).any(dim=0)
    graph = graph.replace(edge_index=graph.edge_index[:, keep])
    return random_split(graph, index=0, train=0.2, val=0.2, test=0.6)


def make_graph(edges: list[tuple[int, int]], features: list[list[float]], labels: list[int]) -> Graph:
    """A graph written down by hand."""
    return Graph.build(
        features=torch.tensor(features),
        edge_index=torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T,
        labels=torch.tensor(labels),
    )


@pytest.fixture
def build_graph():
    return make_graph
