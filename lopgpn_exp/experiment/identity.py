"""What makes a run the run it is: a hash of everything that changes its result."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lopgpn_exp import NUMERICS_VERSION
from lopgpn_exp.errors import InputError
from lopgpn_exp.experiment.build import Plan
from lopgpn_exp.graph import Graph

# Settings that change no number.
WITHOUT_EFFECT = ("progress", "memory_limit_gib")


def training_id(plan: Plan, graph: Graph) -> str:
    """Identity of the training on `graph`: its content and split, the model, its optimiser, the seed, the numerics.

    Of a given checkpoint it is the checkpoint's content, on the same graph. A model that is not ours also has its code,
    or the version that stands for it, in its identity.
    """
    if plan.checkpoint is not None:
        return _digest({**_common(plan, graph), "checkpoint": _content(plan.checkpoint)})
    return _digest(
        {
            **_common(plan, graph),
            "model": plan.model_class,
            "model_options": with_effect(plan.model_options),
            "optimizer": plan.optimizer,
            "trainer": with_effect(plan.trainer),
            "seed": plan.seed,
        }
    )


def with_effect(options: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if key not in WITHOUT_EFFECT}


def _common(plan: Plan, graph: Graph) -> dict[str, Any]:
    common = {"numerics": NUMERICS_VERSION, "graph": graph.fingerprint, "threads": plan.trainer["threads"]}
    return common | _code(plan, "model")


def _code(plan: Plan, group: str) -> dict[str, Any]:
    """Of a user's own model or scenario. What datasets and splits give is in the graph itself."""
    node = plan.resolved[group]
    return {f"{group}_{key}": node[key] for key in ("code_version", "code_hash") if node.get(key) is not None}


def _content(checkpoint: Path) -> str:
    try:
        return hashlib.blake2b(checkpoint.read_bytes(), digest_size=16).hexdigest()
    except OSError as error:
        raise InputError(
            f"the checkpoint {checkpoint} cannot be read ({error.strerror})",
            expected="the model.ckpt of a finished run",
            hint="checkpoint=outputs/runs/<run-id>/model.ckpt",
        ) from None


def run_id(plan: Plan, training: str) -> str:
    """Identity of an evaluation, readable in front of its hash."""
    digest = _digest(
        {
            "training": training,
            "scenario": plan.scenario,
            "stage": plan.stage,
            "scenario_options": plan.scenario_options,
            "names": [plan.model, plan.dataset],
            **_code(plan, "ood"),
        }
    )
    return f"{plan.model}-{plan.dataset}-s{plan.split}-i{plan.init}-{plan.scenario}-{digest[:10]}"


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).hexdigest()
