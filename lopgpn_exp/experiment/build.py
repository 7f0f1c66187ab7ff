"""From a config to objects. The config object stops here: everything later takes keyword arguments."""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_type_hints

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from lopgpn_exp.data.root import data_root
from lopgpn_exp.errors import InputError
from lopgpn_exp.experiment.own_code import with_code
from lopgpn_exp.experiment.schema import (
    OptimizerConfig,
    RunConfig,
    Stage,
    TrackingConfig,
    TrainerConfig,
    call_options,
    check_keys,
    check_positive,
    checked,
    checked_options,
    located,
)
from lopgpn_exp.experiment.seeds import stream

if TYPE_CHECKING:
    from lopgpn_exp.graph import Graph

MOST_THREADS = 1024
EVERYWHERE = ("auto", "cpu")  # accelerators that every machine has


@dataclass(frozen=True)
class Plan:
    """A checked config, ready to be carried out. Nothing has been loaded yet."""

    model: str
    dataset: str
    split: int
    init: int
    scenario: str
    stage: Stage
    read: Callable[[], Graph]
    split_graph: Callable[[Graph], Graph]
    dataset_key: str
    scenario_transform: Callable[[Graph], Graph]
    model_class: str
    model_options: dict[str, Any]
    optimizer: dict[str, Any]
    trainer: dict[str, Any]
    tracking: dict[str, Any]
    seed: int
    scenario_options: dict[str, Any]
    output_dir: Path
    checkpoint: Path | None
    force: bool
    resolved: dict[str, Any]

    def load(self) -> Graph:
        """The dataset with its split."""
        return self.split_graph(self.read())

    @property
    def title(self) -> str:
        return f"{self.model} · {self.dataset} · split {self.split} · {self.scenario}"


def plan(config: DictConfig) -> Plan:
    """Check every value of a config that can be checked before data is read."""
    resolved = _resolved(config)
    dataset, split, ood, model = (dict(resolved[group]) for group in ("dataset", "split", "ood", "model"))
    trainer = _trainer(resolved["trainer"])
    optimizer_node = model.pop("optimizer", {})
    model_class, model_options = _model(model)
    optimizer = _optimizer(optimizer_node, model["name"], model_class)
    transform, scenario_options = _scenario(ood, split["index"])
    resolved |= {group: with_code(resolved[group], group) for group in ("model", "ood")}
    return Plan(
        model=model["name"],
        dataset=dataset["name"],
        split=split["index"],
        init=resolved["init"],
        scenario=ood["name"],
        stage=Stage(ood["stage"]),
        read=_reader(dataset, resolved["data_root"]),
        split_graph=_splitter(split),
        dataset_key=json.dumps([dataset, resolved["data_root"]], sort_keys=True),
        scenario_transform=transform,
        model_class=model["_target_"],
        model_options=model_options,
        optimizer=optimizer,
        trainer=trainer,
        tracking=dict(resolved["tracking"]),
        seed=stream("training", resolved["init"], split["index"]),
        scenario_options=scenario_options,
        output_dir=Path(config.output_dir),
        checkpoint=Path(config.checkpoint) if config.checkpoint else None,
        force=config.force,
        resolved=resolved,
    )


def _resolved(config: DictConfig) -> dict[str, Any]:
    """The config as plain values, with everything in place that every config must have."""
    try:
        resolved: dict[str, Any] = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)  # type: ignore
    except OmegaConfBaseException as error:
        raise InputError(str(error).partition("\n")[0], expected="a complete config: see --cfg job") from None
    check_keys(resolved, RunConfig, "")
    check_keys(resolved["tracking"], TrackingConfig, "tracking")
    for group, needed in NEEDED.items():
        node = resolved[group]
        missing = [key for key in needed if not isinstance(node, dict) or key not in node]
        if missing:
            raise InputError(
                f"{group}.{missing[0]} is missing", expected=f"a file of conf/{group}", hint=f"{group}=..."
            )
        if not re.fullmatch(r"[\w.-]+", str(node["name"] or "")) or str(node["name"]).startswith("."):
            raise InputError(f"{group}.name is {node['name']!r}", expected="letters, digits, '_', '-' and '.'")
    if resolved["init"] < 0 or resolved["inits"] < 1:
        raise InputError(
            f"init is {resolved['init']}, inits {resolved['inits']}", expected="0 or more, and 1 or more", hint="init=0"
        )
    if not resolved["output_dir"]:
        raise InputError("output_dir is empty", expected="a folder", hint="output_dir=outputs")
    return resolved


# What a group's file must bring, whatever its _target_ takes.
NEEDED = {
    "model": ("name", "_target_"),
    "dataset": ("name", "left_out_classes", "_target_"),
    "split": ("name", "index", "_target_"),
    "ood": ("name", "stage", "_target_"),
}


def _trainer(node: dict[str, Any]) -> dict[str, Any]:
    check_keys(node, TrainerConfig, "trainer")
    check_positive({key: node[key] for key in ("max_epochs", "patience", "validate_every", "threads")}, "trainer")
    if node["threads"] > MOST_THREADS:
        raise InputError(f"trainer.threads is {node['threads']}", expected=f"at most {MOST_THREADS}")
    if node["validate_every"] > node["max_epochs"]:
        raise InputError(
            f"trainer.validate_every is {node['validate_every']} and trainer.max_epochs {node['max_epochs']}",
            expected="at least one validation: the best state is chosen by it",
            hint=f"trainer.validate_every={node['max_epochs']}",
        )
    if node["accelerator"] not in EVERYWHERE:
        from lopgpn_exp.training import check_accelerator  # Lightning

        check_accelerator(node["accelerator"])
    return dict(node)


def _model(node: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    from lopgpn_exp.models.seeding import seeded  # torch: what is wrong elsewhere is said without waiting for it

    dims = ("num_features", "num_classes")
    check_model_class(located(node["_target_"], "model"), node["_target_"])
    build, options = call_options(node, path="model", ours=("name", "inits"), given=dims)
    with seeded(0):
        build(num_features=1, num_classes=2, **options)  # the smallest model there is: its values are checked
    return build, options


def check_model_class(build: Any, target: str) -> None:
    from lopgpn_exp.models import ClosedFormModel, GradientModel

    if not (inspect.isclass(build) and issubclass(build, GradientModel | ClosedFormModel)):
        raise InputError(
            f"model._target_ names {target}, which is no model",
            expected="a subclass of lopgpn_exp.models.GradientModel or ClosedFormModel",
        )
    if unwritten := sorted(build.__abstractmethods__):
        raise InputError(f"{target} has no {unwritten[0]}", expected=f"all of {', '.join(unwritten)}")


def _reader(dataset: dict[str, Any], root: str | None) -> Callable[[], Graph]:
    read, options = call_options(
        dataset, path="dataset", ours=("name", "left_out_classes", "data_hash"), given=("root",)
    )
    if "root" in inspect.signature(read).parameters:
        options["root"] = data_root(root)
    return partial(read, **options)


def _splitter(split: dict[str, Any]) -> Callable[[Graph], Graph]:
    make, options = call_options(split, path="split", ours=("name",), given=("graph",))
    return lambda graph: make(graph, **options)


def _scenario(ood: dict[str, Any], split: int) -> tuple[Callable[[Graph], Graph], dict[str, Any]]:
    stage = checked(ood["stage"], Literal["none", "training", "evaluation"], "ood.stage")
    if (stage == "none") != (ood["_target_"] is None):
        raise InputError(
            f"ood.stage is {stage} and ood._target_ {ood['_target_']}",
            expected="both none, or neither: a scenario changes the graph at some stage",
            hint=f"ood={ood['name']}",
        )
    if ood["_target_"] is None:
        if extra := sorted(set(ood) - set(NEEDED["ood"])):
            raise InputError(f"ood.{extra[0]} is set", expected="nothing but ood=none, which changes nothing")
        return lambda graph: graph, {}
    change, options = call_options(ood, path="ood", ours=("name", "stage"), given=("graph", "seed"))
    seed = stream(f"scenario/{ood['name']}", split)
    return lambda graph: change(graph, seed=seed, **options), {**options, "seed": seed}


def _optimizer(node: Any, model: str, model_class: Any) -> dict[str, Any]:
    from lopgpn_exp.models import ClosedFormModel

    if not isinstance(node, dict):
        raise InputError(f"model.optimizer is {node!r}", expected="learning_rate, weight_decay and warmup_epochs")
    if node and issubclass(model_class, ClosedFormModel):
        raise InputError(
            f"model.optimizer.{next(iter(node))} is set",
            expected=f"no model.optimizer: model={model} is fitted in closed form",
        )
    types, target = get_type_hints(OptimizerConfig), "lopgpn_exp.training.NodeClassification"
    options = checked_options(node, types, path="model.optimizer", target=target)
    for key, value in options.items():
        if not math.isfinite(value) or value < 0 or (key == "learning_rate" and value == 0):
            wanted = "a positive number" if key == "learning_rate" else "0 or more"
            raise InputError(f"model.optimizer.{key} is {value}", expected=wanted)
    return options
