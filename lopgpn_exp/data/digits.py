"""The embedded default: real data that needs no download."""

import numpy as np
import torch
from sklearn.datasets import load_digits

from lopgpn_exp.data.features import row_normalised
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Graph


def digits_graph(*, num_neighbors: int = 5) -> Graph:
    """scikit-learn's 1,797 handwritten digits as the undirected union of their k-nearest-neighbour graph.

    Pixels are whole numbers, so squared distances are exact in float64, and ties go to the lower node number: the same
    graph on every machine and with any number of threads, which a library's search does not promise.
    """
    images, labels = load_digits(return_X_y=True)
    if not 1 <= num_neighbors < len(images):
        raise InputError(
            f"num_neighbors is {num_neighbors}", expected=f"1 to {len(images) - 1}", hint="dataset.num_neighbors=5"
        )
    norms = np.square(images).sum(axis=1)
    distances = norms[:, None] + norms[None] - 2 * images @ images.T
    np.fill_diagonal(distances, np.inf)
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :num_neighbors]
    return Graph.build(
        features=row_normalised(torch.from_numpy(images).float()),
        edge_index=np.stack([np.repeat(np.arange(len(images)), num_neighbors), nearest.ravel()]),
        labels=labels,
    )
