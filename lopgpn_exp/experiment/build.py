"""From a config to objects. The config object stops here: everything later takes keyword arguments."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from lopgpn_exp.data.root import data_root
from lopgpn_exp.errors import InputError
from lopgpn_exp.experiment.schema import Stage, call_options, check_positive
from lopgpn_exp.experiment.seeds import stream
from lopgpn_exp.graph import Graph
from lopgpn_exp.training import NodeClassification, module_type
from lopgpn_exp.training.seeding import seeded


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
    resolved: dict[str, Any] = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)  # type: ignore
    dataset, split, ood, model = (dict(resolved[group]) for group in ("dataset", "split", "ood", "model"))
    if config.init < 0:
        raise InputError(f"init is {config.init}", expected="0 or more", hint="init=0")
    trainer = dict(resolved["trainer"])
    check_positive({key: trainer[key] for key in ("max_epochs", "patience", "validate_every", "threads")}, "trainer")
    optimizer_node = model.pop("optimizer", {})
    build, model_options = call_options(
        model, path="model", ours=("name", "inits"), given=("num_features", "num_classes")
    )
    with seeded(0):
        build(num_features=1, num_classes=2, **model_options)  # the smallest model there is: its values are checked
    optimizer = _optimizer(model, optimizer_node)
    transform, scenario_options = _scenario(ood, split["index"])
    return Plan(
        model=model["name"],
        dataset=dataset["name"],
        split=split["index"],
        init=config.init,
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
        seed=stream("training", config.init, split["index"]),
        scenario_options=scenario_options,
        output_dir=Path(config.output_dir),
        checkpoint=Path(config.checkpoint) if config.checkpoint else None,
        force=config.force,
        resolved=resolved,
    )


def _reader(dataset: dict[str, Any], root: str | None) -> Callable[[], Graph]:
    read, options = call_options(dataset, path="dataset", ours=("name", "left_out_classes"), given=("root",))
    if "root" in inspect.signature(read).parameters:
        options["root"] = data_root(root)
    return partial(read, **options)


def _splitter(split: dict[str, Any]) -> Callable[[Graph], Graph]:
    make, options = call_options(split, path="split", ours=("name",), given=("graph",))
    return lambda graph: make(graph, **options)


def _scenario(ood: dict[str, Any], split: int) -> tuple[Callable[[Graph], Graph], dict[str, Any]]:
    if ood["_target_"] is None:
        return lambda graph: graph, {}
    change, options = call_options(ood, path="ood", ours=("name", "stage"), given=("graph", "seed"))
    seed = stream(f"scenario/{ood['name']}", split)
    return lambda graph: change(graph, seed=seed, **options), {**options, "seed": seed}


def _optimizer(model: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    """The optimiser's values are arguments of the Lightning module, so its signature checks them."""
    if node and module_type(model["_target_"]) is not NodeClassification:
        raise InputError(
            f"model.optimizer.{next(iter(node))} is set",
            expected=f"no model.optimizer: model={model['name']} is fitted in closed form",
        )
    module = {"_target_": "lopgpn_exp.training.NodeClassification", **node}
    _, options = call_options(module, path="model.optimizer", given=("model_class", "model_options"))
    for key, value in options.items():
        if value < 0 or (key == "learning_rate" and value == 0):
            raise InputError(f"model.optimizer.{key} is {value}", expected="a positive number")
    return options
