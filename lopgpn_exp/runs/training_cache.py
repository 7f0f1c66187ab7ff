"""Training as a cached function of its identity: each training is done once, whichever process needs it first."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from lopgpn_exp.runs.storage import atomic_folder, unwritable, write_json

if TYPE_CHECKING:
    from lopgpn_exp.models import Model

log = logging.getLogger(__name__)

NOT_STORED = ("checkpoint", "model")


@dataclass(frozen=True)
class Training:
    """A finished training: its checkpoint, its cost and, unless it comes from the cache, the model itself."""

    checkpoint: Path
    epochs: int
    seconds: dict[str, float]
    peak_rss_mb: float
    history: dict[str, list[list[float]]] = field(default_factory=dict)
    model: Model | None = field(default=None, repr=False)

    def to_json(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in NOT_STORED}


def get_or_train(
    output_dir: Path, training_id: str, train: Callable[[Path], Training], *, force: bool = False
) -> Training:
    """Return the training of this identity, from the cache or by `train(checkpoint_path)`.

    A lock makes a second process that needs the same training wait until it is done.
    """
    folder = output_dir / "trainings" / training_id
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder.parent / f"{training_id}.lock")
        lock.acquire()
    except OSError as error:
        raise unwritable(folder.parent, error) from None
    try:
        if not force and (stored := _read_training(folder)) is not None:
            return stored
        with atomic_folder(folder) as temporary:
            training = train(temporary / "model.ckpt")
            write_json(temporary / "training.json", training.to_json())
        return replace(training, checkpoint=folder / "model.ckpt")
    finally:
        lock.release()


def _read_training(folder: Path) -> Training | None:
    """Return the training in a folder, or None if there is none or if it is damaged."""
    if not folder.exists():
        return None
    checkpoint = folder / "model.ckpt"
    try:
        stored = Training(checkpoint=checkpoint, **json.loads((folder / "training.json").read_text()))
        if {"prepare", "train"} <= set(stored.seconds) and checkpoint.stat().st_size > 0:
            return stored
    except (OSError, ValueError, TypeError):
        pass
    log.warning("The training in %s is damaged: training again", folder)
    return None
