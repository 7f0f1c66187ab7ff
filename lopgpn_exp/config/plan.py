"""Turn a config into the plan of a run, after checking everything that can be checked without reading data."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lopgpn_exp.config.code_hash import add_code_hash, add_code_hashes
from lopgpn_exp.config.credentials import hide_credentials
from lopgpn_exp.config.limits import REQUIRED_KEYS, check_scenario, check_structure, check_trainer, scenario_name
from lopgpn_exp.config.method import MethodPlan, config_hints, plan_method
from lopgpn_exp.config.schema import OptimizerConfig, Stage, TrackingConfig, TrainerConfig
from lopgpn_exp.config.signature import call_options, check_value
from lopgpn_exp.data.root import data_root
from lopgpn_exp.errors import InputError
from lopgpn_exp.records import run_title
from lopgpn_exp.seeds import derive_seed

if TYPE_CHECKING:
    from lopgpn_exp.graph import Graph

UNIVERSAL_ACCELERATORS = ("auto", "cpu")  # available on every machine


@dataclass(frozen=True)
class RunPlan:
    """A checked config, ready to be run. No data has been read yet.

    Args:
        config: the whole config as plain values, which is what a run's `config.yaml` keeps. It has no credentials:
            only `tracking` has the real address of the store.
        read_dataset: reads the dataset, without a split.
        split_dataset: assigns the nodes of the dataset to train, validation and test.
        change_graph: applies the scenario.
        measures: the measures that the method declares as its total, aleatoric and epistemic uncertainty.
        parts: the trainings that the model is made from, if there are any, such as the members of an ensemble.
    """

    model: str
    dataset: str
    split: int
    init: int
    scenario: str
    stage: Stage
    model_class: str
    model_options: dict[str, Any]
    optimizer: OptimizerConfig
    trainer: TrainerConfig
    tracking: TrackingConfig
    scenario_options: dict[str, Any]
    seed: int
    output_dir: Path
    checkpoint: Path | None
    force: bool
    dry_run: bool
    config: dict[str, Any]
    read_dataset: Callable[[], Graph]
    split_dataset: Callable[[Graph], Graph]
    change_graph: Callable[[Graph], Graph]
    measures: dict[str, str] = field(default_factory=dict)
    parts: tuple[RunPlan, ...] = ()

    @property
    def title(self) -> str:
        return run_title(self.model, self.dataset, self.split, self.scenario)

    @property
    def cache_dir(self) -> Path:
        return self.output_dir / "cache"

    @property
    def dataset_key(self) -> str:
        """What reading the dataset depends on."""
        return json.dumps([self.config["dataset"], self.config["data_root"]], sort_keys=True)

    def load_graphs(self) -> RunGraphs:
        """Read the dataset, split it and apply the scenario."""
        return self.graphs_from(self.split_dataset(self.read_dataset()))

    def graphs_from(self, clean: Graph) -> RunGraphs:
        """Return the graphs of this run on a dataset that is split already."""
        return RunGraphs(clean, self.stage, self.change_graph)


@dataclass(frozen=True)
class RunGraphs:
    """The graphs of a run: `clean` as loaded and split, `training` and `evaluation` as its scenario changes them."""

    clean: Graph
    stage: Stage
    change_graph: Callable[[Graph], Graph]

    @cached_property
    def training(self) -> Graph:
        if self.stage is Stage.training:
            return self.evaluation
        return self.evaluation.without(self.evaluation.is_ood) if self.stage is Stage.inductive else self.clean

    @cached_property
    def evaluation(self) -> Graph:
        return self.clean if self.stage is Stage.none else self.change_graph(self.clean)


def plan_run(config: Mapping[str, Any]) -> RunPlan:
    """Check the values of a config from `resolve` and return the plan of its run."""
    with config_hints(""):
        check_structure(config)
    dataset, split, ood, model = (dict(config[group]) for group in ("dataset", "split", "ood", "model"))
    trainer = _plan_trainer(config["trainer"])
    method = plan_method(model, config.get("posthoc"))
    check_scenario(config)
    stage, change_graph, scenario_options = _plan_scenario(ood, split["index"])
    plan = RunPlan(
        model=model["name"],
        dataset=dataset["name"],
        split=split["index"],
        init=config["init"],
        scenario=scenario_name(config),
        stage=stage,
        model_class=method.target,
        model_options=method.options,
        optimizer=method.optimizer,
        measures=method.measures,
        trainer=trainer,
        tracking=TrackingConfig(**config["tracking"]),
        scenario_options=scenario_options,
        seed=derive_seed("training", config["init"], split["index"]),
        output_dir=Path(config["output_dir"]),
        checkpoint=Path(config["checkpoint"]) if config["checkpoint"] else None,
        force=config["force"],
        dry_run=config["dry_run"],
        config={**config, "tracking": _hide_tracking_credentials(config["tracking"])}
        | {group: add_code_hash(config[group], group) for group in REQUIRED_KEYS}
        | {group: add_code_hashes(config.get(group) or {}, group) for group in ("model", "posthoc")},
        read_dataset=_plan_dataset(dataset, config["data_root"]),
        split_dataset=_plan_split(split),
        change_graph=change_graph,
    )
    return replace(plan, parts=_plan_parts(plan, method))


def _plan_parts(plan: RunPlan, method: MethodPlan) -> tuple[RunPlan, ...]:
    """Return the trainings that a method is made from, as plans of runs on the same data."""
    parts = []
    for number, part in enumerate(method.parts):
        init = plan.init * len(method.parts) + number
        part_plan = replace(
            plan,
            model=part.name,
            init=init,
            model_class=part.target,
            model_options=part.options,
            optimizer=part.optimizer,
            measures=part.measures,
            seed=derive_seed("training", init, plan.split),
            checkpoint=None,
            config={**plan.config, "model": add_code_hashes(part.node, "model"), "posthoc": {}, "init": init},
        )
        parts.append(replace(part_plan, parts=_plan_parts(part_plan, part)))
    return tuple(parts)


def _hide_tracking_credentials(node: Mapping[str, Any]) -> dict[str, Any]:
    return {**node, "uri": node["uri"] and hide_credentials(node["uri"])}


def _plan_trainer(node: Mapping[str, Any]) -> TrainerConfig:
    trainer = TrainerConfig(**node)
    with config_hints(""):
        check_trainer(trainer)
    if trainer.accelerator not in UNIVERSAL_ACCELERATORS:
        from lopgpn_exp.training import check_accelerator  # deferred import: Lightning is slow to import

        with config_hints("trainer"):
            check_accelerator(trainer.accelerator)
    return trainer


def _plan_dataset(node: Mapping[str, Any], root: str | None) -> Callable[[], Graph]:
    read, options = call_options(
        node,
        path="dataset",
        extra_keys=("name", "left_out_classes", "left_out_sets", "shipped_splits", "data_hash"),
        injected=("root",),
    )
    if "root" in inspect.signature(read).parameters:
        options["root"] = data_root(root)
    return _with_hints("dataset", partial(read, **options))


def _plan_split(node: Mapping[str, Any]) -> Callable[[Graph], Graph]:
    extra_keys = ("name", "published_index", "marks_ood")
    assign, options = call_options(node, path="split", extra_keys=extra_keys, injected=("graph",))
    return _with_hints("split", partial(assign, **options))


def _plan_scenario(node: Mapping[str, Any], split: int) -> tuple[Stage, Callable[[Graph], Graph], dict[str, Any]]:
    stage = check_value(node["stage"], Literal["none", "training", "evaluation"], "ood.stage")
    is_inductive = check_value(node.get("inductive", False), bool, "ood.inductive")
    if is_inductive and stage != "training":
        raise InputError(
            f"ood.inductive is true and ood.stage {stage}",
            expected="a scenario that trains its own model, such as leave_out_classes",
            hint="ood=leave_out_classes ood.inductive=true",
        )
    if (stage == "none") != (node["_target_"] is None):
        raise InputError(
            f"ood.stage is {stage} and ood._target_ {node['_target_']}",
            expected="both none, or neither: a scenario changes the graph at some stage",
            hint=f"ood={node['name']}",
        )
    if node["_target_"] is None:
        if extra := sorted(set(node) - set(REQUIRED_KEYS["ood"])):
            raise InputError(f"ood.{extra[0]} is set", expected="no options: ood=none changes nothing")
        return Stage.none, lambda graph: graph, {}
    extra_keys = ("name", "stage", "inductive")
    change, options = call_options(node, path="ood", extra_keys=extra_keys, injected=("graph", "seed"))
    options["seed"] = derive_seed(f"scenario/{node['name']}", split)
    return Stage("inductive" if is_inductive else stage), _with_hints("ood", partial(change, **options)), options


def _with_hints(group: str, function: Callable[..., Graph]) -> Callable[..., Graph]:
    def call(*graphs: Graph) -> Graph:
        with config_hints(group):
            return function(*graphs)

    return call
