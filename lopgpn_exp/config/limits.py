"""Limits of the values that every run has, whatever its model and dataset are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lopgpn_exp.config.schema import PATH_KEYS, TrainerConfig, flatten
from lopgpn_exp.errors import InputError, check_in_range
from lopgpn_exp.records import NAME

MAX_EPOCHS = 10_000_000
MAX_INITS = 1_000_000
MAX_THREADS = 1024
MAX_FILE_NAME_BYTES, MAX_PATH_BYTES = 255, 3000
MAX_NAME_BYTES = 120  # of model, dataset and scenario together: they are part of the name of a run's folder
# What a group's file must contain, whatever its _target_ takes.
REQUIRED_KEYS = {
    "model": ("name", "_target_"),
    "dataset": ("name", "left_out_classes", "_target_"),
    "split": ("name", "index", "_target_"),
    "ood": ("name", "stage", "_target_"),
}


def check_structure(config: Mapping[str, Any]) -> None:
    """Check the parts of a config that do not depend on a `_target_`."""
    for group, required in REQUIRED_KEYS.items():
        node = config[group]
        missing = [key for key in required if not isinstance(node, Mapping) or key not in node]
        if missing:
            raise InputError(
                f"{group}.{missing[0]} is missing", expected=f"one of the files in conf/{group}", hint=f"{group}=..."
            )
        if not NAME.fullmatch(str(node["name"] or "")):
            expected = "letters, digits, '_', '-' and '.', not starting with '-' or '.'"
            raise InputError(f"{group}.name is {node['name']!r}", expected=expected)
    names = [str(config[group]["name"]) for group in ("model", "dataset", "ood")]
    if (num_bytes := len("".join(names).encode())) > MAX_NAME_BYTES:
        raise InputError(
            f"the names of model, dataset and scenario have {num_bytes} bytes in total",
            expected=f"at most {MAX_NAME_BYTES}: the folder of a run is named after them",
        )
    for key, low in (("init", 0), ("inits", 1)):
        check_in_range(key, config[key], low=low, high=MAX_INITS, reason="each is a run", suggestion=low)
    if not config["output_dir"]:
        raise InputError("output_dir is empty", expected="a folder", hint="output_dir=outputs")
    for key, value in flatten(config):
        if key in PATH_KEYS and value is not None:
            _check_path(key, str(value))


def scenario_name(config: Mapping[str, Any]) -> str:
    """Return the name of the scenario in results: with its budget, or that of a split that marks OOD nodes itself."""
    split, ood = config["split"], config["ood"]
    if split.get("marks_ood"):
        return str(split["name"])
    return f"{ood['name']}-{ood['budget']}" if "budget" in ood else str(ood["name"])


def check_scenario(config: Mapping[str, Any]) -> None:
    """Check that the dataset and the split have this scenario. A sweep leaves out those that they do not have."""
    dataset, split, ood = (config[group] for group in ("dataset", "split", "ood"))
    if split.get("marks_ood") and ood["stage"] != "none":
        raise InputError(
            f"split={split['name']} marks out-of-distribution nodes itself",
            expected="no scenario beside it",
            hint="ood=none",
        )
    if ood.get("classes", ood.get("left_out_classes", 1)) is None and ood.get("left_out_classes") is None:
        raise InputError(
            f"{dataset['name']} names no classes to leave out",
            expected="a dataset with at least 3 classes, or another scenario",
            hint="ood=gaussian",
        )
    if ood.get("classes") == []:
        raise InputError(
            f"{dataset['name']} has no left-out classes for {ood['name']}",
            expected="a scenario that its file in conf/dataset names, or the classes themselves",
            hint="ood=leave_out_classes ood.classes=[0]",
        )


def _check_path(key: str, path: str) -> None:
    longest_name = max((len(name.encode(errors="replace")) for name in path.split("/")), default=0)
    if "\0" in path or longest_name > MAX_FILE_NAME_BYTES or len(path.encode(errors="replace")) > MAX_PATH_BYTES:
        raise InputError(
            f"{key} is {path[:50]!r}...",
            expected=f"a path of at most {MAX_PATH_BYTES:,} bytes, with at most {MAX_FILE_NAME_BYTES} in each name",
        )


def check_trainer(trainer: TrainerConfig) -> None:
    """Check that a training ends, and that it has at least one validation."""
    limits = dict.fromkeys(("max_epochs", "patience", "validate_every"), (MAX_EPOCHS, "a training has to end"))
    for key, (high, reason) in {**limits, "threads": (MAX_THREADS, "more than any machine has cores")}.items():
        value = getattr(trainer, key)
        check_in_range(f"trainer.{key}", value, low=1, high=high, reason=reason, suggestion=1)
    if trainer.validate_every > trainer.max_epochs:
        raise InputError(
            f"trainer.validate_every is {trainer.validate_every} and trainer.max_epochs {trainer.max_epochs}",
            expected="at least one validation, which chooses the best state",
            hint=f"trainer.validate_every={trainer.max_epochs}",
        )
