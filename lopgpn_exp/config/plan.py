"""Turn a config into the plan of a run, after checking everything that can be checked without reading data."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_type_hints

from lopgpn_exp.config.code_hash import add_code_hash
from lopgpn_exp.config.credentials import hide_credentials
from lopgpn_exp.config.limits import REQUIRED_KEYS, check_scenario, check_structure, check_trainer, scenario_name
from lopgpn_exp.config.schema import OptimizerConfig, RunConfig, Stage, TrackingConfig, TrainerConfig
from lopgpn_exp.config.signature import call_options, check_model_class, check_options, check_value, import_callable
from lopgpn_exp.data.root import data_root
from lopgpn_exp.errors import InputError
from lopgpn_exp.records import run_title
from lopgpn_exp.seeds import derive_seed, seeded

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


@contextmanager
def config_hints(group: str) -> Iterator[None]:
    """Add to an error of the layers below how to set the parameter that it names: `model.teleport=0.1`.

    Args:
        group: the group that the parameter belongs to; empty if its name is complete.
    """
    try:
        yield
    except InputError as error:
        if error.hint or not error.parameter:
            raise
        is_root_key = any(field.name == error.parameter for field in fields(RunConfig))
        key = f"{group}.{error.parameter}" if group and not is_root_key else error.parameter
        value = "VALUE" if error.suggestion is None else error.suggestion
        raise error.with_hint(f"{key}={value}") from None


def plan_run(config: Mapping[str, Any]) -> RunPlan:
    """Check the values of a config from `resolve` and return the plan of its run."""
    with config_hints(""):
        check_structure(config)
    dataset, split, ood, model = (dict(config[group]) for group in ("dataset", "split", "ood", "model"))
    trainer = _plan_trainer(config["trainer"])
    optimizer = model.pop("optimizer", {})
    model_class, model_options = _plan_model(model)
    check_scenario(config)
    stage, change_graph, scenario_options = _plan_scenario(ood, split["index"])
    return RunPlan(
        model=model["name"],
        dataset=dataset["name"],
        split=split["index"],
        init=config["init"],
        scenario=scenario_name(config),
        stage=stage,
        model_class=model["_target_"],
        model_options=model_options,
        optimizer=_plan_optimizer(optimizer, model["name"], model_class),
        trainer=trainer,
        tracking=TrackingConfig(**config["tracking"]),
        scenario_options=scenario_options,
        seed=derive_seed("training", config["init"], split["index"]),
        output_dir=Path(config["output_dir"]),
        checkpoint=Path(config["checkpoint"]) if config["checkpoint"] else None,
        force=config["force"],
        dry_run=config["dry_run"],
        config={**config, "tracking": _hide_tracking_credentials(config["tracking"])}
        | {group: add_code_hash(config[group], group) for group in REQUIRED_KEYS},
        read_dataset=_plan_dataset(dataset, config["data_root"]),
        split_dataset=_plan_split(split),
        change_graph=change_graph,
    )


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


def _plan_model(node: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    check_model_class(import_callable(node["_target_"], "model"), node["_target_"])
    build, options = call_options(
        node, path="model", extra_keys=("name", "inits"), injected=("num_features", "num_classes")
    )
    with seeded(0), config_hints("model"):
        build(num_features=1, num_classes=2, **options)  # the constructor checks its values
    return build, options


def _plan_optimizer(node: Any, model: str, model_class: Any) -> OptimizerConfig:
    from lopgpn_exp.models import ClosedFormModel  # deferred import: keeps --help fast

    if not isinstance(node, Mapping):
        raise InputError(f"model.optimizer is {node!r}", expected="learning_rate, weight_decay and warmup_epochs")
    if node and issubclass(model_class, ClosedFormModel):
        raise InputError(
            f"model.optimizer.{next(iter(node))} is set",
            expected=f"no model.optimizer: model={model} is fitted in closed form",
        )
    # None stands for a missing key and is not a valid value.
    types = {key: get_args(annotation)[0] for key, annotation in get_type_hints(OptimizerConfig).items()}
    target = "lopgpn_exp.training.NodeClassification"
    options = check_options(node, types, path="model.optimizer", target=target)
    for key, value in options.items():
        if not math.isfinite(value) or value < 0 or (key == "learning_rate" and value == 0):
            expected = "a positive number" if key == "learning_rate" else "0 or more"
            raise InputError(f"model.optimizer.{key} is {value}", expected=expected)
    return OptimizerConfig(**options)


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
