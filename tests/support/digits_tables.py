"""The digits dataset as two CSV tables: the graph of the README's examples."""

from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits

from lopgpn_exp.data.datasets.digits import digits_graph

WORDS = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
NUM_NOISE = 40  # scans with random pixels
UNLABELLED_SHARE = 0.5


def write_digits(folder: Path) -> list[str]:
    """Write `nodes.csv` and `edges.csv`; return the ids of the scans that are noise, none of which has a label."""
    images, labels = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    noise = rng.choice(len(images), NUM_NOISE, replace=False)
    images[noise] = rng.integers(0, 17, (NUM_NOISE, images.shape[1]))
    blank = rng.random(len(images)) < UNLABELLED_SHARE
    blank[noise] = True
    ids = np.array([f"scan-{number:04d}" for number in range(len(images))])
    nodes = pd.DataFrame(images.astype(int), columns=[f"px{pixel}" for pixel in range(images.shape[1])])
    nodes.insert(0, "id", ids)
    nodes.insert(1, "label", np.where(blank, "", WORDS[labels]))
    nodes.to_csv(folder / "nodes.csv", index=False)
    source, target = digits_graph().edge_index.numpy()
    is_first_direction = source < target
    edges = pd.DataFrame({"source": ids[source[is_first_direction]], "target": ids[target[is_first_direction]]})
    edges.to_csv(folder / "edges.csv", index=False)
    return ids[np.sort(noise)].tolist()
