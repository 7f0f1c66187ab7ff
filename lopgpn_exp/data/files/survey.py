"""Describe a graph, and warn of properties that the models cannot handle well."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from lopgpn_exp.errors import printable
from lopgpn_exp.graph import Graph, Part, adjacency_matrix
from lopgpn_exp.graph.features import is_sparse, sum_rows, to_scipy

FEW_LABELS = 10  # per class
MAX_SHOWN = 60  # characters of a class name
# Words that often stand for a missing label, in lower case.
MISSING_LABELS = {
    *("-1", "-9", "-99", "-999", "-9999", "?", "??", "???", "-", "--", "---", ".", "..", "...", "_", "*", "#"),
    *("na", "n/a", "n.a.", "nan", "<na>", "#n/a", "nat", "none", "null", "nil", "unknown", "missing", "undefined"),
    *("unlabelled", "unlabeled", "no label", "not available", "unspecified"),
}
SIGN_CLASSES = {"-1", "1"}  # the usual labels of two classes


class Structure:
    """Properties of the edges that both the description and the warnings use."""

    def __init__(self, graph: Graph) -> None:
        self.num_components, self.component = connected_components(adjacency_matrix(graph), directed=False)
        self.homophily, self.expected_homophily = homophily(graph)
        self.num_isolated = graph.num_nodes - len(np.unique(graph.edge_index[0].numpy()))


def describe_graph(graph: Graph, *, source: str, notes: Sequence[str] = ()) -> str:
    """Return a description of a few lines: counts, notes and warnings."""
    structure = Structure(graph)
    lines = [f"Read {source}", *(f"  {line}" for line in _describe_counts(graph, structure))]
    if graph.legend is not None and graph.legend.scaling_note:
        lines.append(f"  {graph.legend.scaling_note}")
    lines += [f"  note: {note}" for note in notes]
    lines += [f"  WARNING: {warning}" for warning in find_warnings(graph, structure)]
    return printable("\n".join(lines))


def _describe_counts(graph: Graph, structure: Structure) -> Iterator[str]:
    labels = graph.labels.numpy()
    is_labelled = labels >= 0
    yield (
        f"{graph.num_nodes:,} nodes, {graph.num_edges:,} undirected edges (self-loops and duplicates removed), "
        f"{graph.num_features:,} features"
    )
    counts = np.bincount(labels[is_labelled], minlength=graph.num_classes)
    share = counts / is_labelled.sum()
    names = _list_class_names(graph)
    largest = np.argsort(-counts, kind="stable")[:8].tolist()
    shown = ", ".join(f"{names[label]} {counts[label]:,} ({share[label]:.0%})" for label in largest)
    more = f" and {graph.num_classes - 8} more" if graph.num_classes > 8 else ""
    yield f"{graph.num_classes} classes: {shown}{more}; {(~is_labelled).sum():,} nodes without a label"
    if structure.homophily is not None:
        yield (
            f"{structure.homophily:.0%} of edges join nodes of the same class "
            f"({structure.expected_homophily:.0%} by chance)"
        )
    yield (
        f"{structure.num_components:,} connected components, the largest with "
        f"{np.bincount(structure.component).max():,} nodes; {structure.num_isolated:,} isolated nodes"
    )
    if graph.official_part is not None:
        parts = graph.official_part.numpy()
        sizes = ", ".join(f"{(parts == part).sum():,} {part.name.lower()}" for part in list(Part)[1:])
        yield f"split provided with the data: {sizes}"


def find_warnings(graph: Graph, structure: Structure | None = None) -> Iterator[str]:
    """Yield a warning for each property of the graph that the models cannot handle well."""
    structure = structure or Structure(graph)
    yield from _label_warnings(graph)
    yield from _edge_warnings(graph, structure)
    yield from _feature_warnings(graph)


def _label_warnings(graph: Graph) -> Iterator[str]:
    labels, names = graph.labels.numpy(), _list_class_names(graph)
    counts = np.bincount(labels[labels >= 0], minlength=graph.num_classes)
    if rare := [label for label in range(graph.num_classes) if counts[label] < FEW_LABELS]:
        shown = ", ".join(f"{names[label]} ({counts[label]})" for label in rare[:5])
        yield f"{len(rare)} classes have fewer than {FEW_LABELS} labelled nodes: {shown}"
    if graph.official_part is not None:
        is_training = (graph.official_part.numpy() == Part.TRAIN) & (labels >= 0)
        num_training = np.bincount(labels[is_training], minlength=graph.num_classes)
        if absent := [names[label] for label in range(graph.num_classes) if num_training[label] == 0]:
            yield f"classes without a training node, which can never be predicted: {', '.join(absent[:5])}"
    unlabelled = "-1" if graph.legend is None else graph.legend.unlabelled
    for label, name in enumerate(names):
        if name.lower() in MISSING_LABELS and set(names) != SIGN_CLASSES:
            yield (
                f"{counts[label]:,} nodes have the label {name!r}, which is a class like any other. Does it mean that "
                f"their class is unknown? If so, mark them as unlabelled ({unlabelled} instead of {name!r})"
            )


def _edge_warnings(graph: Graph, structure: Structure) -> Iterator[str]:
    if graph.num_edges == 0:
        yield "there are no edges apart from self-loops: every node is isolated"
    if structure.homophily is not None and structure.homophily < max(0.5, structure.expected_homophily):
        yield (
            f"only {structure.homophily:.0%} of edges join nodes of the same class; the models assume that most do, "
            "and pooling over neighbours may do more harm than good"
        )
    has_labels = np.zeros(structure.num_components, dtype=bool)
    has_labels[structure.component[graph.labels.numpy() >= 0]] = True
    if num_unreached := int((~has_labels[structure.component]).sum()):
        yield (
            f"{num_unreached:,} nodes have no labelled node in their connected component: only their own features "
            "determine the prediction, and gkde and matern_ggp have no information about them"
        )


def _feature_warnings(graph: Graph) -> Iterator[str]:
    if num_constant := _count_constant_columns(graph.features):
        yield f"{num_constant:,} feature columns are constant"
    if graph.legend is not None and graph.legend.scaling == "rows":
        num_zero = int((sum_rows(graph.features) == 0).sum())
        if num_zero:
            yield f"{num_zero:,} nodes have only zeros as features, which cannot be scaled to sum 1 and stay zero"


def _count_constant_columns(features: Tensor) -> int:
    if is_sparse(features):
        matrix = to_scipy(features)
        return int((matrix.min(axis=0).toarray() == matrix.max(axis=0).toarray()).sum())
    return int((features.amin(dim=0) == features.amax(dim=0)).sum())


def homophily(graph: Graph) -> tuple[float | None, float]:
    """Return the share of edges between labelled nodes that join the same class, and its expectation by chance.

    The share is None if there is no such edge; by chance means labels drawn independently from their frequencies.
    """
    labels = graph.labels.numpy()
    source, target = labels[graph.edge_index.numpy()]
    are_labelled = (source >= 0) & (target >= 0)
    frequencies = np.bincount(labels[labels >= 0], minlength=1) / max(int((labels >= 0).sum()), 1)
    share = float((source == target)[are_labelled].mean()) if are_labelled.any() else None
    return share, float(np.square(frequencies).sum())


def _list_class_names(graph: Graph) -> list[str]:
    """Return the names of the classes, each on one line and of moderate length."""
    names = map(str, range(graph.num_classes)) if graph.legend is None else graph.legend.classes
    lines = (" ".join(name.split()) for name in names)
    return [line if len(line) <= MAX_SHOWN else f"{line[:MAX_SHOWN]}..." for line in lines]
