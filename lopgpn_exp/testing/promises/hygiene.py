"""What a model must not look at, or touch."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from lopgpn_exp.graph import Graph, Part
from lopgpn_exp.models import ClosedFormModel
from lopgpn_exp.testing.promises.promise import promise
from lopgpn_exp.testing.trial import Trial, same_bits, same_model


@promise(
    "of labels it sees those of training nodes alone, and these only to be fitted",
    look_at="graph.labels in prepare, forward or fit_nodes: observe and node_loss, or `labels`, bring what may be seen",
    needs=("same_seed",),
)
def labels(trial: Trial) -> Iterator[str]:
    """Wrong labels where they must not be read change no bit.

    Validation labels decide when to stop: where they are wrong too, there is one validation, at the end.
    """
    graph, epochs = trial.graph, trial.terms.epochs
    hidden = poisoned(graph, (graph.part != Part.TRAIN) & (graph.part != Part.VAL))
    if not same_model(trial.fitted, trial.fit(hidden), graph):
        yield "labels outside of training and validation change what is learned"
    validated = poisoned(graph, graph.part == Part.VAL)
    stopped_alike = trial.fitted if trial.is_closed_form else trial.fit(validate_every=epochs)
    if not same_model(stopped_alike, trial.fit(validated, validate_every=epochs), graph):
        yield "labels of validation nodes are learned from"
    everywhere = poisoned(graph, torch.ones_like(graph.is_ood))
    if not same_bits(trial.fitted.predict(everywhere).mean, trial.posterior.mean):
        yield "predictions change with the labels of the graph that is predicted"


def poisoned(graph: Graph, where: Tensor) -> Graph:
    """Each of these nodes gets a label that it has not; the frequencies of labels change too."""
    wrong = torch.where(graph.labels == 1, 2 if graph.num_classes > 2 else 0, 1)
    return graph.replace(labels=torch.where(where, wrong, graph.labels))


@promise(
    "which nodes are out-of-distribution is not looked at",
    look_at="graph.is_ood: it is for the evaluation alone",
    needs=("same_seed",),
)
def ood_marks(trial: Trial) -> Iterator[str]:
    marked = trial.graph.replace(is_ood=torch.arange(trial.graph.num_nodes) % 3 == 0)
    if not same_model(trial.fitted, trial.fit(marked), trial.graph):
        yield "marks of nodes change what is learned"
    if not same_bits(trial.fitted.predict(marked).mean, trial.posterior.mean):
        yield "marks of nodes change predictions"


@promise(
    "features are not looked at",
    look_at="graph.features in fit_nodes: predict would not see those that a scenario changed; take a GradientModel",
    needs=("same_seed",),
    of=ClosedFormModel,
)
def features(trial: Trial) -> Iterator[str]:
    other = trial.graph.replace(features=trial.graph.features.flip(0) + 1)
    if not same_model(trial.fitted, trial.fit(other), trial.graph):
        yield "other features give another fit"


@promise(
    "the graph is left as it was",
    look_at="operations in place, their names ending in _, on graph.features and the like: clone first",
    needs=("fits",),
)
def graph_untouched(trial: Trial) -> Iterator[str]:
    for name in trial.watched.changed:
        yield f"graph.{name} has changed"
