"""Pass many mutated files to a reader, and fail if one of them does anything but be refused or be read."""

from __future__ import annotations

import logging
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType
from typing import Any

import jaxtyping
import pytest

from lopgpn_exp.errors import InputError

MAX_SECONDS = 10.0
MAX_GROWTH_MIB = 2048
MAX_FAILURES = 5
TEMPORARY = os.path.join(os.path.realpath(tempfile.gettempdir()), tempfile.gettempprefix())  # files of libraries
# Audit events of starting a program, of loading what a pickle names, and of opening a connection.
FORBIDDEN_EVENTS = {
    *("os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "subprocess.Popen", "pty.spawn"),
    *("pickle.find_class", "socket.connect"),
}
CHANGING_EVENTS = {"os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.symlink", "os.link", "shutil.rmtree"}
# They evaluate annotations and generated methods.
EVALUATING_MODULES = ("typing", "dataclasses", "collections", "inspect", "jaxtyping._decorator")
Mutate = Callable[[random.Random], bytes]
Read = Callable[[bytes], Any]


class TookTooLongError(BaseException):
    """Raised by the alarm. Not an Exception, so that no reader takes it for damage of its file."""


@dataclass
class FuzzCounts:
    """What became of the mutated files of one format."""

    name: str
    files: int = 0
    refused: int = 0
    read: int = 0
    seconds: float = 0.0


class Fuzzer:
    """Reads mutated files, counts what becomes of them, and keeps each file with which something goes wrong.

    Args:
        scratch: the only folder in which files may be written.
        report: receives the counts of each format.
    """

    def __init__(self, scratch: Path, count: int, report: Callable[[dict[str, Any]], object]) -> None:
        self.scratch, self.count, self.report = scratch, count, report

    def run(self, name: str, mutate: Mutate, read: Read, *, check: Callable[[Any], object], share: int = 1) -> None:
        """Pass mutated files to `read`, which returns a value that passes `check` or raises an InputError.

        Args:
            name: of the format; with the number of a file, it is the seed of its mutation.
            check: raises an AssertionError about a value that must not be returned.
            share: divides the number of files, for readers that are slow.
        """
        counts, failures = FuzzCounts(name), []
        with record_actions(self.scratch) as actions:
            for number in range(max(self.count // share, 1)):
                content = mutate(random.Random(f"{name} {number}"))
                actions.clear()
                problem = self._read_one(content, read, check, counts)
                if problem or actions:
                    file = self.scratch / f"failing-{name.replace('/', '-').replace(' ', '-')}-{number}"
                    file.write_bytes(content)
                    failures.append(f"{name}, file {number}, kept as {file}:\n{problem}{actions or ''}")
                if len(failures) == MAX_FAILURES:
                    break
        self.report(asdict(counts))
        if failures:
            pytest.fail("\n\n".join(failures), pytrace=False)

    def _read_one(self, content: bytes, read: Read, check: Callable[[Any], object], counts: FuzzCounts) -> str:
        """Return what is wrong with how a file is read, empty if nothing is."""
        memory, start = _peak_mib(), time.perf_counter()
        problem = ""
        try:
            with limit_time(MAX_SECONDS):
                try:
                    value = read(content)
                except InputError as error:
                    str(error)
                    counts.refused += 1
                else:
                    check(value)
                    counts.read += 1
        except (Exception, TookTooLongError):
            problem = traceback.format_exc(limit=-6)
        seconds, growth = time.perf_counter() - start, _peak_mib() - memory
        counts.files += 1
        counts.seconds += seconds
        if seconds > MAX_SECONDS:
            problem += f"it took {seconds:.1f} s\n"
        if growth > MAX_GROWTH_MIB:
            problem += f"it took {growth:,.0f} MiB\n"
        return problem


def format_counts(rows: list[dict[str, Any]]) -> list[str]:
    """Return the counts of all formats as lines of a table, with the totals."""
    rows = sorted(rows, key=lambda row: row["name"])
    total = {key: sum(row[key] for row in rows) for key in ("files", "refused", "read", "seconds")}
    lines = [f"{'mutated files':<34}{'files':>8}{'refused':>9}{'read':>8}{'seconds':>9}"]
    return lines + [
        f"{row['name']:<34}{row['files']:>8,}{row['refused']:>9,}{row['read']:>8,}{row['seconds']:>9.1f}"
        for row in [*rows, {"name": "total", **total}]
    ]


@contextmanager
def limit_time(seconds: float) -> Iterator[None]:
    """Raise `TookTooLongError` if the block takes too long.

    Warnings, log messages and the checks of annotations, which exist only in tests, are switched off.
    """

    def stop(*_: Any) -> None:
        raise TookTooLongError(f"more than {seconds:g} s")

    previous = signal.signal(signal.SIGALRM, stop)
    level = logging.root.manager.disable
    jaxtyping.config.update("jaxtyping_disable", True)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            logging.disable(logging.CRITICAL)
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
        logging.disable(level)
        jaxtyping.config.update("jaxtyping_disable", False)


@contextmanager
def record_actions(scratch: Path) -> Iterator[list[str]]:
    """Yield a list that receives everything forbidden that happens inside the block.

    Forbidden are starting programs, executing text, importing packages that are not loaded yet (a file may have named
    them), connecting to another machine, and changing files outside of `scratch`.
    """
    _install_hook()
    recorder = _Recorder(scratch)
    _recorders.append(recorder)
    try:
        yield recorder.actions
    finally:
        _recorders.remove(recorder)


class _Recorder:
    def __init__(self, scratch: Path) -> None:
        self.scratch = str(scratch.resolve())
        self.actions: list[str] = []
        self.packages = {name.partition(".")[0] for name in sys.modules} | sys.stdlib_module_names

    def record(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._is_forbidden(event, arguments):
            caller = sys._getframe(2).f_globals.get("__name__")
            self.actions.append(f"{event} {str(arguments[:2])[:200]} by {caller}\n")

    def _is_forbidden(self, event: str, arguments: tuple[Any, ...]) -> bool:
        if event == "import":
            return str(arguments[0]).partition(".")[0] not in self.packages
        if event == "exec":
            is_text = isinstance(arguments[0], CodeType) and arguments[0].co_filename == "<string>"
            return is_text and sys._getframe(3).f_globals.get("__name__") not in EVALUATING_MODULES
        if event == "open":
            return bool(arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)) and self._is_elsewhere(arguments[0])
        if event == "ctypes.dlopen":  # threadpoolctl opens the libraries of installed packages
            return "/" in str(arguments[0]) and not str(arguments[0]).startswith((sys.prefix, sys.base_prefix, "/usr"))
        if event in CHANGING_EVENTS:
            return self._is_elsewhere(arguments[0])
        return event in FORBIDDEN_EVENTS

    def _is_elsewhere(self, path: Any) -> bool:
        if not isinstance(path, str | bytes | os.PathLike):  # a file that is open already
            return False
        name = os.path.realpath(os.fsdecode(path))
        return name != os.devnull and not name.startswith((self.scratch, TEMPORARY))


_recorders: list[_Recorder] = []
_is_installed = False


def _install_hook() -> None:
    """Install the hook once: there is no way to remove one."""
    global _is_installed
    if not _is_installed:
        sys.addaudithook(_hook)
        _is_installed = True


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    for recorder in _recorders:
        recorder.record(event, arguments)


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
