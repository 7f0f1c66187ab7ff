"""The folder of raw datasets, and errors about files that cannot be downloaded or read."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs
from filelock import FileLock

from lopgpn_exp.errors import InputError


def data_root(configured: str | None = None) -> Path:
    """Return `configured`, else the environment variable `LOPGPN_DATA`, else a folder in the user's cache."""
    folder = configured or os.environ.get("LOPGPN_DATA")
    return Path(folder).expanduser() if folder else platformdirs.user_cache_path("lopgpn_exp") / "data"


@contextmanager
def lock_download(dataset: str, target: Path, root: Path) -> Iterator[Path]:
    """Hold the download lock of a dataset and yield a scratch folder inside `root` to download into.

    Check for `target` again inside: another process may have downloaded it while this one waited. Any exception raised
    inside becomes an `InputError` that names the file to provide by hand.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        scratch = root / ".download" / dataset
        scratch.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"the data root {root} cannot be written ({error.strerror})",
            expected=f"a folder to download {dataset} into, or one that contains {target.relative_to(root)}; "
            "it is set by data_root or the environment variable LOPGPN_DATA",
            parameter="data_root",
            suggestion="FOLDER",
        ) from None
    with FileLock(scratch / "lock"):
        try:
            yield scratch
        except InputError:
            raise
        except (Exception, SystemExit) as error:  # every HTTP client raises its own exceptions, and OGB exits
            raise InputError(
                f"{dataset} could not be downloaded ({type(error).__name__}: {str(error)[:200]})",
                expected=f"the file {target}, or a data root that contains {target.relative_to(root)}",
                parameter="data_root",
                suggestion="FOLDER",
            ) from None


def unreadable_file_error(path: Path, error: Exception) -> InputError:
    """Return the error for a raw file that exists but cannot be parsed."""
    return InputError(
        f"{path} cannot be read ({type(error).__name__}: {str(error)[:200]})",
        expected="a complete file as published; this one seems truncated or modified",
        hint=f"delete it to download it again: rm -r '{path}'",
    )
