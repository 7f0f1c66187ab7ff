"""A user's own graph as two CSV tables."""

from pathlib import Path

import numpy as np
import pandas as pd

from lopgpn_exp.data.datasets.synthetic import block_model

CLASSES = np.array(["ash", "birch", "oak"])


def write_tables(folder: Path, *, blank: int = 5) -> None:
    """Write 300 nodes with ids; every `blank`-th node has no label."""
    graph = block_model(num_nodes=300, num_edges=900, num_classes=3, num_features=6, signal=2.0, seed=3)
    ids = np.array([f"tree {k:03d}" for k in range(300)])
    nodes = pd.DataFrame(graph.features.numpy() * 7 + 100, columns=[f"x{k}" for k in range(6)])
    nodes.insert(0, "id", ids)
    nodes.insert(1, "label", np.where(np.arange(300) % blank == 0, "", CLASSES[graph.labels]))
    source, target = graph.edge_index.numpy()
    edges = pd.DataFrame({"source": ids[source], "target": ids[target]})[source < target]
    nodes.to_csv(folder / "nodes.csv", index=False)
    edges.to_csv(folder / "edges.csv", index=False)
