"""A random mixture posterior with the table of nodes that a run leaves."""

import numpy as np
import pandas as pd
import torch

from lopgpn_exp.graph import DenseMatrix
from lopgpn_exp.posterior import DirichletMixture

NUM_NODES = 200


def random_mixture(seed: int = 0) -> tuple[DirichletMixture, pd.DataFrame]:
    """Each node mixes a few of 40 Dirichlet distributions, node 0 just one; class 3 was left out of the training."""
    rng = np.random.default_rng(seed)
    weights = np.where(rng.random((NUM_NODES, 40)) < 0.15, rng.random((NUM_NODES, 40)), 0)
    weights[0], weights[1:, 0] = np.eye(40)[3], 0.3
    posterior = DirichletMixture(
        DenseMatrix(torch.from_numpy(weights / weights.sum(axis=1, keepdims=True))),
        torch.from_numpy(1 + 30 * rng.random((40, 3)) ** 3),
    )
    label = rng.integers(0, 4, NUM_NODES)
    columns = {
        "node": np.arange(NUM_NODES),
        "part": rng.choice(["train", "val", "test"], NUM_NODES, p=[0.1, 0.1, 0.8]),
        "label": np.where(np.arange(NUM_NODES) % 17 == 5, -1, label),
        "predicted": posterior.mean.argmax(dim=1).numpy(),
        "confidence": posterior.mean.amax(dim=1).numpy(),
        "is_ood": label == 3,
    }
    columns["part"][0], columns["label"][0] = "test", 1
    return posterior, pd.DataFrame(columns)
