"""Check zip archives of unknown origin (`.npz`, `.pt`) before their content is read."""

from __future__ import annotations

import math
import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np

from lopgpn_exp.errors import InputError

MAX_EXPANSION = 200  # graphs shrink by a factor below 20; the format allows 1,000
ALWAYS_ALLOWED_BYTES = 2**28


def read_content_size(path: Path) -> int:
    """Return the size of an archive's uncompressed content; raise an InputError if it is out of proportion."""
    with zipfile.ZipFile(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
    file_size = path.stat().st_size
    if size > max(ALWAYS_ALLOWED_BYTES, MAX_EXPANSION * file_size):
        raise InputError(
            f"{file_size:,} bytes expand to {size:,} bytes",
            expected=f"an archive that expands to at most {MAX_EXPANSION} times its size",
            hint="write the file again without compression",
        )
    return size


def check_checksums(file: Path | BytesIO) -> None:
    """Raise a ValueError if a member of the archive is damaged; torch does not check this."""
    with zipfile.ZipFile(file) as archive:
        if (damaged := archive.testzip()) is not None:
            raise ValueError(f"the checksum of {damaged!r} in the archive is wrong")


def check_array_sizes(archive: np.lib.npyio.NpzFile) -> None:
    """Raise a ValueError if an array claims another size than it has; numpy allocates whatever it claims."""
    assert archive.zip is not None
    for member in archive.zip.infolist():
        shape, dtype, size = _read_header(archive.zip, member)
        # numpy never loads Python objects, which published files contain as additional information.
        if not dtype.hasobject and math.prod(shape) * dtype.itemsize != size:
            raise ValueError(f"{member.filename} has {size:,} bytes, not those of {dtype} with shape {shape}")


def _read_header(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> tuple[tuple[int, ...], np.dtype, int]:
    """Return the shape and type of an array, and the number of bytes after its header."""
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"{member.filename} has format version {version}, expected 1.0 or 2.0")
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
        if min(shape, default=0) < 0:
            raise ValueError(f"{member.filename} has shape {shape}")
        return shape, dtype, member.file_size - file.tell()
