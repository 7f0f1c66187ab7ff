"""Runs as one zip file, to take results from one machine to another."""

from __future__ import annotations

import lzma
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from lopgpn_exp.errors import InputError
from lopgpn_exp.records import NAME
from lopgpn_exp.runs.checksums import CHECKSUM_FILE, has_checksums, read_checksums, read_verified, verify
from lopgpn_exp.runs.run_folder import damaged_file, is_complete, read_result
from lopgpn_exp.runs.storage import atomic_folder, atomic_write

CHECKPOINT = "model.ckpt"
SUFFIXES = ("", ".ckpt", ".html", ".json", ".parquet", ".pdf", ".png", ".svg", ".txt", ".yaml")  # of a run's files
CHUNK_BYTES = 2**20
DEFAULT_LIMIT_GIB = 10.0
MAX_EXPANSION, ALWAYS_ALLOWED_BYTES = 50, 2**26  # packed runs shrink by a factor below 10
EXPECTED = "an archive of packed runs, as made by lopgpn_exp results --pack"
# A damaged, encrypted or unusually compressed archive raises any of these.
READ_ERRORS = (OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error, lzma.LZMAError)


def pack_runs(file: Path, output_dir: Path, run_ids: Collection[str], *, with_models: bool = False) -> None:
    """Write the folders of some runs to a zip file; checkpoints, the largest part, only if asked for."""

    def write(temporary: Path) -> None:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
            for run_id in run_ids:
                for path in _files_to_pack(output_dir / "runs" / run_id, with_models):
                    archive.writestr(f"{run_id}/{path.name}", _read_to_pack(path))

    atomic_write(file, write)


def unpack_runs(file: Path, output_dir: Path, *, limit_gib: float = DEFAULT_LIMIT_GIB) -> tuple[int, int]:
    """Extract packed runs into an output folder; returns how many were new and how many were there already.

    Each run is extracted completely or not at all.

    Args:
        limit_gib: refuse an archive that needs more space than this.
    """
    with _wrap_read_errors(file), zipfile.ZipFile(file) as archive:
        members = _list_members(archive, file)
        new = [run_id for run_id in members if not is_complete(output_dir / "runs" / run_id)]
        _check_size([info for run_id in new for info in members[run_id]], file, limit_gib)
        for run_id in new:
            with atomic_folder(output_dir / "runs" / run_id) as temporary:
                for info in members[run_id]:
                    _extract(archive, info, temporary / info.filename.rpartition("/")[2])
                _check_run(temporary, run_id)
    return len(new), len(members) - len(new)


def _files_to_pack(folder: Path, with_models: bool) -> Iterator[Path]:
    """Yield the files that the run wrote. A symbolic link may point to anything, so it is not followed."""
    written = {CHECKSUM_FILE, *read_checksums(folder)} if has_checksums(folder) else None
    for path in sorted(folder.iterdir()):
        is_wanted = path.suffix in SUFFIXES and (with_models or path.name != CHECKPOINT)
        if is_wanted and (written is None or path.name in written) and path.is_file() and not path.is_symlink():
            yield path


def _read_to_pack(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.name == CHECKSUM_FILE else read_verified(path)
    except ValueError as error:
        raise damaged_file(path, error) from None


def _list_members(archive: zipfile.ZipFile, file: Path) -> dict[str, list[zipfile.ZipInfo]]:
    """Return the files in an archive by run id."""
    members: dict[str, list[zipfile.ZipInfo]] = {}
    names = set()
    for info in archive.infolist():
        run_id, _, name = info.filename.partition("/")
        is_valid = NAME.fullmatch(run_id) and NAME.fullmatch(name) and Path(name).suffix in SUFFIXES
        if not is_valid or info.filename in names:
            raise InputError(f"{file} contains {info.filename[:200]!r}", expected=EXPECTED)
        names.add(info.filename)
        members.setdefault(run_id, []).append(info)
    return members


def _check_size(infos: list[zipfile.ZipInfo], file: Path, limit_gib: float) -> None:
    size = sum(info.file_size for info in infos)
    if size > max(ALWAYS_ALLOWED_BYTES, MAX_EXPANSION * file.stat().st_size):
        raise InputError(
            f"{file} would take {size / 2**30:.2f} GiB, {size / file.stat().st_size:,.0f} times its own size",
            expected=f"at most {MAX_EXPANSION} times: {EXPECTED}",
        )
    if size > limit_gib * 2**30:
        raise InputError(
            f"{file} would take {size / 2**30:.2f} GiB",
            expected=f"at most {limit_gib:g} GiB",
            parameter="max_gib",
            suggestion=f"{size / 2**30 + 1:.0f}",
        )


def _extract(archive: zipfile.ZipFile, info: zipfile.ZipInfo, target: Path) -> None:
    """Extract a file in chunks, and not more of it than the archive declares."""
    remaining = info.file_size
    with archive.open(info) as source, target.open("wb") as sink:
        while chunk := source.read(CHUNK_BYTES):
            remaining -= len(chunk)
            if remaining < 0:
                raise ValueError(f"{info.filename} is larger than declared")
            sink.write(chunk)


def _check_run(folder: Path, run_id: str) -> None:
    """Check an extracted run: its id, its result, and all files that it has checksums for."""
    read_result(folder, run_id=run_id)
    for path in folder.iterdir():
        if path.name != CHECKSUM_FILE:
            verify(path)


@contextmanager
def _wrap_read_errors(file: Path) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        if EXPECTED in error.expected or error.parameter:  # about the archive, or about an option
            raise
        raise InputError(f"{file} contains a damaged run ({error.what})", expected=EXPECTED) from None
    except READ_ERRORS as error:
        raise InputError(f"{file} cannot be read ({error or type(error).__name__})", expected=EXPECTED) from None
