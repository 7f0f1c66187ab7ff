"""The embedded default: real data that needs no download."""

import torch

from lopgpn_exp.data.pyg import row_normalised
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Graph


def digits_graph(*, num_neighbors: int = 5) -> Graph:
    """scikit-learn's 1,797 handwritten digits as the undirected union of their k-nearest-neighbour graph."""
    if not 1 <= num_neighbors < 1797:
        raise InputError(f"num_neighbors is {num_neighbors}", expected="1 to 1796", hint="dataset.num_neighbors=5")
    from sklearn.datasets import load_digits
    from sklearn.neighbors import kneighbors_graph

    images, labels = load_digits(return_X_y=True)
    neighbors = kneighbors_graph(images, num_neighbors).tocoo()
    return Graph.build(
        features=row_normalised(torch.from_numpy(images).float()),
        edge_index=torch.stack([torch.from_numpy(neighbors.row), torch.from_numpy(neighbors.col)]).long(),
        labels=torch.from_numpy(labels),
    )
