"""How a model comes to its parameters, and keeps them."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import torch

from lopgpn_exp.graph import Part
from lopgpn_exp.models import GradientModel, Model
from lopgpn_exp.models.seeding import seeded
from lopgpn_exp.testing.promises.promise import promise
from lopgpn_exp.testing.trial import Trial, same_bits, same_model


@promise(
    "it is built from keyword arguments, for any numbers of features and classes",
    look_at="__init__: num_features and num_classes are keywords, and options hold for 1 feature and 2 classes too",
    needs=(),
)
def construction(trial: Trial) -> Iterator[str]:
    """A config is checked by building the smallest model there is."""
    for dims in ({"num_features": 1, "num_classes": 2}, {}):
        built = trial.build(**dims)
        if not isinstance(built, Model):
            yield f"the constructor gave a {type(built).__name__}"


@promise(
    "it can be fitted",
    look_at="the line named above; lopgpn_exp.training.fit with the same options gives the whole traceback",
    needs=("construction",),
)
def fits(trial: Trial) -> Iterator[str]:
    """An exception or a loss that is not finite is seen by whoever calls this."""
    assert trial.fitted
    yield from ()


@promise(
    "predicting twice gives the same bits",
    look_at="predict and forward: dropout that stays on in evaluation mode, draws, state that a prediction changes",
    needs=("posterior",),
)
def repeats(trial: Trial) -> Iterator[str]:
    first, second = (trial.fitted.predict(trial.graph).mean for _ in range(2))
    if not same_bits(first, second):
        yield f"means of the same graph differ by up to {(first - second).abs().max():.2g}"


@promise(
    "the loss of a node is one finite number, which depends on no other node's label",
    look_at="node_loss: no mean or sum over nodes, which the training takes (loss_reduction); shape (nodes,)",
    of=GradientModel,
)
def loss(trial: Trial) -> Iterator[str]:
    model, nodes = trial.fitted, trial.graph.nodes(Part.TRAIN)
    assert isinstance(model, GradientModel)
    labels = trial.graph.labels[nodes]
    posterior = model(model.prepare(trial.graph, nodes=nodes))
    losses = model.node_loss(posterior, labels)
    if losses.shape != labels.shape:
        yield f"{len(labels)} nodes have losses of shape {tuple(losses.shape)}"
        return
    if not bool(torch.isfinite(losses).all()):
        yield f"the loss of node {int(nodes[~torch.isfinite(losses)][0])} is not finite"
    if not losses.requires_grad:
        yield "no gradient leads from the losses to the parameters"
    other = labels.clone()
    other[0] = (other[0] + 1) % trial.graph.num_classes
    changed = torch.nonzero(model.node_loss(posterior, other) != losses).flatten()
    if bool((changed != 0).any()):
        yield f"another label of node {int(nodes[0])} changes the loss of node {int(nodes[changed[changed != 0][0]])}"


@promise(
    "the same seed gives the same bits",
    look_at="draws from numpy or random, sets and dicts whose order differs, what is kept between trainings",
)
def same_seed(trial: Trial) -> Iterator[str]:
    """The seed alone: the global generators are somewhere else the second time."""
    with seeded(1):
        np.random.seed(1)  # noqa: NPY002  (the very generator that is not to be used)
        random.seed(1)
        again = trial.fit()
    if not same_model(trial.fitted, again, trial.graph):
        yield "two trainings with one seed differ"


@promise(
    "another seed gives other bits",
    look_at="a seed set in the model; if nothing in it is random, excuse it from this promise",
    of=GradientModel,
)
def other_seed(trial: Trial) -> Iterator[str]:
    if same_model(trial.fitted, trial.fit(seed=2), trial.graph):
        yield "trainings with seeds 0 and 2 are the same"


@promise(
    "global random states are left alone",
    look_at="np.random.* and torch.manual_seed: take a torch.Generator or np.random.default_rng(seed) instead",
    needs=("fits",),
)
def random_state(trial: Trial) -> Iterator[str]:
    """Of torch's generator, training may draw: it is seeded for that, and put back."""
    for when, names in trial.watched.moved.items():
        if names:
            yield f"{when} moves the global random state of {' and '.join(names)}"


@promise(
    "state_dict and checkpoint hold all of it",
    look_at="what observe or fit_nodes learns: register_buffer, or what fit_nodes returns, instead of attributes",
)
def checkpoint(trial: Trial) -> Iterator[str]:
    fresh = trial.build(seed=3)
    fresh.load_state_dict(trial.fitted.state_dict())
    if not same_model(trial.fitted, fresh, trial.graph):
        yield "a new model with the state_dict predicts otherwise"
    reopened = trial.reopened
    if type(reopened) is not type(trial.fitted):
        yield f"the checkpoint opens as a {type(reopened).__name__}"
    elif not same_model(trial.fitted, reopened, trial.graph):
        yield "the model of the checkpoint predicts otherwise"


@promise(
    "it learns",
    look_at="node_loss and the optimizer's options, or Terms(learning_epochs=..., accuracy=...) if that is asking much",
    needs=("posterior",),
)
def learns(trial: Trial) -> Iterator[str]:
    test = trial.graph.nodes(Part.TEST)
    model = trial.fitted if trial.is_closed_form else trial.fit(epochs=trial.terms.learning_epochs)
    predicted = model.predict(trial.graph).mean.argmax(dim=1)
    accuracy = (predicted == trial.graph.labels)[test].double().mean().item()
    if accuracy <= trial.terms.accuracy:
        yield (
            f"accuracy {accuracy:.3f} on test nodes after {trial.terms.learning_epochs} epochs, "
            f"where more than {trial.terms.accuracy} is asked"
        )
