"""Load a checkpoint as the model that a plan describes."""

from __future__ import annotations

from pathlib import Path

from lopgpn_exp.config.plan import RunPlan
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Graph
from lopgpn_exp.models import Model
from lopgpn_exp.runs.identity import drop_without_effect
from lopgpn_exp.training import ClosedFormClassification, NodeClassification, load_module

HINT = "the model.ckpt of a run with the same model and dataset, or no checkpoint at all to train one"


def open_checkpoint(path: Path, *, hint: str = HINT) -> NodeClassification | ClosedFormClassification:
    """Return the module of a checkpoint, or raise an InputError if the file cannot be read."""
    try:
        return load_module(path)
    except Exception as error:  # the file may be anything, and pickle, zip and torch raise many kinds of errors
        detail = f"{type(error).__name__}: {error}".partition("\n")[0].partition(". ")[0][:200]
        raise InputError(
            f"the checkpoint {path} cannot be opened ({detail})",
            expected="the model.ckpt of a finished run",
            hint=hint,
        ) from None


def load_model(path: Path, plan: RunPlan, graph: Graph) -> Model:
    """Return the model of a checkpoint after checking that it is the planned one, trained on this graph."""
    module = open_checkpoint(path)
    options = module.hparams["model_options"]
    shape = (options["num_features"], options["num_classes"])
    if module.hparams["model_class"] != plan.model_class:
        raise InputError(
            f"the checkpoint {path} holds a {module.hparams['model_class']}",
            expected=f"a {plan.model_class}, the class of {plan.model}",
            hint=HINT,
        )
    if shape != (graph.num_features, graph.num_classes):
        raise InputError(
            f"the checkpoint {path} is for {shape[0]} features and {shape[1]} classes",
            expected=f"{graph.num_features} features and {graph.num_classes} classes, as in {plan.dataset}",
            hint=HINT,
        )
    if module.hparams.get("trained_on") != graph.fingerprint:
        raise InputError(
            f"the checkpoint {path} was trained on another graph or split",
            expected=f"one trained on split {plan.split} of {plan.dataset}, in the same scenario",
            hint=HINT,
        )
    for key, value in drop_without_effect(plan.model_options, "model").items():
        if options.get(key) != value:
            raise InputError(
                f"the checkpoint {path} was trained with {key} {options.get(key)}",
                expected=f"{key} {value}, as in the config of this run",
                parameter=key,
                suggestion=options.get(key),
            )
    return module.model.eval()
