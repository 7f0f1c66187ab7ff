"""Where raw datasets lie, and what a user is told when one cannot be had."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs
from filelock import FileLock

from lopgpn_exp.errors import InputError


def data_root(configured: str | None = None) -> Path:
    """The config's `data_root`, else `LOPGPN_DATA`, else a folder of the user's cache."""
    chosen = configured or os.environ.get("LOPGPN_DATA")
    return Path(chosen).expanduser() if chosen else platformdirs.user_cache_path("lopgpn_exp") / "data"


@contextmanager
def fetching(dataset: str, wanted: Path, root: Path) -> Iterator[Path]:
    """Hold the download lock of a dataset, with a scratch folder inside `root` to download into.

    A process that waited finds the file already there (check again inside). Whatever goes wrong inside becomes one
    message that names the file to put in place by hand.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        scratch = root / ".download" / dataset
        scratch.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"the data root {root} cannot be written ({error.strerror})",
            expected=f"a folder to download {dataset} into, or one that already holds {wanted.relative_to(root)}",
            hint="data_root=FOLDER, or set LOPGPN_DATA",
        ) from None
    with FileLock(scratch / "lock"):
        try:
            yield scratch
        except (Exception, SystemExit) as error:  # every HTTP client has exceptions of its own; OGB exits
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"{dataset} could not be downloaded ({type(error).__name__}: {str(error)[:200]})",
                expected=f"the file {wanted}",
                hint=f"put it there by hand, or use data_root=FOLDER with {wanted.relative_to(root)} in it",
            ) from None


def unreadable(path: Path, error: Exception) -> InputError:
    """What to say of a raw file that is there but cannot be parsed."""
    return InputError(
        f"{path} cannot be read ({type(error).__name__}: {str(error)[:200]})",
        expected="a complete file as its publisher offers it; this one looks truncated or altered",
        hint=f"delete it to download it again: rm -r '{path}'",
    )
