"""The typed part of a config, and which of its settings do not change results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from omegaconf import MISSING

# Settings that do not change results: they are neither part of a run's identity nor of its label in tables.
KEYS_WITHOUT_EFFECT = frozenset(
    {
        *("trainer.progress", "model.memory_limit_gib", "dataset.memory_limit_gib"),
        *("tracking.enabled", "tracking.uri", "tracking.experiment"),
        *("inits", "output_dir", "data_root", "force", "dry_run", "report"),
    }
)
# Options of scenarios that were added after results had been published (for models see `Model.added_options`). At these
# values they are left out of identities, so that earlier runs keep theirs.
ADDED_OPTIONS = {
    "ood.published_split": None,
    "ood.classes": None,
}
# Paths, in which a leading `~` is the user's home folder.
PATH_KEYS = ("output_dir", "data_root", "checkpoint", "dataset.path", "dataset.edges")
# Tables average over splits and initialisations, so these are not part of a label either.
LABEL_IGNORED_KEYS = KEYS_WITHOUT_EFFECT | {
    "split.index",
    "split.published_index",
    "ood.published_split",
    "ood.budget",  # part of the scenario's name
    "init",
}


class Stage(StrEnum):
    """When a scenario changes the graph."""

    none = "none"
    training = "training"  # before training, on the same graph as evaluation
    inductive = "inductive"  # the same, but the OOD nodes are absent from training
    evaluation = "evaluation"  # after training on the clean graph


@dataclass
class TrainerConfig:
    max_epochs: int = MISSING
    patience: int = MISSING
    validate_every: int = MISSING
    accelerator: str = MISSING
    threads: int = MISSING
    progress: bool = MISSING


@dataclass
class OptimizerConfig:
    """The options of `training.NodeClassification`; those that are None keep its defaults.

    Args:
        optimizer: import path of a class of `torch.optim`, which a config names under `_target_`.
        optimizer_options: further options of that class.
    """

    learning_rate: float | None = None
    weight_decay: float | None = None
    warmup_epochs: int | None = None
    optimizer: str | None = None
    optimizer_options: dict[str, Any] | None = None

    def options(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value is not None}


@dataclass
class TrackingConfig:
    enabled: bool = MISSING
    uri: str | None = None
    experiment: str = MISSING


@dataclass
class RunConfig:
    """The root. The groups typed `Any` hold a `_target_`, whose signature is their schema (see `signature`)."""

    model: Any = MISSING
    dataset: Any = MISSING
    split: Any = MISSING
    ood: Any = MISSING
    posthoc: Any = field(default_factory=dict)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)
    init: int = MISSING
    output_dir: str = MISSING
    data_root: str | None = None
    checkpoint: str | None = None
    force: bool = MISSING
    inits: int = MISSING
    dry_run: bool = MISSING
    report: list[str] = field(default_factory=list)


def flatten(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the leaves of a nested config with their dotted keys."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
