"""The embedded digits as a user's two tables: the graph of the README's examples."""

from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits

from lopgpn_exp.data.digits import digits_graph

WORDS = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
NOISE = 40  # scans whose pixels are drawn at random
UNLABELLED = 0.5


def write_digits(folder: Path) -> list[str]:
    """`nodes.csv` and `edges.csv`; the ids of the scans that are noise, none of which has a label."""
    images, labels = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    noise = rng.choice(len(images), NOISE, replace=False)
    images[noise] = rng.integers(0, 17, (NOISE, images.shape[1]))
    blank = rng.random(len(images)) < UNLABELLED
    blank[noise] = True
    ids = np.array([f"scan-{number:04d}" for number in range(len(images))])
    nodes = pd.DataFrame(images.astype(int), columns=[f"px{at}" for at in range(images.shape[1])])
    nodes.insert(0, "id", ids)
    nodes.insert(1, "label", np.where(blank, "", WORDS[labels]))
    nodes.to_csv(folder / "nodes.csv", index=False)
    source, target = digits_graph().edge_index.numpy()
    once = source < target
    edges = pd.DataFrame({"source": ids[source[once]], "target": ids[target[once]]})
    edges.to_csv(folder / "edges.csv", index=False)
    return ids[np.sort(noise)].tolist()
