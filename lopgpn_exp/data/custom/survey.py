"""What was read, in words, with warnings of what the models will have trouble with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.sparse.csgraph import connected_components

from lopgpn_exp.graph import Graph, Part, adjacency_matrix

FEW_LABELS = 10  # of a class: fewer leave a handful to train on and a handful to check with
LIKE_BLANKS = ("nan", "na", "none", "null", "unknown")
SPARSE = 0.5  # share of zeros from which non-negative features look like counts


def survey(graph: Graph, *, source: str, notes: Sequence[str] = ()) -> str:
    """A few lines to read before training."""
    found = Structure(graph)
    lines = [f"Read {source}", *(f"  {line}" for line in _counts(graph, found))]
    lines += [f"  note: {note}" for note in notes]
    lines += [f"  WARNING: {warning}" for warning in warnings_of(graph, found)]
    return "\n".join(lines)


class Structure:
    """What is asked of the edges more than once."""

    def __init__(self, graph: Graph) -> None:
        self.num_components, self.component = connected_components(adjacency_matrix(graph), directed=False)
        self.same, self.chance = homophily(graph)
        self.isolated = graph.num_nodes - len(np.unique(graph.edge_index[0].numpy()))


def _counts(graph: Graph, found: Structure) -> Iterator[str]:
    labels = graph.labels.numpy()
    known = labels >= 0
    yield (
        f"{graph.num_nodes:,} nodes, {graph.num_edges:,} undirected edges without loops and repetitions, "
        f"{graph.num_features:,} features"
    )
    counts = np.bincount(labels[known], minlength=graph.num_classes)
    largest = np.argsort(-counts, kind="stable")[:8].tolist()
    share = counts / known.sum()
    shown = ", ".join(f"{_name(graph, label)} {counts[label]:,} ({share[label]:.0%})" for label in largest)
    more = f" and {graph.num_classes - 8} more" if graph.num_classes > 8 else ""
    yield f"{graph.num_classes} classes: {shown}{more}; {(~known).sum():,} nodes without a label"
    if found.same is not None:
        yield f"{found.same:.0%} of edges join nodes of one class ({found.chance:.0%} by chance)"
    yield (
        f"{found.num_components:,} connected components, the largest of {np.bincount(found.component).max():,} nodes; "
        f"{found.isolated:,} isolated nodes"
    )
    if graph.official_part is not None:
        parts = graph.official_part.numpy()
        yield "its own split: " + ", ".join(f"{(parts == part).sum():,} {part.name.lower()}" for part in list(Part)[1:])


def warnings_of(graph: Graph, found: Structure | None = None) -> Iterator[str]:
    """What the models will have trouble with."""
    found = found or Structure(graph)
    labels = graph.labels.numpy()
    counts = np.bincount(labels[labels >= 0], minlength=graph.num_classes)
    if few := [label for label in range(graph.num_classes) if counts[label] < FEW_LABELS]:
        named = ", ".join(f"{_name(graph, label)} ({counts[label]})" for label in few[:5])
        yield f"{len(few)} classes have fewer than {FEW_LABELS} labelled nodes: {named}"
    if graph.official_part is not None:
        given = (graph.official_part.numpy() == Part.TRAIN) & (labels >= 0)
        trained = np.bincount(labels[given], minlength=graph.num_classes)
        if absent := [_name(graph, label) for label in range(graph.num_classes) if trained[label] == 0]:
            yield f"the split has no training node of {', '.join(absent[:5])}: a model can never predict it"
    if strange := [name for name in _names(graph) if name.lower() in LIKE_BLANKS]:
        yield f"a class is called {strange[0]!r}: if that means an unknown class, leave it blank"
    if graph.num_edges == 0:
        yield "no edge is left without loops: every node stands alone"
    if found.same is not None and found.same < max(0.5, found.chance):
        yield (
            f"neighbours are of one class on {found.same:.0%} of edges only; the models assume that they mostly are, "
            "and pooling neighbours' opinions may do more harm than good"
        )
    reached = np.zeros(found.num_components, dtype=bool)
    reached[found.component[labels >= 0]] = True
    if unreached := int((~reached[found.component]).sum()):
        yield (
            f"{unreached:,} nodes have no labelled node in their component: only their own features speak for them, "
            "and gkde and matern_ggp know nothing of them"
        )
    features = graph.features.numpy()
    if constant := int((features == features[:1]).all(axis=0).sum()):
        yield f"{constant:,} feature columns have one value only"
    legend = graph.legend
    if legend is not None and legend.scaling == "standard" and _looks_like_counts(graph):
        yield "the features look like counts or a bag of words: consider dataset.scaling=rows"


def _looks_like_counts(graph: Graph) -> bool:
    """Mostly zero and never negative before the columns were centred."""
    legend = graph.legend
    if legend is None or legend.shift is None or legend.scale is None:
        return False
    zero = (-legend.shift / legend.scale).astype(np.float32)
    features = graph.features.numpy()
    return bool((features >= zero - 1e-5).all()) and float((np.abs(features - zero) < 1e-5).mean()) > SPARSE


def homophily(graph: Graph) -> tuple[float | None, float]:
    """Share of the edges between labelled nodes that join one class (None without such edges), and that share if
    labels were drawn from their frequencies."""
    labels = graph.labels.numpy()
    source, target = labels[graph.edge_index.numpy()]
    both = (source >= 0) & (target >= 0)
    frequencies = np.bincount(labels[labels >= 0], minlength=1) / max(int((labels >= 0).sum()), 1)
    same = float((source == target)[both].mean()) if both.any() else None
    return same, float(np.square(frequencies).sum())


def _name(graph: Graph, label: int) -> str:
    return _names(graph)[label]


def _names(graph: Graph) -> list[str]:
    return list(map(str, range(graph.num_classes))) if graph.legend is None else list(graph.legend.classes)
