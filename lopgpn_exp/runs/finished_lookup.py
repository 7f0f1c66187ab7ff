"""Find a finished run by its config alone, without torch and without reading its data, which its identity needs.

The key of the lookup depends on more than the identity does: on every option, on each file that the data is read from,
on the code of this package, and on the versions of the libraries. Whatever changes, the run is located as usual.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

from lopgpn_exp import NUMERICS_VERSION
from lopgpn_exp.config.foreign_code import find_foreign_targets
from lopgpn_exp.config.schema import flatten
from lopgpn_exp.data.root import data_root
from lopgpn_exp.errors import InputError
from lopgpn_exp.records import NAME, RunResult
from lopgpn_exp.runs.machine import versions
from lopgpn_exp.runs.run_folder import find_damage, read_result
from lopgpn_exp.runs.storage import atomic_write

# Options that change neither the result nor what can go wrong before it.
IGNORED_KEYS = ("output_dir", "tracking.enabled", "tracking.uri", "tracking.experiment", "trainer.progress", "inits")
GENERATED = ("lopgpn_exp.data.datasets.digits.digits_graph", "lopgpn_exp.data.datasets.synthetic.block_model")
OWN_FILES = "lopgpn_exp.data.files.custom_graph"
READERS = ("scikit-learn", "pandas", "pyarrow", "ogb")  # libraries that read data
MAX_FILES = 10_000  # in the data root: beyond it, locating the run may be faster
PACKAGE = Path(__file__).resolve().parents[1]


def lookup_key(config: Mapping[str, Any]) -> str | None:
    """Return the key of a config from `resolve`; None if its run has to be located as usual."""
    is_unusual = config["force"] or config["dry_run"] or config["checkpoint"] is not None
    if is_unusual or not isinstance(config["dataset"], Mapping) or find_foreign_targets(config):
        return None
    try:
        files = [_stamp(path) for path in (*_data_files(config), *sorted(PACKAGE.rglob("*.py")))]
    except OSError:  # a missing file, for example, which is reported when it is read
        return None
    if len(files) > MAX_FILES:
        return None
    options = [(key, value) for key, value in flatten(config) if key not in IGNORED_KEYS]
    step_order = [key for key, _ in options if "posthoc." in key]  # post-hoc steps are applied in their order
    libraries = versions() | {name: version(name) for name in READERS}
    content = repr([NUMERICS_VERSION, sorted(options, key=lambda option: option[0]), step_order, libraries, files])
    return hashlib.blake2b(content.encode(errors="backslashreplace"), digest_size=16).hexdigest()


def find_finished_run(config: Mapping[str, Any], key: str) -> tuple[Path, RunResult] | None:
    """Return folder and result of the run that was stored under a key; None if there is none, or if it is damaged."""
    output_dir = Path(config["output_dir"])
    try:
        run_id = _entry(output_dir, key).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    folder = output_dir / "runs" / run_id
    if not NAME.fullmatch(run_id) or find_damage(folder) is not None:
        return None
    result = read_result(folder)
    stored = [result.model, result.dataset, result.scenario, result.split, result.init]
    names = [config[group]["name"] for group in ("model", "dataset", "ood")]
    return (folder, result) if stored == [*names, config["split"]["index"], config["init"]] else None


def remember_run(output_dir: Path, key: str, run_id: str) -> None:
    """Store the id of a finished run under a key that its config had before its data was read, and still has."""
    entry = _entry(output_dir, key)
    with suppress(OSError, InputError):  # a full or read-only disk: the run is located as usual the next time
        entry.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(entry, lambda path: path.write_text(run_id, encoding="utf-8"))


def _entry(output_dir: Path, key: str) -> Path:
    return output_dir / "cache" / "finished" / key


def _data_files(config: Mapping[str, Any]) -> list[Path]:
    """Return every file that the dataset may be read from; at most one more than `MAX_FILES`."""
    node = config["dataset"]
    if node.get("_target_") in GENERATED:
        return []
    if node.get("_target_") == OWN_FILES:
        paths = [Path(str(node[key])) for key in ("path", "edges") if node.get(key)]
        return [file for path in paths for file in (sorted(path.iterdir()) if path.is_dir() else [path])]
    return sorted(islice(_walk(data_root(config["data_root"])), MAX_FILES + 1))


def _walk(folder: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(folder, followlinks=True):
        yield from (Path(parent) / name for name in names)


def _stamp(path: Path) -> tuple[str, int, int, int, int]:
    """Return what differs if a file has changed. Its ctime also differs if its other times have been set back."""
    status = path.stat()
    return str(path.absolute()), status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
