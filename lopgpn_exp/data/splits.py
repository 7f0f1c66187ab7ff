"""Splits: which nodes are used for training, validation and testing."""

import math

import numpy as np
import torch

from lopgpn_exp.errors import InputError, check_parameter
from lopgpn_exp.graph import Graph, Part

PURPOSES = {"train": "training", "val": "validation", "test": "testing"}


class OneSplitError(InputError):
    """The dataset ships a single split, so the requested split index does not exist. A sweep over splits skips it."""


def random_split(
    graph: Graph,
    *,
    index: int,
    count: int = 10,
    train: float = 0.05,
    val: float = 0.15,
    test: float = 0.80,
    unused: float = 0.0,
) -> Graph:
    """Split each class at random, seeded by `index` alone: all models see the same `count` splits.

    Fractions are relative to the size of the class, and those of training, validation and testing are more than 0. Each
    class has at least one node in each of these parts; the test part absorbs rounding.
    Deviation: the paper's public code applies each fraction to the nodes that remain, which gives 5 / 14.2 / 64.6 % and
    leaves the others unused (`train=0.05 val=0.1425 test=0.646 unused=0.1615`).
    """
    _check_index(index, count)
    _check_fractions(train=train, val=val, test=test, unused=unused)
    unlabelled = "-1" if graph.legend is None else graph.legend.unlabelled
    rng = np.random.default_rng([0x5B117, index])
    part = torch.full((graph.num_nodes,), Part.NONE, dtype=torch.int8)
    for label in range(graph.num_classes):
        nodes = torch.from_numpy(rng.permutation(np.flatnonzero(graph.labels.numpy() == label)))
        size = len(nodes)
        if size < 3:
            raise InputError(
                f"class {graph.class_name(label)} has {size} node(s)",
                expected="at least 3: one each for training, validation and testing",
                hint=f"merge rare classes, or mark their nodes as unlabelled ({unlabelled})",
            )
        num_train = max(1, min(round(train * size), size - 2))
        num_val = max(1, min(round(val * size), size - num_train - 1))
        num_unused = min(round(unused * size), size - num_train - num_val - 1)
        num_test = size - num_train - num_val - num_unused
        counts = {Part.TRAIN: num_train, Part.VAL: num_val, Part.TEST: num_test, Part.NONE: num_unused}
        for value, members in zip(counts, nodes.split(list(counts.values())), strict=True):
            part[members] = value
    return graph.replace(part=part)


def official_split(graph: Graph, *, index: int, count: int = 1) -> Graph:
    """Use the split that ships with the dataset."""
    _check_index(index, count)
    if graph.official_part is None:
        raise InputError(
            "this dataset has no official split", expected="a random split", parameter="split", suggestion="random"
        )
    return graph.replace(part=graph.official_part.clone())


def own_split(
    graph: Graph,
    *,
    index: int,
    count: int = 10,
    train: float = 0.6,
    val: float = 0.2,
    test: float = 0.2,
    unused: float = 0.0,
) -> Graph:
    """Use the split that ships with the dataset if there is one, otherwise a random split with these fractions."""
    if graph.official_part is None:
        return random_split(graph, index=index, count=count, train=train, val=val, test=test, unused=unused)
    if index != 0:
        raise OneSplitError(
            f"index is {index}, but the dataset ships a single split",
            expected="index 0, or a random split instead of the dataset's own",
            parameter="index",
            suggestion=0,
        )
    return official_split(graph, index=0)


def _check_index(index: int, count: int) -> None:
    check_parameter("count", count, count >= 1, expected="1 or more", suggestion=10)
    expected = f"from 0 to {count - 1}: count is {count}"
    nearest_index = min(max(index, 0), count - 1)
    check_parameter("index", index, index == nearest_index, expected=expected, suggestion=nearest_index)


def _check_fractions(**fractions: float) -> None:
    total = sum(fractions.values())
    shown = " + ".join(f"{name} {fraction:g}" for name, fraction in fractions.items())
    what = f"the split's fractions are {shown} = {total:g}"
    if not all(fraction >= 0 for fraction in fractions.values()):  # NaN is not
        raise InputError(what, expected="no negative fraction, and a sum of 1")
    if empty := [name for name in ("train", "val", "test") if fractions[name] == 0]:
        raise InputError(
            f"{what}: no nodes for {' and '.join(PURPOSES[name] for name in empty)}",
            expected="more than 0 for each of train, val and test, and a sum of 1, such as 0.6, 0.2 and 0.2",
        )
    if not math.isclose(total, 1.0, abs_tol=1e-6):
        remainder = round(1 - total + fractions["test"], 6)
        has_suggestion = remainder > 0
        raise InputError(
            what,
            expected="no negative fraction, and a sum of 1",
            parameter="test" if has_suggestion else "",
            suggestion=remainder if has_suggestion else None,
        )
