"""What makes a run the run it is: a hash of everything that changes its result."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from lopgpn_exp import NUMERICS_VERSION
from lopgpn_exp.experiment.build import Plan
from lopgpn_exp.graph import Graph

# Settings of the trainer that change no number.
WITHOUT_EFFECT = ("progress",)


def training_id(plan: Plan, graph: Graph) -> str:
    """Identity of the training on `graph`: its content and split, the model, its optimiser, the seed, the numerics."""
    return _digest(
        {
            "numerics": NUMERICS_VERSION,
            "graph": graph.fingerprint,
            "model": plan.model_class,
            "model_options": plan.model_options,
            "optimizer": plan.optimizer,
            "trainer": {key: value for key, value in plan.trainer.items() if key not in WITHOUT_EFFECT},
            "seed": plan.seed,
        }
    )


def run_id(plan: Plan, training: str) -> str:
    """Identity of an evaluation, readable in front of its hash."""
    digest = _digest(
        {
            "training": training,
            "scenario": plan.scenario,
            "scenario_options": plan.scenario_options,
            "names": [plan.model, plan.dataset],
        }
    )
    return f"{plan.model}-{plan.dataset}-s{plan.split}-i{plan.init}-{plan.scenario}-{digest[:10]}"


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).hexdigest()
