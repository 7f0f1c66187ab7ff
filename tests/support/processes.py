"""The program in a process of its own."""

from __future__ import annotations

import atexit
import contextlib
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import urllib.request
from collections.abc import Sequence
from pathlib import Path

HEAVY = (
    *("torch", "torch._dynamo", "torch_geometric", "pytorch_lightning", "mlflow", "matplotlib"),
    *("pandas", "sklearn", "scipy.stats", "scipy.signal", "numba"),
)
# Runs the package as `python -m` does, and prints in the end which of the libraries it imported.
PROBE = """
import atexit, runpy, sys
heavy, sys.argv = sys.argv[1].split(","), ["lopgpn_exp", *sys.argv[2:]]
atexit.register(lambda: print("imported:", *[name for name in heavy if name in sys.modules]))
runpy.run_module("lopgpn_exp", run_name="__main__", alter_sys=True)
"""
# Runs several command lines one after the other in one interpreter, which saves its start.
PROBE_SEVERAL = """
import contextlib, io, json, sys
from hydra.core.global_hydra import GlobalHydra
from lopgpn_exp.commands import main
heavy, lines, outcomes = sys.argv[1].split(","), json.loads(sys.argv[2]), []
for words in lines:
    GlobalHydra.instance().clear()
    code, output = 0, io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            main(words)
        except SystemExit as stop:
            code = stop.code
    outcomes.append([code, output.getvalue()])
print(json.dumps([outcomes, [name for name in heavy if name in sys.modules]]))
"""
# Imported once by the server that all processes of `Program` are forked from.
PRELOADED = [
    *("lopgpn_exp.commands.run", "lopgpn_exp.sweeps.run_sweep", "lopgpn_exp.runs.checkpoint", "lopgpn_exp.training"),
    *("lopgpn_exp.report.run_page", "lopgpn_exp.report.sweep_page", "lopgpn_exp.report.figures"),
    *("matplotlib.figure", "sklearn.metrics", "pyarrow.parquet", "joblib", "mlflow.tracking", "mlflow.store.db.utils"),
]


def run_program(folder: Path, *words: str) -> tuple[int, str, set[str]]:
    """Return the exit code, all output, and the heavy libraries that were imported."""
    command = [sys.executable, "-c", PROBE, ",".join(HEAVY), *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    out, _, imported = done.stdout.rpartition("imported:")
    return done.returncode, out + done.stderr, set(imported.split())


def run_command_lines(folder: Path, lines: Sequence[Sequence[str]]) -> tuple[list[tuple[int, str]], set[str]]:
    """Return the exit code and all output of each command line, and the heavy libraries that any of them imported."""
    command = [sys.executable, "-c", PROBE_SEVERAL, ",".join(HEAVY), json.dumps([list(line) for line in lines])]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    outcomes, imported = json.loads(done.stdout)
    return [(code, output) for code, output in outcomes], set(imported)


class Program:
    """The program in a process and a process group of its own, forked from a server that has imported its libraries.

    This saves the seconds that every new interpreter needs for its imports.
    """

    def __init__(self, folder: Path, *words: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        self._log = folder / f"log-{os.urandom(4).hex()}.txt"
        self._process = context.Process(target=_run_main, args=(folder, words, self._log))
        self._process.start()

    @property
    def is_running(self) -> bool:
        return self._process.is_alive()

    @property
    def output(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    def wait(self, timeout: float = 300) -> int:
        """Return the exit code of the program."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            self.kill()
            raise TimeoutError(f"the program still ran after {timeout} s: {self.output}")
        return self._process.exitcode

    def kill(self) -> None:
        """Send SIGKILL to the program and all processes that it has started."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:  # it has ended, or it has no group yet
            self._process.kill()
        self._process.join()


def _run_main(folder: Path, words: tuple[str, ...], log: Path) -> None:
    from lopgpn_exp.commands import main

    os.setsid()
    with log.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.chdir(folder)
    sys.argv = ["lopgpn_exp", *words]
    code = 0
    try:
        main()
    except SystemExit as stop:
        code = int(stop.code or 0)
    except BaseException:
        traceback.print_exc()
        code = 1
    # End like an interpreter: multiprocessing would wait for the workers of a sweep, which are stopped only here.
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(code)


def find_free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def wait_until_answering(address: str, server: subprocess.Popen, log: Path, *, seconds: float = 120) -> None:
    """Wait until a server answers; fail with its log if it ends before."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and server.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=5):
            return
        time.sleep(0.1)
    raise AssertionError(f"{address} does not answer\n{log.read_text()}")
