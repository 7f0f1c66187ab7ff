"""Files that are either whole or not there."""

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

TABLES = {".csv": "to_csv", ".parquet": "to_parquet"}


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


def check_table_name(path: Path, option: str) -> None:
    """Before anything is computed: a name that says what to write."""
    if path.suffix not in TABLES:
        raise InputError(f"{option} {path}", expected="a name that ends in .csv or .parquet")


def write_table(path: Path, table: pd.DataFrame) -> None:
    """As CSV or parquet, by the name of the file."""
    write_at_once(path, lambda to: getattr(table, TABLES[path.suffix])(to, index=False))


def write_at_once(path: Path, write: Callable[[Path], object]) -> None:
    """A file that is whole or not there; what was there before stays until the new one is whole."""
    scratch = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        write(scratch)
        os.replace(scratch, path)
    except OSError as error:  # pandas has some without a reason of their own
        raise InputError(f"{path} cannot be written ({error.strerror or error})", expected="a writable place") from None
    finally:
        with suppress(OSError):
            scratch.unlink(missing_ok=True)


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
