"""Opening a checkpoint as the model that a plan asks for."""

from __future__ import annotations

from pathlib import Path

from lopgpn_exp.errors import InputError
from lopgpn_exp.experiment.build import Plan
from lopgpn_exp.experiment.identity import with_effect
from lopgpn_exp.graph import Graph
from lopgpn_exp.models import Model
from lopgpn_exp.training import ClosedFormClassification, NodeClassification, load_module


def open_checkpoint(path: Path, *, hint: str) -> NodeClassification | ClosedFormClassification:
    """The module of a checkpoint; whatever is wrong with the file is one message."""
    try:
        return load_module(path)
    except Exception as error:  # a file of any kind may have been named: pickle, zip and torch raise what they like
        detail = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise InputError(
            f"the checkpoint {path} cannot be opened ({detail})",
            expected="the model.ckpt of a finished run",
            hint=hint,
        ) from None


def load_model(path: Path, plan: Plan, graph: Graph) -> Model:
    """The model of a checkpoint, if it is of the planned kind and fits the graph."""
    hint = "checkpoint=outputs/runs/<run-id>/model.ckpt of the same model and dataset, or no checkpoint to train one"
    module = open_checkpoint(path, hint=hint)
    options = module.hparams["model_options"]
    shape = (options["num_features"], options["num_classes"])
    if module.hparams["model_class"] != plan.model_class:
        raise InputError(
            f"the checkpoint {path} holds a {module.hparams['model_class']}",
            expected=f"a {plan.model_class}: model={plan.model}",
            hint=hint,
        )
    if shape != (graph.num_features, graph.num_classes):
        raise InputError(
            f"the checkpoint {path} is for {shape[0]} features and {shape[1]} classes",
            expected=f"{graph.num_features} features and {graph.num_classes} classes: dataset={plan.dataset}",
            hint=hint,
        )
    if module.hparams.get("trained_on") != graph.fingerprint:
        raise InputError(
            f"the checkpoint {path} was trained on another graph or split",
            expected=f"one of dataset={plan.dataset} split.index={plan.split} with the same scenario at training time",
            hint=hint,
        )
    for key, value in with_effect(plan.model_options).items():
        if options.get(key) != value:
            raise InputError(
                f"the checkpoint {path} was trained with model.{key}={options.get(key)}",
                expected=f"model.{key}={value}, as this run's config has it",
                hint=f"model.{key}={options.get(key)}",
            )
    return module.model.eval()
