"""Which nodes train, validate and test."""

import math

import numpy as np
import torch

from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Graph, Part


class OneSplitError(InputError):
    """The data brings a split of its own, so that there is no second one: a sweep over splits goes on without it."""


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
    """Stratified per class and seeded by `index` alone, so that every model sees the same `count` splits.

    Fractions are of the whole class. Each class gets at least one node in each part; test takes what rounding leaves.
    Deviation: the paper's public code draws the fractions from what is left, 5 / 14.2 / 64.6 %, and leaves the rest
    unused (`train=0.05 val=0.1425 test=0.646 unused=0.1615`).
    """
    _check_index(index, count)
    fractions = {"train": train, "val": val, "test": test, "unused": unused}
    if any(f < 0 for f in fractions.values()) or not math.isclose(sum(fractions.values()), 1.0, abs_tol=1e-6):
        shown = " + ".join(f"{name} {value:g}" for name, value in fractions.items())
        raise InputError(
            f"the split's fractions are {shown} = {sum(fractions.values()):g}",
            expected="no negative fraction, and a sum of 1",
            hint="split.train=0.05 split.val=0.15 split.test=0.8",
        )
    rng = np.random.default_rng([0x5B117, index])
    part = torch.full((graph.num_nodes,), Part.NONE, dtype=torch.int8)
    for label in range(graph.num_classes):
        nodes = np.flatnonzero(graph.labels.numpy() == label)
        if len(nodes) < 3:
            raise InputError(
                f"class {graph.class_name(label)} has {len(nodes)} node(s)",
                expected="at least 3: one each to train, validate and test",
                hint="merge rare classes, or mark their nodes as unlabelled (-1)",
            )
        nodes = torch.from_numpy(rng.permutation(nodes))
        num_train = max(1, min(round(train * len(nodes)), len(nodes) - 2))
        num_val = max(1, min(round(val * len(nodes)), len(nodes) - num_train - 1))
        num_unused = min(round(unused * len(nodes)), len(nodes) - num_train - num_val - 1)
        num_test = len(nodes) - num_train - num_val - num_unused
        for name, chosen in zip(
            (Part.TRAIN, Part.VAL, Part.TEST),
            nodes.split([num_train, num_val, num_test, num_unused])[:3],
            strict=True,
        ):
            part[chosen] = name
    return graph.replace(part=part)


def official_split(graph: Graph, *, index: int, count: int = 1) -> Graph:
    """The split that came with the data. There is one."""
    _check_index(index, count)
    if graph.official_part is None:
        raise InputError("this dataset has no official split", expected="a random one", hint="split=random")
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
    """The split that came with the data where there is one, else a random one of these fractions."""
    if graph.official_part is None:
        return random_split(graph, index=index, count=count, train=train, val=val, test=test, unused=unused)
    if index != 0:
        raise OneSplitError(
            f"split.index is {index}, and the data brings one split of its own",
            expected="index 0, or a random split in its place",
            hint="split=official, or split=random",
        )
    return official_split(graph, index=0)


def _check_index(index: int, count: int) -> None:
    if count < 1:
        raise InputError(f"split.count is {count}", expected="1 or more", hint="split.count=10")
    if not 0 <= index < count:
        raise InputError(
            f"split.index is {index}",
            expected=f"from 0 to {count - 1}: there are {count} splits",
            hint=f"split.index={count - 1}" + (f" or split.count={index + 1}" if index > 0 else ""),
        )
