"""Checks of construction, training and checkpoints."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import torch

from lopgpn_exp.graph import Part
from lopgpn_exp.models import GradientModel, Model
from lopgpn_exp.seeds import seeded
from lopgpn_exp.testing.check_types import check
from lopgpn_exp.testing.model_under_test import ModelUnderTest, same_model


@check(
    "the constructor takes keyword arguments, and any number of features and classes",
    advice="__init__: num_features and num_classes must be keywords, and the options valid for 1 feature and 2 classes",
    requires=(),
)
def check_construction(subject: ModelUnderTest) -> Iterator[str]:
    """Also build the smallest model, which is how the options of a config are validated."""
    for dims in ({"num_features": 1, "num_classes": 2}, {}):
        model = subject.build(**dims)
        if not isinstance(model, Model):
            yield f"the constructor returned a {type(model).__name__}"


@check(
    "the model can be fitted",
    advice="the line named above; lopgpn_exp.training.fit with the same options shows the whole traceback",
    requires=("construction",),
)
def check_fit(subject: ModelUnderTest) -> Iterator[str]:
    """Fit the model, which raises an error if anything fails or a loss is not finite."""
    assert subject.model
    yield from ()


@check(
    "the loss of a node is one finite number that depends on no other node's label",
    advice="node_loss: return shape (nodes,), without a mean or sum over nodes, which loss_reduction selects",
    applies_to=GradientModel,
)
def check_node_loss(subject: ModelUnderTest) -> Iterator[str]:
    model, nodes = subject.model, subject.graph.nodes(Part.TRAIN)
    assert isinstance(model, GradientModel)
    labels = subject.graph.labels[nodes]
    posterior = model(model.prepare(subject.graph, nodes=nodes))
    losses = model.node_loss(posterior, labels)
    if losses.shape != labels.shape:
        yield f"{len(labels)} nodes have losses of shape {tuple(losses.shape)}"
        return
    if not bool(torch.isfinite(losses).all()):
        yield f"the loss of node {int(nodes[~torch.isfinite(losses)][0])} is not finite"
    if not losses.requires_grad:
        yield "the losses have no gradient"
    first_changed = labels.clone()
    first_changed[0] = (first_changed[0] + 1) % subject.graph.num_classes
    affected = torch.nonzero(model.node_loss(posterior, first_changed) != losses).flatten()
    others = nodes[affected[affected != 0]]
    if len(others):
        yield f"the label of node {int(nodes[0])} changes the loss of node {int(others[0])}"


@check(
    "the same seed gives identical results",
    advice="draws from numpy or random, iteration over sets, state kept between trainings",
)
def check_same_seed(subject: ModelUnderTest) -> Iterator[str]:
    """Fit again with the same seed but with other states of the global generators."""
    with seeded(1):
        np.random.seed(1)  # noqa: NPY002  (models must not depend on this generator)
        random.seed(1)
        repeated = subject.fit()
    if not same_model(subject.model, repeated, subject.graph):
        yield "two trainings with the same seed differ"


@check(
    "a different seed gives different results",
    advice="a seed that is set in the model; if nothing in it is random, skip this check",
    applies_to=GradientModel,
)
def check_different_seed(subject: ModelUnderTest) -> Iterator[str]:
    if same_model(subject.model, subject.fit(seed=2), subject.graph):
        yield "trainings with seeds 0 and 2 are identical"


@check(
    "global random states are not changed",
    advice="np.random.* and torch.manual_seed: use a torch.Generator or np.random.default_rng(seed) instead",
    requires=("fit",),
)
def check_random_state(subject: ModelUnderTest) -> Iterator[str]:
    """Training may use the generator of torch, which is seeded before and restored afterwards."""
    for step, libraries in subject.first_fit.changed_random_states.items():
        if libraries:
            yield f"{step} changes the global random state of {' and '.join(libraries)}"


@check(
    "state_dict and checkpoint contain the complete model",
    advice="attributes set in observe or fit_nodes: use register_buffer, or return the values from fit_nodes",
)
def check_checkpoint(subject: ModelUnderTest) -> Iterator[str]:
    copy = subject.build(seed=3)
    copy.load_state_dict(subject.model.state_dict())
    if not same_model(subject.model, copy, subject.graph):
        yield "a new model with the same state_dict predicts something else"
    loaded = subject.load_checkpoint()
    if type(loaded) is not type(subject.model):
        yield f"the checkpoint loads as a {type(loaded).__name__}"
    elif not same_model(subject.model, loaded, subject.graph):
        yield "the model from the checkpoint predicts something else"


@check(
    "the model learns",
    advice="node_loss and the optimizer options; the requirement is CheckSettings(learning_epochs=..., accuracy=...)",
    requires=("posterior",),
)
def check_learning(subject: ModelUnderTest) -> Iterator[str]:
    settings = subject.settings
    test = subject.graph.nodes(Part.TEST)
    model = subject.model if subject.is_closed_form else subject.fit(epochs=settings.learning_epochs)
    predicted = model.predict(subject.graph).mean.argmax(dim=1)
    accuracy = (predicted == subject.graph.labels)[test].double().mean().item()
    if accuracy <= settings.accuracy:
        yield (
            f"test accuracy is {accuracy:.3f} after {settings.learning_epochs} epochs, "
            f"but more than {settings.accuracy} is required"
        )
