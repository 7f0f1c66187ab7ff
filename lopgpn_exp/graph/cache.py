"""What depends on a graph's edges alone is computed once and kept on disk, under a hash of what it depends on."""

import hashlib
import logging
import os
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from lopgpn_exp.graph.graph import fingerprint

log = logging.getLogger(__name__)

Arrays = Mapping[str, np.ndarray]


def cache_key(what: str) -> str:
    """A hash of a text that names everything a result depends on."""
    return hashlib.blake2b(what.encode(), digest_size=16).hexdigest()


def stored_arrays(cache_dir: Path | None, name: str, compute: Callable[[], Arrays]) -> Arrays:
    """The arrays kept as `name` in `cache_dir`, else those that `compute` gives, which are then kept."""
    if cache_dir is None:
        return compute()
    path = cache_dir / f"{name}.npz"
    arrays = _load(path)
    if arrays is None:
        arrays = compute()
        _store(path, arrays)
    return arrays


def _store(path: Path, arrays: Arrays) -> None:
    """Atomic: a killed process or a full disk leaves no half-written file under the final name."""
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.npz")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(temporary, **arrays, digest=np.array(_digest(arrays)))  # type: ignore[arg-type]
        os.replace(temporary, path)
    except OSError as error:
        log.warning("used but not kept: %s cannot be written (%s)", path, error)
    finally:
        temporary.unlink(missing_ok=True)


def _load(path: Path) -> Arrays | None:
    if not path.is_file():
        return None
    try:
        # Our own handle: numpy leaves it open when the archive is damaged.
        with path.open("rb") as file, np.load(file) as archive:
            arrays = {key: archive[key] for key in archive.files}
        if str(arrays.pop("digest")) != _digest(arrays):
            raise ValueError("its content has changed")
        return arrays
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        log.warning("the cached file %s cannot be read (%s): computing it again", path, error)
        return None


def _digest(arrays: Arrays) -> str:
    return fingerprint(arrays[key] for key in sorted(arrays))
