"""Out-of-distribution scenarios: pure functions from a graph with a split to a graph with `is_ood` set."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Graph, Part


def leave_out_classes(graph: Graph, *, left_out_classes: int, seed: int = 0) -> Graph:
    """The last classes are unknown to the model: their nodes stay, with features, but neither train nor validate.

    `num_classes` shrinks to the kept classes. ID are the test nodes of these, OOD the test nodes of the left-out ones.
    Nothing here is random; `seed` is part of every scenario's call.
    """
    kept = graph.num_classes - left_out_classes
    if left_out_classes < 1 or kept < 2:
        raise InputError(
            f"{left_out_classes} of {graph.num_classes} classes are to be left out",
            expected="at least 1 left out and at least 2 kept",
            hint="dataset.left_out_classes=1",
        )
    is_ood = graph.labels >= kept
    trained_on = (graph.part == Part.TRAIN) | (graph.part == Part.VAL)
    part = graph.part.masked_fill(is_ood & trained_on, Part.NONE)
    return graph.replace(num_classes=kept, part=part, is_ood=is_ood)


def bernoulli(graph: Graph, *, fraction: float = 0.1, seed: int) -> Graph:
    """Features of some nodes become a Bernoulli(0.5) vector normalised to sum 1.

    Deviation: the paper words this as dropped features (`feature_dropout`); its public code replaces them.
    """

    def draw(features: Tensor, generator: torch.Generator) -> Tensor:
        coins = torch.bernoulli(torch.full(features.shape, 0.5), generator=generator)
        return coins / coins.sum(dim=1, keepdim=True).clamp(min=1)

    return _perturb(graph, fraction, seed, draw)


def gaussian(graph: Graph, *, fraction: float = 0.1, seed: int) -> Graph:
    """Features of some nodes become an unnormalised N(0, I) vector.

    Deviation: the paper words this as added noise (`feature_noise`); its public code replaces the features.
    """
    return _perturb(graph, fraction, seed, lambda x, generator: torch.randn(x.shape, generator=generator))


def feature_dropout(graph: Graph, *, fraction: float = 0.1, probability: float = 0.5, seed: int) -> Graph:
    """Each feature of some nodes is set to zero with `probability`. Paper: Sec. 5.3, as worded there."""
    if not 0 <= probability <= 1:
        raise InputError(f"ood.probability is {probability}", expected="from 0 to 1", hint="ood.probability=0.5")

    def drop(features: Tensor, generator: torch.Generator) -> Tensor:
        return features * torch.bernoulli(torch.full(features.shape, 1 - probability), generator=generator)

    return _perturb(graph, fraction, seed, drop)


def feature_noise(graph: Graph, *, fraction: float = 0.1, scale: float = 1.0, seed: int) -> Graph:
    """Gaussian noise is added to the features of some nodes. Paper: Sec. 5.3, as worded there."""
    return _perturb(graph, fraction, seed, lambda x, generator: x + scale * torch.randn(x.shape, generator=generator))


def _perturb(graph: Graph, fraction: float, seed: int, change: Callable[[Tensor, torch.Generator], Tensor]) -> Graph:
    """Change `fraction` of the nodes of each part of the split, training nodes included."""
    if not 0 < fraction < 1:
        raise InputError(f"ood.fraction is {fraction}", expected="between 0 and 1", hint="ood.fraction=0.1")
    rng = np.random.default_rng(seed)
    is_ood = torch.zeros(graph.num_nodes, dtype=torch.bool)
    for part in (Part.TRAIN, Part.VAL, Part.TEST):
        nodes = graph.nodes(part).numpy()
        is_ood[torch.from_numpy(rng.permutation(nodes)[: round(fraction * len(nodes))])] = True
    generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
    features = graph.features.clone()
    features[is_ood] = change(graph.features[is_ood], generator)
    return graph.replace(features=features, is_ood=is_ood)
