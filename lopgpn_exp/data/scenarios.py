"""Out-of-distribution scenarios: pure functions from a graph with a split to a graph with `is_ood` set."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from lopgpn_exp.errors import InputError, check_in_range, check_parameter
from lopgpn_exp.graph import Graph, Part
from lopgpn_exp.graph.features import replace_rows, select_rows


def leave_out_classes(graph: Graph, *, left_out_classes: int, seed: int = 0) -> Graph:
    """Leave the last classes out of training and validation; their nodes stay in the graph and become OOD.

    `num_classes` becomes the number of kept classes. `seed` is not used, but every scenario is called with one.
    """
    num_kept = graph.num_classes - left_out_classes
    if left_out_classes < 1 or num_kept < 2:
        raise InputError(
            f"left_out_classes is {left_out_classes} for a graph with {graph.num_classes} classes",
            expected="at least 1 class left out and at least 2 kept",
            parameter="left_out_classes",
            suggestion=1,
        )
    is_ood = graph.labels >= num_kept
    is_fitted = (graph.part == Part.TRAIN) | (graph.part == Part.VAL)
    part = graph.part.masked_fill(is_ood & is_fitted, Part.NONE)
    return graph.replace(num_classes=num_kept, part=part, is_ood=is_ood)


def bernoulli(graph: Graph, *, fraction: float = 0.1, seed: int) -> Graph:
    """Replace the features of some nodes by a Bernoulli(0.5) vector normalised to sum 1.

    Deviation: the paper describes dropped features (`feature_dropout`); its public code replaces them.
    """

    def draw(features: Tensor, generator: torch.Generator) -> Tensor:
        bits = torch.bernoulli(torch.full(features.shape, 0.5), generator=generator)
        return bits / bits.sum(dim=1, keepdim=True).clamp(min=1)

    return _perturb(graph, fraction, seed, draw)


def gaussian(graph: Graph, *, fraction: float = 0.1, seed: int) -> Graph:
    """Replace the features of some nodes by an unnormalised N(0, I) vector.

    Deviation: the paper describes added noise (`feature_noise`); its public code replaces the features.
    """
    return _perturb(graph, fraction, seed, lambda x, generator: torch.randn(x.shape, generator=generator))


def feature_dropout(graph: Graph, *, fraction: float = 0.1, probability: float = 0.5, seed: int) -> Graph:
    """Set each feature of some nodes to zero with `probability`. Paper: Sec. 5.3, as its text describes it."""
    check_parameter("probability", probability, 0 <= probability <= 1, expected="from 0 to 1", suggestion=0.5)

    def drop(features: Tensor, generator: torch.Generator) -> Tensor:
        return features * torch.bernoulli(torch.full(features.shape, 1 - probability), generator=generator)

    return _perturb(graph, fraction, seed, drop)


def feature_noise(graph: Graph, *, fraction: float = 0.1, scale: float = 1.0, seed: int) -> Graph:
    """Add Gaussian noise to the features of some nodes. Paper: Sec. 5.3, as its text describes it."""
    check_in_range("scale", scale, low=0, high=1e6, suggestion=1.0)
    return _perturb(graph, fraction, seed, lambda x, generator: x + scale * torch.randn(x.shape, generator=generator))


def _perturb(graph: Graph, fraction: float, seed: int, change: Callable[[Tensor, torch.Generator], Tensor]) -> Graph:
    """Change the features of `fraction` of the nodes in each part of the split, training nodes included."""
    check_parameter("fraction", fraction, 0 < fraction < 1, expected="between 0 and 1", suggestion=0.1)
    rng = np.random.default_rng(seed)
    is_ood = torch.zeros(graph.num_nodes, dtype=torch.bool)
    for part in (Part.TRAIN, Part.VAL, Part.TEST):
        nodes = graph.nodes(part).numpy()
        is_ood[torch.from_numpy(rng.permutation(nodes)[: round(fraction * len(nodes))])] = True
    generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
    rows = change(select_rows(graph.features, is_ood).to_dense(), generator)
    features = replace_rows(graph.features, is_ood, rows)
    return graph.replace(features=features, is_ood=is_ood)
