"""Training as a cached function of its identity: each training is done once, whichever process needs it first."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from lopgpn_exp.records import check_fields
from lopgpn_exp.runs.checksums import CHECKSUM_FILE, has_checksums, read_verified
from lopgpn_exp.runs.storage import atomic_folder, lock, read_json, write_json

if TYPE_CHECKING:
    from lopgpn_exp.models import Model

log = logging.getLogger(__name__)

NOT_STORED = ("checkpoint", "model")


class StoredTraining(TypedDict):
    """The content of `training.json`."""

    epochs: int
    seconds: dict[str, float]
    peak_rss_mb: float
    history: dict[str, list[list[float]]]
    cpu_seconds: float | None  # trainings of earlier versions have none


@dataclass(frozen=True)
class Training:
    """A finished training: its checkpoint, its cost and, unless it comes from the cache, the model itself."""

    checkpoint: Path
    epochs: int
    seconds: dict[str, float]
    peak_rss_mb: float
    history: dict[str, list[list[float]]] = field(default_factory=dict)
    cpu_seconds: float | None = None
    model: Model | None = field(default=None, repr=False)

    def to_json(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in NOT_STORED}


def find_training(output_dir: Path, training_id: str) -> Path:
    """Return the folder of a training, which exists if it is done."""
    return output_dir / "trainings" / training_id


def get_or_train(
    output_dir: Path, training_id: str, train: Callable[[Path], Training], *, force: bool = False
) -> Training:
    """Return the training of this identity, from the cache or by `train(checkpoint_path)`.

    A lock makes a second process that needs the same training wait until it is done.
    """
    folder = find_training(output_dir, training_id)
    with lock(output_dir, f"training-{training_id}"):
        if not force and (stored := _read_training(folder)) is not None:
            return stored
        with atomic_folder(folder) as temporary:
            training = train(temporary / "model.ckpt")
            write_json(temporary / "training.json", training.to_json())
        return replace(training, checkpoint=folder / "model.ckpt")


def _read_training(folder: Path) -> Training | None:
    """Return the training in a folder, or None if there is none or if it is damaged."""
    if not folder.exists():
        return None
    checkpoint = folder / "model.ckpt"
    try:
        if not has_checksums(folder):
            raise ValueError(f"it has no {CHECKSUM_FILE}")
        content = {"cpu_seconds": None, **read_json(folder / "training.json")}
        stored = Training(checkpoint, **check_fields(content, StoredTraining))
        read_verified(checkpoint)
        return stored
    except (OSError, ValueError, TypeError) as error:
        log.warning("The training in %s is damaged (%s): training again", folder, error)
        return None
