"""One small graph in every file format that `custom_graph` reads, and one in OGB's."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from lopgpn_exp.data.files import custom_graph
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Graph

NODES = """id,label,split,age,height
007,red,train,1,10.5
ann,,,2,20.5
bob,blue,val,3,30.5
7,red,test,6,40.5
"""
EDGES = "source,target\n007,ann\nann,007\nbob,7\nbob,bob\n"


def write_csv(folder: Path, nodes: str = NODES, edges: str = EDGES) -> None:
    (folder / "nodes.csv").write_text(nodes)
    (folder / "edges.csv").write_text(edges)


def read_csv(folder: Path, **options: object) -> Graph:
    return custom_graph(path=str(folder / "nodes.csv"), edges=str(folder / "edges.csv"), **options)


def pyg_data(**changes: object) -> Data:
    data = Data(
        x=torch.tensor([[1.0], [2.0], [4.0]]),
        edge_index=torch.tensor([[0, 1], [1, 2]]),
        y=torch.tensor([3, -1, 5]),
        train_mask=torch.tensor([True, False, False]),
        test_mask=torch.tensor([False, False, True]),
    )
    for name, value in changes.items():
        setattr(data, name, value)
    return data


def write_npz(path: Path, **changes: object) -> None:
    features, edges = sp.csr_array([[0, 2.5], [1, 0], [0, 3]]), sp.csr_array([[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    arrays = {"labels": np.array([1, 0, -1])}
    for kind, matrix in (("attr", features), ("adj", edges)):
        arrays |= {f"{kind}_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr", "shape")}
    np.savez(path, **(arrays | changes))


def write_ogb_files(root: Path) -> Path:
    """Write a made-up ogbn-arxiv of 8 nodes in OGB's raw layout."""
    folder = root / "ogb" / "ogbn_arxiv"
    tables = {
        "raw/edge": [[0, 1], [1, 2], [2, 0], [3, 3], [4, 5]],
        "raw/node-feat": np.arange(16).reshape(8, 2) / 7 - 1,
        "raw/node-label": [[0], [1], [2], [0], [1], [39], [0], [1]],
        "raw/node_year": [[2000 + i] for i in range(8)],
        "raw/num-node-list": [[8]],
        "raw/num-edge-list": [[5]],
        "split/time/train": [[0], [1], [2]],
        "split/time/valid": [[3], [4]],
        "split/time/test": [[5], [6], [7]],
    }
    for name, rows in tables.items():
        path = folder / f"{name}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        pd.DataFrame(rows).to_csv(path, header=False, index=False, compression="gzip")
    return folder


@contextmanager
def time_limit(seconds: float = 10) -> Iterator[None]:
    """Check that a block takes no longer than any file of a few megabytes may take."""
    start = time.perf_counter()
    yield
    assert time.perf_counter() - start < seconds


def expect_error(message: str, **options: object) -> InputError:
    """Check that reading fails with a message, and return the error."""
    with pytest.raises(InputError) as caught:
        custom_graph(**options)
    assert message in str(caught.value), str(caught.value)
    return caught.value
