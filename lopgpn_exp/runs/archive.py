"""Runs as one zip file, to take results from one machine to another."""

from __future__ import annotations

import zipfile
from collections.abc import Collection
from pathlib import Path

from lopgpn_exp.errors import InputError
from lopgpn_exp.runs.run_folder import is_complete, read_result
from lopgpn_exp.runs.storage import atomic_folder, atomic_write


def pack_runs(file: Path, output_dir: Path, run_ids: Collection[str], *, with_models: bool = False) -> None:
    """Write the folders of some runs to a zip file; checkpoints, the largest part, only if asked for."""

    def write(temporary: Path) -> None:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
            for run_id in run_ids:
                for path in sorted((output_dir / "runs" / run_id).iterdir()):
                    if with_models or path.name != "model.ckpt":
                        archive.write(path, f"{run_id}/{path.name}")

    atomic_write(file, write)


def unpack_runs(file: Path, output_dir: Path) -> tuple[int, int]:
    """Extract packed runs into an output folder; returns how many were new and how many were there already.

    Each run is extracted completely or not at all.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            members = _members(archive, file)
            new = [run_id for run_id in members if not is_complete(output_dir / "runs" / run_id)]
            for run_id in new:
                with atomic_folder(output_dir / "runs" / run_id) as temporary:
                    for name in members[run_id]:
                        (temporary / name).write_bytes(archive.read(f"{run_id}/{name}"))
                    _check_result(temporary, file)
    except (OSError, zipfile.BadZipFile) as error:
        raise InputError(f"{file} cannot be read ({error})", expected="an archive of packed runs") from None
    return len(new), len(members) - len(new)


def _check_result(folder: Path, file: Path) -> None:
    try:
        read_result(folder)
    except InputError as error:
        raise InputError(
            f"{file} contains a damaged run ({error.what})", expected="an archive of packed runs"
        ) from None


def _members(archive: zipfile.ZipFile, file: Path) -> dict[str, list[str]]:
    """Return the file names in an archive by run id."""
    members: dict[str, list[str]] = {}
    for name in archive.namelist():
        run_id, _, rest = name.partition("/")
        if not rest or "/" in rest or not run_id or run_id.startswith("."):
            raise InputError(f"{file} contains {name!r}", expected="an archive of packed runs")
        members.setdefault(run_id, []).append(rest)
    return members
