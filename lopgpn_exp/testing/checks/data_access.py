"""Checks of what a model reads and modifies."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from lopgpn_exp.graph import Graph, Part
from lopgpn_exp.models import ClosedFormModel, CompositeModel
from lopgpn_exp.testing.check_types import check
from lopgpn_exp.testing.model_under_test import ModelUnderTest, same_bits, same_model


@check(
    "only training labels are read, and only for fitting",
    advice="graph.labels in prepare, forward or fit_nodes: use the labels passed to observe, node_loss or fit_nodes",
    requires=("same_seed",),
)
def check_label_access(subject: ModelUnderTest) -> Iterator[str]:
    """Replace labels that must not be read by wrong ones: no bit may change.

    Validation labels decide when training stops. While they are wrong, the only validation is after the last epoch. A
    composite model may use them as well, since its post-hoc steps are fitted to validation nodes.
    """
    graph, epochs = subject.graph, subject.settings.epochs
    wrong_test = replace_labels(graph, (graph.part != Part.TRAIN) & (graph.part != Part.VAL))
    if not same_model(subject.model, subject.fit(wrong_test), graph):
        yield "labels outside of training and validation change the fitted model"
    wrong_val = replace_labels(graph, graph.part == Part.VAL)
    reference = subject.model if subject.is_closed_form else subject.fit(validate_every=epochs)
    may_use_validation = issubclass(subject.type, CompositeModel)
    if not may_use_validation and not same_model(reference, subject.fit(wrong_val, validate_every=epochs), graph):
        yield "labels of validation nodes change the fitted model"
    all_wrong = replace_labels(graph, torch.ones_like(graph.is_ood))
    if not same_bits(subject.model.predict(all_wrong).mean, subject.posterior.mean):
        yield "predictions change with the labels of the graph"


def replace_labels(graph: Graph, mask: Tensor) -> Graph:
    """Return the graph with wrong labels at the masked nodes; the class frequencies change too."""
    wrong = torch.where(graph.labels == 1, 2 if graph.num_classes > 2 else 0, 1)
    return graph.replace(labels=torch.where(mask, wrong, graph.labels))


@check(
    "marks of out-of-distribution nodes are not read",
    advice="graph.is_ood, which is only for the evaluation",
    requires=("same_seed",),
)
def check_ood_access(subject: ModelUnderTest) -> Iterator[str]:
    marked = subject.graph.replace(is_ood=torch.arange(subject.graph.num_nodes) % 3 == 0)
    if not same_model(subject.model, subject.fit(marked), subject.graph):
        yield "is_ood changes the fitted model"
    if not same_bits(subject.model.predict(marked).mean, subject.posterior.mean):
        yield "is_ood changes predictions"


@check(
    "features are not read",
    advice="graph.features in fit_nodes: predict would ignore features changed by a scenario; use a GradientModel",
    requires=("same_seed",),
    applies_to=ClosedFormModel,
)
def check_feature_access(subject: ModelUnderTest) -> Iterator[str]:
    changed = subject.graph.replace(features=subject.graph.features.to_dense().flip(0) + 1)
    if not same_model(subject.model, subject.fit(changed), subject.graph):
        yield "features change the fitted model"


@check(
    "the graph is not modified",
    advice="in-place operations (with a trailing underscore) on graph.features and other tensors: clone them first",
    requires=("fit",),
)
def check_graph_unchanged(subject: ModelUnderTest) -> Iterator[str]:
    for name in subject.first_fit.changed_tensors:
        yield f"graph.{name} has changed"
