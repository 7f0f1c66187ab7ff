"""Files and folders that are either complete or not there."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lopgpn_exp.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

TABLE_WRITERS = {".csv": "to_csv", ".parquet": "to_parquet"}
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR)


@contextmanager
def atomic_folder(final: Path) -> Iterator[Path]:
    """Yield a temporary folder that replaces `final` if the block succeeds, and is removed if it fails."""
    temporary = final.with_name(f".{final.name}.{os.getpid()}")
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        yield temporary
        _replace_folder(temporary, final)
    except OSError as error:
        if error.errno in UNWRITABLE:
            raise unwritable(final, error) from None
        raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def unwritable(folder: Path, error: OSError) -> InputError:
    return InputError(
        f"{folder} cannot be written ({error.strerror})",
        expected="a writable folder with free space",
        parameter="output_dir",
        suggestion="FOLDER",
    )


def atomic_write(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file so that it is complete or not there; an existing file stays until the new one is complete."""
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        write(temporary)
        os.replace(temporary, path)
    except OSError as error:  # pandas raises some without a reason
        raise InputError(f"{path} cannot be written ({error.strerror or error})", expected="a writable file") from None
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write JSON; NaN and infinity are refused, since neither is JSON."""
    path.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n")


def write_table(path: Path, table: pd.DataFrame) -> None:
    """Write a table as CSV or parquet, by the suffix of the file."""
    atomic_write(path, lambda temporary: getattr(table, TABLE_WRITERS[path.suffix])(temporary, index=False))


def check_table_suffix(path: Path) -> None:
    """Check, before anything is computed, that the suffix of a file is one that `write_table` knows."""
    if path.suffix not in TABLE_WRITERS:
        raise InputError(f"{path} is not a table file", expected="a name that ends in .csv or .parquet")


def link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _replace_folder(temporary: Path, final: Path) -> None:
    old = final.with_name(f".{final.name}.{os.getpid()}.old")
    if final.exists():
        os.rename(final, old)
    os.rename(temporary, final)
    shutil.rmtree(old, ignore_errors=True)
