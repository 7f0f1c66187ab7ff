"""Files and folders that are either complete or not there."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from lopgpn_exp.errors import InputError
from lopgpn_exp.runs.checksums import read_verified, write_checksums
from lopgpn_exp.scratch import partial_path, remove_abandoned, replaced_path

if TYPE_CHECKING:
    import pandas as pd

TABLE_SUFFIXES = (".csv", ".parquet")
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\n")
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR)
LOCK_FOLDER = ".locks"
SUBFOLDERS = ("runs", "trainings", "sweeps", "advice", "cache", "recipes")  # of an output folder


@contextmanager
def atomic_folder(final: Path) -> Iterator[Path]:
    """Yield a temporary folder that replaces `final` if the block succeeds, and is removed if it fails.

    The folder gets checksums of its files (see `checksums`).
    """
    temporary = partial_path(final)
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        yield temporary
        write_checksums(temporary)
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


def create_output_dir(folder: Path) -> None:
    """Create an output folder, if there is none yet; raise an InputError if nothing can be written to it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise unwritable(folder, error) from None


@contextmanager
def lock(output_dir: Path, name: str, *, timeout: float = -1) -> Iterator[None]:
    """Hold a lock in an output folder: a second process that wants the same one waits until it is released.

    Args:
        timeout: seconds to wait before a `filelock.Timeout` is raised; negative: without end.
    """
    from filelock import FileLock  # deferred import: keeps --help fast

    try:
        folder = output_dir / LOCK_FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        file_lock = FileLock(folder / f"{name}.lock", timeout=timeout)
        file_lock.acquire()
    except OSError as error:
        if isinstance(error, TimeoutError):
            raise
        raise unwritable(output_dir, error) from None
    try:
        yield
    finally:
        file_lock.release()


def clean_output_dir(output_dir: Path) -> None:
    """Remove what killed processes left in an output folder."""
    remove_abandoned([output_dir, *(output_dir / name for name in SUBFOLDERS)])


def atomic_write(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file so that it is complete or not there; an existing file stays until the new one is complete."""
    temporary = partial_path(path)
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


def read_json(path: Path) -> Any:
    """Read what `write_json` wrote, after comparing it with its checksum; raises an OSError or a ValueError."""
    try:
        return json.loads(read_verified(path), parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def write_table(path: Path, table: pd.DataFrame) -> None:
    """Write a table as CSV or parquet, by the suffix of the file."""
    write = write_csv if path.suffix == ".csv" else _write_parquet
    atomic_write(path, lambda temporary: write(temporary, table))


def write_csv(path: Path, table: pd.DataFrame) -> None:
    """Write a CSV file in which a spreadsheet program finds no formula: such texts begin with an apostrophe."""
    texts = {name: table[name].map(_neutralise) for name in table.select_dtypes(exclude=["number", "bool"]).columns}
    table.assign(**texts).rename(columns=_neutralise).to_csv(path, index=False)


def check_table_file(path: Path) -> None:
    """Check, before anything is computed, that `write_table` knows the suffix of a file, and that its folder exists."""
    if path.suffix not in TABLE_SUFFIXES:
        raise InputError(f"{path} is not a table file", expected="a name that ends in .csv or .parquet")
    if not path.parent.is_dir():
        raise InputError(f"{path} cannot be written (there is no folder {path.parent})", expected="an existing folder")


def link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _write_parquet(path: Path, table: pd.DataFrame) -> None:
    table.to_parquet(path, index=False)


def _neutralise(value: Any) -> Any:
    """Return a text that is not a formula: numbers stay as they are, so that a class named -1 keeps its name."""
    if not isinstance(value, str):
        return value
    value = value.replace("\r\n", "\n").replace("\r", "\n")  # csv quotes a newline, but not a carriage return
    if not value.startswith(FORMULA_STARTS):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"it contains {name}, which is not a number")


def _replace_folder(temporary: Path, final: Path) -> None:
    """Give a folder its final name, also while other processes do the same."""
    old = replaced_path(final)
    while True:
        shutil.rmtree(old, ignore_errors=True)
        with suppress(FileNotFoundError):
            os.rename(final, old)
        try:
            os.rename(temporary, final)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):  # another process has just put its folder there
                continue
            with suppress(OSError):
                os.rename(old, final)
            raise
        shutil.rmtree(old, ignore_errors=True)
        return
