"""Names of files and folders that are being written, and the removal of those that a killed process left behind."""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def _pid_namespace() -> int:
    """Return the id of the pid namespace: a container may share the name of its host, but not its process ids."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:  # not on Linux
        return 0


HOST = re.sub(r"[^A-Za-z0-9-]", "-", f"{socket.gethostname()[:63]}-{_pid_namespace()}")
SCRATCH_NAME = re.compile(r"\.(?P<name>.+)\.(?P<host>[A-Za-z0-9-]*)\.(?P<pid>\d+)\.(?P<kind>partial|replaced)(\.\w+)?")


def partial_path(final: Path) -> Path:
    """Return where this process writes a file or folder before it gets its final name; the suffix stays the same."""
    return final.with_name(f".{final.name}.{HOST}.{os.getpid()}.partial{final.suffix}")


def replaced_path(final: Path) -> Path:
    """Return where this process keeps an existing folder while a new one takes its place."""
    return final.with_name(f".{final.name}.{HOST}.{os.getpid()}.replaced")


def remove_abandoned(folders: Iterable[Path]) -> None:
    """Remove what processes of this machine left in some folders when they were killed.

    A folder that was being replaced gets its name back if the new one never got it.
    """
    for folder in folders:
        for path in sorted(folder.glob(".*.partial*")) + sorted(folder.glob(".*.replaced")):
            match = SCRATCH_NAME.fullmatch(path.name)
            if match is None or match["host"] != HOST or _is_alive(int(match["pid"])):
                continue
            final = path.with_name(match["name"])
            with suppress(OSError):  # another process may be removing it, or the disk may be read-only
                if match["kind"] == "replaced" and not final.exists():
                    path.rename(final)
                elif path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
