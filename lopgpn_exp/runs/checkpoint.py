"""Load a checkpoint as the model that a plan describes.

Nothing that the file names is imported or called before it has been compared with the plan.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lopgpn_exp.config.plan import RunPlan
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Graph
from lopgpn_exp.models import Model
from lopgpn_exp.models.checkpoint_file import DIMENSIONS, Checkpoint, build_model, read_checkpoint
from lopgpn_exp.runs.checksums import read_verified
from lopgpn_exp.runs.identity import identity_options
from lopgpn_exp.targets import import_target

HINT = "the model.ckpt of a run with the same model and dataset, or no checkpoint at all to train one"


def open_checkpoint(path: Path, plan: RunPlan, *, get_hint: Callable[[], str] = lambda: HINT) -> Checkpoint:
    """Read a checkpoint, and check that it names the class of the planned model. Nothing is imported or built yet.

    Args:
        get_hint: returns what to do about a checkpoint that is refused; called only then.
    """
    try:
        checkpoint = read_checkpoint(read_verified(path))
    except Exception as error:  # the file may be anything, and pickle, zip and torch raise many kinds of errors
        raise _unusable(path, error, get_hint()) from None
    if checkpoint.model_class != plan.model_class:
        raise InputError(
            f"the checkpoint {path} holds a {checkpoint.model_class}",
            expected=f"a {plan.model_class}, the class of {plan.model}",
            hint=get_hint(),
        )
    return checkpoint


def build_planned_model(
    path: Path, checkpoint: Checkpoint, plan: RunPlan, *, get_hint: Callable[[], str] = lambda: HINT
) -> Model:
    """Build the model of a checkpoint after checking that its options are the planned ones."""
    model_class = import_target(plan.model_class)
    planned = identity_options(plan.model_options, model_class)
    options = identity_options(checkpoint.model_options, model_class)
    for key in planned | options:
        if key in DIMENSIONS:  # they depend on the graph, not on the config
            continue
        if key not in planned or options.get(key) != planned[key]:
            raise InputError(
                f"the checkpoint {path} was trained with {key} {options.get(key)}",
                expected=f"{key} {planned.get(key, 'at its default')}, as in the config of this run",
                parameter=key,
                suggestion=options.get(key),
            )
    try:
        return build_model(checkpoint).eval()
    except Exception as error:  # weights that do not fit, or values that a model refuses
        raise _unusable(path, error, get_hint()) from None


def load_model(path: Path, plan: RunPlan, graph: Graph) -> Model:
    """Return the model of a checkpoint after checking that it is the planned one, trained on this graph."""
    checkpoint = open_checkpoint(path, plan)
    shape = tuple(checkpoint.model_options[key] for key in DIMENSIONS)
    if shape != (graph.num_features, graph.num_classes):
        raise InputError(
            f"the checkpoint {path} is for {shape[0]} features and {shape[1]} classes",
            expected=f"{graph.num_features} features and {graph.num_classes} classes, as in {plan.dataset}",
            hint=HINT,
        )
    if checkpoint.trained_on != graph.fingerprint:
        raise InputError(
            f"the checkpoint {path} was trained on another graph or split",
            expected=f"one trained on split {plan.split} of {plan.dataset}, in the same scenario",
            hint=HINT,
        )
    return build_planned_model(path, checkpoint, plan)


def _unusable(path: Path, error: Exception, hint: str) -> InputError:
    detail = f"{type(error).__name__}: {error}".partition("\n")[0].partition(". ")[0][:200]
    return InputError(
        f"the checkpoint {path} cannot be opened ({detail})", expected="the model.ckpt of a finished run", hint=hint
    )
