"""Checksums of the files in a folder, so that a damaged file is noticed before a number is read from it.

`SHA256SUMS` has the format of the tool sha256sum: `sha256sum -c SHA256SUMS` checks a folder by hand.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

CHECKSUM_FILE = "SHA256SUMS"


def write_checksums(folder: Path) -> None:
    """Write the checksums of all files in a folder, replacing those of an earlier version of it."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name != CHECKSUM_FILE)
    lines = [f"{_digest_file(path)}  {path.name}\n" for path in files]
    (folder / CHECKSUM_FILE).write_text("".join(lines), encoding="utf-8")


def has_checksums(folder: Path) -> bool:
    return (folder / CHECKSUM_FILE).is_file()


def read_verified(path: Path) -> bytes:
    """Return the content of a file after comparing it with the checksums of its folder.

    A folder without checksums was written before there were any, or by something else: it is read as it is.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if its content differs from its checksum, or if it has none while other files have.
    """
    content = path.read_bytes()
    _compare(path, hashlib.sha256(content).hexdigest())
    return content


def verify(path: Path) -> None:
    """Compare a file with the checksums of its folder as `read_verified` does, whatever its size."""
    _compare(path, _digest_file(path))


def read_checksums(folder: Path) -> dict[str, str]:
    """Return the checksums of a folder by file name."""
    lines = (folder / CHECKSUM_FILE).read_text(encoding="utf-8").splitlines()
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def _compare(path: Path, digest: str) -> None:
    if not has_checksums(path.parent):
        return
    digests = read_checksums(path.parent)
    if path.name not in digests:
        raise ValueError(f"it has no checksum in {CHECKSUM_FILE}")
    if digests[path.name] != digest:
        raise ValueError(f"its content differs from its checksum in {CHECKSUM_FILE}")


def _digest_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
