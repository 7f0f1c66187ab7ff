"""Scenarios that change the features of some nodes. Edges, labels and the split stay as they are."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from lopgpn_exp.data.splits import draw_published_split
from lopgpn_exp.errors import InputError, check_in_range, check_parameter
from lopgpn_exp.graph import Graph, Part
from lopgpn_exp.graph.features import replace_rows, select_rows
from lopgpn_exp.seeds import PUBLISHED_SEED


def bernoulli(graph: Graph, *, fraction: float = 0.1, published_split: int | None = None, seed: int) -> Graph:
    """Replace the features of some nodes by a Bernoulli(0.5) vector normalised to sum 1.

    Args:
        published_split: index of the graph's published split, to change the nodes that the public code changes, with
            its features.

    Deviation: the paper describes dropped features (`feature_dropout`); its public code replaces them.
    """
    if published_split is not None:
        return _perturb_as_published(graph, fraction, published_split, _draw_published_bits)

    def draw(features: Tensor, generator: torch.Generator) -> Tensor:
        return _normalise(torch.bernoulli(torch.full(features.shape, 0.5), generator=generator))

    return _perturb(graph, fraction, seed, draw)


def gaussian(graph: Graph, *, fraction: float = 0.1, published_split: int | None = None, seed: int) -> Graph:
    """Replace the features of some nodes by an unnormalised N(0, I) vector.

    Args:
        published_split: index of the graph's published split, to change the nodes that the public code changes, with
            its features.

    Deviation: the paper describes added noise (`feature_noise`); its public code replaces the features.
    """
    if published_split is not None:
        return _perturb_as_published(graph, fraction, published_split, draw_normal)
    return _perturb(graph, fraction, seed, draw_normal)


def near_features(graph: Graph, *, fraction: float = 0.1, seed: int) -> Graph:
    """Replace the features of some nodes by Bernoulli vectors with the frequencies of the training nodes.

    Feature j is present with the share of training nodes in which it is not zero. If the rows of the training nodes sum
    to 1, so do the new ones; otherwise a feature that is present has its mean among the training nodes that have it.
    Each feature alone looks like that of a training node, but their combination does not.
    """
    training = select_rows(graph.features, graph.part == Part.TRAIN).to_dense()
    if len(training) == 0:
        raise InputError(
            "the split has no training nodes",
            expected="at least one, since the new features have their frequencies",
            parameter="split",
            suggestion="random",
        )
    if (training < 0).any():
        raise InputError(
            "the features have negative values",
            expected="features that are present or absent, such as words",
            parameter="ood",
            suggestion="feature_noise",
        )
    present = (training > 0).float()
    sums = training.sum(dim=1)
    has_unit_rows = bool(((sums - 1).abs() < 1e-4)[sums > 0].all())
    values = training.sum(dim=0) / present.sum(dim=0).clamp(min=1)

    def draw(features: Tensor, generator: torch.Generator) -> Tensor:
        bits = torch.bernoulli(present.mean(dim=0).expand(features.shape), generator=generator)
        return _normalise(bits) if has_unit_rows else bits * values

    return _perturb(graph, fraction, seed, draw)


def feature_dropout(graph: Graph, *, fraction: float = 0.1, probability: float = 0.5, seed: int) -> Graph:
    """Set each feature of some nodes to zero with `probability`. Paper: Sec. 5.3, as its text describes it."""
    check_parameter("probability", probability, 0 <= probability <= 1, expected="from 0 to 1", suggestion=0.5)

    def drop(features: Tensor, generator: torch.Generator) -> Tensor:
        return features * torch.bernoulli(torch.full(features.shape, 1 - probability), generator=generator)

    return _perturb(graph, fraction, seed, drop)


def feature_noise(graph: Graph, *, fraction: float = 0.1, scale: float = 1.0, seed: int) -> Graph:
    """Add Gaussian noise to the features of some nodes. Paper: Sec. 5.3, as its text describes it."""
    check_in_range("scale", scale, low=0, high=1e6, suggestion=1.0)
    return _perturb(graph, fraction, seed, lambda x, generator: x + scale * draw_normal(x, generator))


def draw_normal(features: Tensor, generator: torch.Generator) -> Tensor:
    """Return standard normal features in the shape of others."""
    return torch.randn(features.shape, generator=generator)


def _draw_published_bits(features: Tensor, generator: torch.Generator) -> Tensor:
    return _normalise(features.bernoulli(0.5, generator=generator))  # gives other bits than `torch.bernoulli`


def _normalise(bits: Tensor) -> Tensor:
    return bits / bits.sum(dim=1, keepdim=True).clamp(min=1)


def _perturb(graph: Graph, fraction: float, seed: int, change: Callable[[Tensor, torch.Generator], Tensor]) -> Graph:
    """Change the features of `fraction` of the nodes in each part of the split, training nodes included."""
    _check_fraction(fraction)
    rng = np.random.default_rng(seed)
    is_ood = torch.zeros(graph.num_nodes, dtype=torch.bool)
    for part in (Part.TRAIN, Part.VAL, Part.TEST):
        nodes = graph.nodes(part).numpy()
        is_ood[torch.from_numpy(rng.permutation(nodes)[: round(fraction * len(nodes))])] = True
    generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
    rows = change(select_rows(graph.features, is_ood).to_dense(), generator)
    features = replace_rows(graph.features, is_ood, rows)
    return graph.replace(features=features, is_ood=is_ood)


def _perturb_as_published(
    graph: Graph, fraction: float, split: int, draw: Callable[[Tensor, torch.Generator], Tensor]
) -> Graph:
    """Change the nodes that the public code changes, with the features that it draws, on a published split.

    The generator that drew the split goes on to draw nodes of each part, including unused nodes; a second one draws
    the features, in the order of the nodes. The number of nodes is rounded down.
    """
    _check_fraction(fraction)
    part, rng = draw_published_split(graph, split)
    if not torch.equal(part, graph.part):
        raise InputError(
            f"published_split is {split}, but the graph has another split",
            expected="the published split with this index",
            parameter="published_split",
            suggestion="null",
        )
    parts = [graph.nodes(value).numpy() for value in (Part.VAL, Part.TEST, Part.NONE, Part.TRAIN)]
    nodes = np.concatenate([rng.choice(part, int(fraction * len(part)), replace=False) for part in parts])
    is_ood = torch.zeros(graph.num_nodes, dtype=torch.bool)
    is_ood[torch.from_numpy(nodes)] = True
    generator = torch.Generator().manual_seed(PUBLISHED_SEED)
    rows = draw(torch.zeros(len(nodes), graph.num_features), generator)
    features = replace_rows(graph.features, is_ood, rows[torch.from_numpy(np.argsort(nodes))])
    return graph.replace(features=features, is_ood=is_ood)


def _check_fraction(fraction: float) -> None:
    check_parameter("fraction", fraction, 0 < fraction < 1, expected="between 0 and 1", suggestion=0.1)
