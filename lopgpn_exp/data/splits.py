"""Splits: which nodes are used for training, validation and testing."""

import math

import numpy as np
import torch
from jaxtyping import Int8
from torch import Tensor

from lopgpn_exp.errors import InputError, check_parameter
from lopgpn_exp.graph import Graph, Part
from lopgpn_exp.seeds import PUBLISHED_SEED

PURPOSES = {"train": "training", "val": "validation", "test": "testing"}
MIN_VALIDATION = 20  # nodes, half of which are compared: with fewer, no interval would be worth showing
PUBLISHED_FRACTIONS = {Part.TRAIN: 0.05, Part.VAL: 0.15, Part.TEST: 0.8}


class MissingSplitError(InputError):
    """The dataset ships fewer splits, so the requested split index does not exist. A sweep over splits skips it."""


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
    Deviation: the paper's public code applies each fraction to the nodes that remain (`published_split`).
    """
    check_index(index, count)
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


def published_split(graph: Graph, *, index: int, count: int = 10) -> Graph:
    """Split the nodes as the paper's public code does: the ten splits behind the published table.

    Deviation: the paper's text describes 5 / 15 / 80 % of each class (`random_split`). The public code applies these
    fractions to the nodes that are left, which gives 5 / 14.2 / 64.6 %; the other nodes are unused.
    """
    check_index(index, count)
    return graph.replace(part=draw_published_split(graph, index)[0])


def draw_published_split(graph: Graph, index: int) -> tuple[Int8[Tensor, " nodes"], np.random.RandomState]:
    """Return the part of each node in a published split, and the random generator after drawing it.

    A single generator draws all splits in turn. Within a split it draws the parts in turn, and for each part a fraction
    of the nodes of each class that are left, rounded down.
    """
    labels = graph.labels.numpy()
    rng = np.random.RandomState(PUBLISHED_SEED)
    for _ in range(index + 1):  # the draws of a split depend on those of all splits before it
        part = np.full(graph.num_nodes, Part.NONE, dtype=np.int8)
        for value, fraction in PUBLISHED_FRACTIONS.items():
            for label in range(graph.num_classes):
                remaining = np.flatnonzero((labels == label) & (part == Part.NONE))
                size = int(fraction * len(remaining))
                if size == 0:
                    raise InputError(
                        f"class {graph.class_name(label)} has too few nodes for {PURPOSES[value.name.lower()]}",
                        expected=f"at least one node in a fraction of {fraction:g} of the nodes that are left",
                        parameter="split",
                        suggestion="random",
                    )
                part[rng.choice(remaining, size, replace=False)] = value
    return torch.from_numpy(part), rng


def per_class_split(graph: Graph, *, index: int, count: int = 10, train: int = 20, test: float = 0.2) -> Graph:
    """Draw the same number of training nodes from each class, then test nodes from all others; the rest is validation.

    Seeded by `index` alone. Source: the protocol of Yu et al. (2025).

    Args:
        train: training nodes per class.
        test: share of all labelled nodes, which are not stratified.
    """
    check_index(index, count)
    check_parameter("train", train, train >= 1, expected="1 or more nodes per class", suggestion=20)
    check_parameter("test", test, 0 < test < 1, expected="between 0 and 1", suggestion=0.2)
    labels = graph.labels.numpy()
    rng = np.random.default_rng([0x9E6C1, index])
    part = np.full(graph.num_nodes, Part.NONE, dtype=np.int8)
    for label in range(graph.num_classes):
        members = np.flatnonzero(labels == label)
        if len(members) < train:
            raise InputError(
                f"class {graph.class_name(label)} has {len(members)} nodes",
                expected=f"at least {train} in each class, for training",
                parameter="train",
                suggestion=int(np.bincount(labels[labels >= 0], minlength=graph.num_classes).min()) // 2 or 1,
            )
        part[rng.permutation(members)[:train]] = Part.TRAIN
    others = rng.permutation(np.flatnonzero((part == Part.NONE) & (labels >= 0)))
    num_test = round(test * int((labels >= 0).sum()))
    if not 0 < num_test < len(others):
        raise InputError(
            f"{len(others)} nodes are left beside the training nodes, and {num_test} are to be test nodes",
            expected="at least one test and one validation node",
            parameter="train",
            suggestion=1,
        )
    part[others[:num_test]] = Part.TEST
    part[others[num_test:]] = Part.VAL
    return graph.replace(part=torch.from_numpy(part))


def official_split(graph: Graph, *, index: int, count: int = 1) -> Graph:
    """Use a split that ships with the dataset."""
    check_index(index, count)
    if graph.official_part is None:
        raise InputError(
            "this dataset has no official split", expected="a random split", parameter="split", suggestion="random"
        )
    parts = graph.official_part.reshape(-1, graph.num_nodes)
    if index >= len(parts):
        shipped = "a single split" if len(parts) == 1 else f"{len(parts)} splits"
        raise MissingSplitError(
            f"index is {index}, but the dataset ships {shipped}",
            expected="one of them, or a random split instead of the dataset's own",
            parameter="index",
            suggestion=0,
        )
    return graph.replace(part=parts[index].clone())


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
    return official_split(graph, index=index, count=count)


def validation_halves_split(
    graph: Graph,
    *,
    index: int,
    count: int = 2,
    train: float = 0.6,
    val: float = 0.2,
    test: float = 0.2,
    unused: float = 0.0,
) -> Graph:
    """Return split 0 of `own_split` for choosing between methods without its test nodes.

    Training nodes stay. One half of the validation nodes is for early stopping; the other half takes the place of the
    test nodes. `index` 0 and 1 exchange the halves, which are stratified per class. The labels of the test nodes are
    removed, so that nothing can depend on them.
    """
    check_index(index, count)
    check_parameter("count", count, count == 2, expected="2, one per half", suggestion=2)
    part = own_split(graph, index=0, train=train, val=val, test=test, unused=unused).part.numpy().copy()
    labels = graph.labels.masked_fill(torch.from_numpy(part == Part.TEST), -1)
    nodes = np.random.default_rng(0x4A1F).permutation(np.flatnonzero(part == Part.VAL))
    if len(nodes) < MIN_VALIDATION:
        raise InputError(
            f"the split has {len(nodes)} validation nodes",
            expected=f"at least {MIN_VALIDATION}: one half for early stopping, the other half for comparing methods",
            hint="label more nodes" if graph.official_part is None else "mark more nodes as val in the split column",
        )
    if not bool(((graph.labels >= 0) & (labels < 0)).any()):
        raise InputError(
            "the split has no labelled test nodes",
            expected="at least one, on which the chosen method is evaluated",
            hint="mark some nodes as test in the split column",
        )
    nodes = nodes[np.argsort(labels.numpy()[nodes], kind="stable")]
    part[part == Part.TEST] = Part.NONE
    part[nodes[1 - index :: 2]] = Part.TEST
    return graph.replace(part=torch.from_numpy(part), labels=labels)


def check_index(index: int, count: int) -> None:
    """Raise an InputError if there is no split with this index."""
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
