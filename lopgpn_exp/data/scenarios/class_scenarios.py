"""Scenarios with classes that no training node has."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Graph, Part


def leave_out_classes(
    graph: Graph, *, left_out_classes: int | None = None, classes: Sequence[int] | None = None, seed: int = 0
) -> Graph:
    """Leave classes out of training and validation; their nodes stay in the graph and become OOD.

    `num_classes` becomes the number of kept classes. Kept classes are renumbered from 0, left-out classes after them,
    both in their order. `seed` is not used, but every scenario is called with one.

    Args:
        left_out_classes: how many of the last classes to leave out, unless `classes` says which.
        classes: the classes to leave out, any set of them.
    """
    if graph.num_classes < 3:
        raise InputError(
            f"the graph has {graph.num_classes} classes, and none of them can be left out",
            expected="at least 3, since a model needs two of them",
            parameter="ood",
            suggestion="none",
        )
    chosen = _choose_last(graph, left_out_classes) if classes is None else _check_classes(graph, classes)
    kept = [label for label in range(graph.num_classes) if label not in chosen]
    order = [*kept, *sorted(chosen)]
    number = torch.empty(graph.num_classes, dtype=torch.int64)
    number[torch.tensor(order)] = torch.arange(graph.num_classes)
    labels = torch.where(graph.labels >= 0, number[graph.labels.clamp(min=0)], graph.labels)
    is_ood = labels >= len(kept)
    is_fitted = (graph.part == Part.TRAIN) | (graph.part == Part.VAL)
    part = graph.part.masked_fill(is_ood & is_fitted, Part.NONE)
    if (graph.part == Part.TRAIN).any() and not (part == Part.TRAIN).any():
        raise InputError(
            "no training node is left: all of them have left-out classes",
            expected="training nodes of the other classes too: another split, or other classes",
            parameter="classes",
            suggestion=[graph.num_classes - 1],
        )
    legend = graph.legend and replace(graph.legend, classes=tuple(graph.legend.classes[label] for label in order))
    return graph.replace(labels=labels, num_classes=len(kept), part=part, is_ood=is_ood, legend=legend)


def _choose_last(graph: Graph, count: int | None) -> set[int]:
    if count is None or count < 1 or graph.num_classes - count < 2:
        raise InputError(
            f"left_out_classes is {count} for a graph with {graph.num_classes} classes",
            expected="at least 1 class left out and at least 2 kept",
            parameter="left_out_classes",
            suggestion=1,
        )
    return set(range(graph.num_classes - count, graph.num_classes))


def _check_classes(graph: Graph, classes: Sequence[int]) -> set[int]:
    chosen = set(classes)
    unknown = sorted(chosen - set(range(graph.num_classes)))
    if unknown or not chosen or graph.num_classes - len(chosen) < 2:
        problem = f"class {unknown[0]} does not exist" if unknown else f"classes is {sorted(chosen)}"
        raise InputError(
            f"{problem}: the graph has {graph.num_classes} classes",
            expected=f"numbers from 0 to {graph.num_classes - 1}; at least 1 class left out and at least 2 kept",
            parameter="classes",
            suggestion=[graph.num_classes - 1],
        )
    return chosen
