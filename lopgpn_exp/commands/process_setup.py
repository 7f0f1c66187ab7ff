"""Set up the process that a command runs in, and undo that afterwards: signals, import path, output streams, logs."""

from __future__ import annotations

import io
import logging
import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from lopgpn_exp.errors import printable


class Terminated(BaseException):
    """SIGTERM was received."""


@contextmanager
def set_up_process() -> Iterator[None]:
    """Prepare this process for a command."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # idle torch threads do not spin on cores that kernels need
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # characters that the encoding lacks are escaped
            stream.reconfigure(errors="backslashreplace")
    with _raise_on_sigterm(), _escape_log_messages(), _exit_without_reader():
        yield


@contextmanager
def allow_imports_from_current_folder() -> Iterator[None]:
    """Make a user's modules in the current folder importable, whether started by `python -m` or by the script.

    Only for commands that need them: libraries try to import optional modules, and a folder from somebody else may
    contain a module of that name.
    """
    folder = os.getcwd()
    is_missing = not sys.flags.safe_path and not {"", folder} & set(sys.path)
    if is_missing:
        sys.path.append(folder)
    try:
        yield
    finally:
        if is_missing:
            sys.path.remove(folder)


@contextmanager
def _escape_log_messages() -> Iterator[None]:
    """Escape control characters in log messages, which may quote a file."""
    previous = logging.getLogRecordFactory()
    logging.setLogRecordFactory(_PrintableRecord)
    try:
        yield
    finally:
        logging.setLogRecordFactory(previous)


class _PrintableRecord(logging.LogRecord):
    """A log record without control characters."""

    def getMessage(self) -> str:  # noqa: N802
        return printable(super().getMessage())


@contextmanager
def _exit_without_reader() -> Iterator[None]:
    """Exit without a message, as other programs do, if nobody reads the output any more: `lopgpn_exp ... | head`."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        poll = select.poll()
        poll.register(sys.stdout, select.POLLOUT)
        if not any(event & select.POLLERR for _, event in poll.poll(0)):  # another pipe
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python writes what is left when it exits
        sys.exit(128 + signal.SIGPIPE)


@contextmanager
def _raise_on_sigterm() -> Iterator[None]:
    """Raise `Terminated` in the main thread on SIGTERM, so that a command can clean up."""

    def raise_terminated(signal_number: int, frame: FrameType | None) -> NoReturn:
        raise Terminated

    if threading.current_thread() is not threading.main_thread():  # only the main thread may set a handler
        yield
        return
    previous = signal.signal(signal.SIGTERM, raise_terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
