"""Files that are either whole or not there."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lopgpn_exp.errors import InputError


@contextmanager
def folder_written_at_once(final: Path) -> Iterator[Path]:
    """A scratch folder that takes the place of `final` if the block ends without an error, and is gone otherwise."""
    scratch = final.with_name(f".{final.name}.{os.getpid()}")
    try:
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        yield scratch
        _replace_folder(scratch, final)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR):
            raise InputError(
                f"{final} cannot be written ({error.strerror})",
                expected="a writable folder with space left; nothing half-written was kept",
                hint="output_dir=FOLDER",
            ) from None
        raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """NaN and infinity are refused: they are no JSON and no result."""
    path.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n")


def link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _replace_folder(scratch: Path, final: Path) -> None:
    old = final.with_name(f".{final.name}.{os.getpid()}.old")
    if final.exists():
        os.rename(final, old)
    os.rename(scratch, final)
    shutil.rmtree(old, ignore_errors=True)
