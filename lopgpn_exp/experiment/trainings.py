"""Trainings as a cached function of their identity: done once, by whoever comes first."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from filelock import FileLock

from lopgpn_exp.errors import InputError
from lopgpn_exp.experiment.files import folder_written_at_once, write_json

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Training:
    """A finished training: its checkpoint and what it took, whichever run did it."""

    checkpoint: Path
    epochs: int
    seconds: dict[str, float]
    peak_rss_mb: float
    history: dict[str, list[list[float]]] = field(default_factory=dict)


def training(output_dir: Path, identity: str, train: Callable[[Path], Training], *, again: bool = False) -> Training:
    """The training of this identity, from the cache or by `train(checkpoint_path)`.

    Two processes that need the same training meet at the lock, and the second finds it done.
    """
    folder = output_dir / "trainings" / identity
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder.parent / f"{identity}.lock")
        lock.acquire()
    except OSError as error:
        raise InputError(
            f"{folder.parent} cannot be written ({error.strerror})",
            expected="a writable folder",
            hint="output_dir=FOLDER",
        ) from None
    try:
        if not again and (stored := _stored(folder)) is not None:
            return stored
        with folder_written_at_once(folder) as scratch:
            done = train(scratch / "model.ckpt")
            record = asdict(done)
            record.pop("checkpoint")
            write_json(scratch / "training.json", record)
        return Training(checkpoint=folder / "model.ckpt", **record)
    finally:
        lock.release()


def _stored(folder: Path) -> Training | None:
    """The training kept in a folder; None if there is none, or if what is there cannot be used."""
    checkpoint = folder / "model.ckpt"
    try:
        record = json.loads((folder / "training.json").read_text())
        stored = Training(checkpoint=checkpoint, **record)
        whole = {"prepare", "train"} <= set(stored.seconds) and checkpoint.stat().st_size > 0
    except FileNotFoundError:
        whole = not folder.exists()
        stored = None
    except (OSError, ValueError, TypeError):
        whole, stored = False, None
    if not whole:
        log.warning("the training in %s is damaged: training again", folder)
    return stored if whole else None
