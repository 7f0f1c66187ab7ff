"""The identity of a run: a hash of everything that changes its result."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lopgpn_exp.config.plan import RunPlan
from lopgpn_exp.config.schema import ADDED_OPTIONS, KEYS_WITHOUT_EFFECT
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Graph
from lopgpn_exp.models import CompositeModel, Model
from lopgpn_exp.targets import import_target


def training_id(plan: RunPlan, graph: Graph) -> str:
    """Return the identity of the training on `graph`: graph and split, model, optimiser, seed and numerics version.

    With a given checkpoint, its content replaces all but the graph. The code of a user's own model, or the version
    that stands for it, is part of the identity. The parts of a composite model count with their own identities.
    """
    model_class = import_target(plan.model_class)
    content: dict[str, Any] = {
        "numerics": model_class.numerics_version,
        "graph": graph.fingerprint,
        "threads": plan.trainer.threads,
        **_code_of(plan, "model"),
        **_code_of_steps(plan),
    }
    step_names = list(plan.model_options.get("steps", ())) if plan.parts else []
    if plan.checkpoint is not None:
        return _digest({**content, "checkpoint": _hash_file(plan.checkpoint)})
    return _digest(
        {
            **content,
            "model": plan.model_class,
            "model_options": _without_parts(identity_options(plan.model_options, model_class), model_class),
            "optimizer": plan.optimizer.options(),
            "trainer": drop_without_effect(asdict(plan.trainer), "trainer"),
            "seed": plan.seed,
            **({"step_order": step_names} if len(step_names) > 1 else {}),  # keys are sorted below
            **({"parts": [training_id(part, graph) for part in plan.parts]} if plan.parts else {}),
        }
    )


def run_id(plan: RunPlan, training: str) -> str:
    """Return the identity of an evaluation: a readable part and a hash."""
    digest = _digest(
        {
            "training": training,
            "scenario": plan.scenario,
            "stage": plan.stage,
            "scenario_options": drop_without_effect(plan.scenario_options, "ood"),
            "names": [plan.model, plan.dataset],
            **_code_of(plan, "ood"),
        }
    )
    return f"{plan.model}-{plan.dataset}-s{plan.split}-i{plan.init}-{plan.scenario}-{digest[:10]}"


def identity_options(options: Mapping[str, Any], model_class: type[Model]) -> dict[str, Any]:
    """Return the options of a model that belong to an identity; see `drop_without_effect`."""
    added = model_class.added_options
    kept = drop_without_effect(options, "model")
    return {key: value for key, value in kept.items() if not (key in added and value == added[key])}


def _without_parts(options: Mapping[str, Any], model_class: type[Model]) -> dict[str, Any]:
    parts = model_class.part_options if issubclass(model_class, CompositeModel) else ()
    return {key: value for key, value in options.items() if key not in parts}


def drop_without_effect(options: Mapping[str, Any], group: str) -> dict[str, Any]:
    """Return the options that belong to an identity.

    Options that change no result are left out, and so are options that were added later, at their default.
    """
    named = {f"{group}.{key}": (key, value) for key, value in options.items()}
    return {
        key: value
        for name, (key, value) in named.items()
        if name not in KEYS_WITHOUT_EFFECT and not (name in ADDED_OPTIONS and value == ADDED_OPTIONS[name])
    }


def _code_of(plan: RunPlan, group: str) -> dict[str, Any]:
    """Return what identifies the code of a user's model or scenario. Datasets and splits are part of the graph."""
    node = plan.config[group]
    return {f"{group}_{key}": node[key] for key in ("code_version", "code_hash") if node.get(key) is not None}


def _code_of_steps(plan: RunPlan) -> dict[str, Any]:
    """Return what identifies the code of a user's own post-hoc steps."""
    steps = {**(plan.config["model"].get("posthoc") or {}), **(plan.config.get("posthoc") or {})}
    hashes = {name: step.get("code_version") or step.get("code_hash") for name, step in steps.items() if step}
    return {"step_code": hashes} if any(hashes.values()) else {}


def _hash_file(checkpoint: Path) -> str:
    try:
        return hashlib.blake2b(checkpoint.read_bytes(), digest_size=16).hexdigest()
    except OSError as error:
        raise InputError(
            f"the checkpoint {checkpoint} cannot be read ({error.strerror})",
            expected="the model.ckpt of a finished run",
            parameter="checkpoint",
            suggestion="outputs/runs/<run-id>/model.ckpt",
        ) from None


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).hexdigest()
