"""The default dataset: real data that comes with scikit-learn and needs no download."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

from lopgpn_exp.data.scaling import normalise_rows
from lopgpn_exp.errors import check_parameter
from lopgpn_exp.graph import Graph


def digits_graph(*, num_neighbors: int = 5) -> Graph:
    """Return scikit-learn's 1,797 handwritten digits as an undirected k-nearest-neighbour graph.

    Pixels are integers, so squared distances are exact in float64, and ties go to the lower node index: unlike with a
    library's neighbour search, the graph is the same on every machine and for any number of threads.
    """
    images, labels = _read_digits()
    expected = f"from 1 to {len(images) - 1}"
    check_parameter("num_neighbors", num_neighbors, 1 <= num_neighbors < len(images), expected=expected, suggestion=5)
    norms = np.square(images).sum(axis=1)
    distances = norms[:, None] + norms[None] - 2 * images @ images.T
    np.fill_diagonal(distances, np.inf)
    neighbors = np.argsort(distances, axis=1, kind="stable")[:, :num_neighbors]
    return Graph.build(
        features=normalise_rows(torch.from_numpy(images).float()),
        edge_index=np.stack([np.repeat(np.arange(len(images)), num_neighbors), neighbors.ravel()]),
        labels=labels,
    )


def _read_digits() -> tuple[np.ndarray, np.ndarray]:
    """Return what `sklearn.datasets.load_digits` reads, from the same file; importing scikit-learn takes a second."""
    package = find_spec("sklearn")
    assert package is not None
    file = Path(str(package.origin)).parent / "datasets" / "data" / "digits.csv.gz"
    table = np.loadtxt(file, delimiter=",")
    return table[:, :-1], table[:, -1].astype(int)
