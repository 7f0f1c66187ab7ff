"""A disk cache for arrays that depend only on a graph's structure."""

import hashlib
import logging
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from filelock import FileLock

from lopgpn_exp.graph.graph import fingerprint
from lopgpn_exp.scratch import partial_path

log = logging.getLogger(__name__)

LOCK_FOLDER = ".locks"

Arrays = Mapping[str, np.ndarray]


def cache_key(description: str) -> str:
    """Return a hash of a text that names everything that a result depends on."""
    return hashlib.blake2b(description.encode(), digest_size=16).hexdigest()


def load_or_compute(cache_dir: Path | None, name: str, compute: Callable[[], Arrays]) -> Arrays:
    """Return the arrays stored as `name` in `cache_dir`; if there are none, compute and store them.

    A second process that needs the same arrays waits until the first has stored them.
    """
    if cache_dir is None:
        return compute()
    path = cache_dir / f"{name}.npz"
    before, arrays = _stamp(path), _load(path)
    if arrays is not None:
        return arrays
    with _lock(cache_dir, name):
        if _stamp(path) != before:  # written by another process in the meantime
            arrays = _load(path)
        if arrays is None:
            arrays = compute()
            _store(path, arrays)
    return arrays


def _stamp(path: Path) -> tuple[int, int] | None:
    """Return what changes when a file is replaced; None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


@contextmanager
def _lock(cache_dir: Path, name: str) -> Iterator[None]:
    """Hold the lock of a file in the cache, if the folder is writable."""
    file_lock = None
    with suppress(OSError):
        (cache_dir / LOCK_FOLDER).mkdir(parents=True, exist_ok=True)
        file_lock = FileLock(cache_dir / LOCK_FOLDER / f"{name}.lock")
        file_lock.acquire()
    try:
        yield
    finally:
        if file_lock is not None:
            file_lock.release()


def _store(path: Path, arrays: Arrays) -> None:
    """Write atomically: a killed process or a full disk leaves no incomplete file under the final name."""
    temporary = partial_path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(temporary, **arrays, digest=np.array(_digest(arrays)))  # type: ignore[arg-type]
        os.replace(temporary, path)
    except OSError as error:
        log.warning("cannot write the cache file %s (%s): continuing without it", path, error)
    finally:
        temporary.unlink(missing_ok=True)


def _load(path: Path) -> Arrays | None:
    if not path.is_file():
        return None
    try:
        # An explicit file handle, because numpy leaves its own open if the archive is damaged.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.zip.infolist()):
                raise ValueError("compressed, which this program does not write")  # a small file could fill the memory
            arrays = {key: archive[key] for key in archive.files}
        if str(arrays.pop("digest")) != _digest(arrays):
            raise ValueError("wrong checksum: damaged, or written by an earlier version")
        return arrays
    except Exception as error:  # numpy, zipfile and its decoders raise many types, and all can be recomputed
        reason = f"{type(error).__name__}: {str(error)[:200]}"
        log.warning("cannot read the cache file %s (%s): recomputing its content", path, reason)
        return None


def _digest(arrays: Arrays) -> str:
    """Return a hash of the names, types, shapes and values of arrays."""
    return fingerprint([np.array(sorted(arrays)), *(arrays[key] for key in sorted(arrays))])
