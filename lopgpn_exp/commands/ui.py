"""`lopgpn_exp ui`: serve the MLflow UI on the tracked runs, and print the links of its dashboards."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import webbrowser
from tempfile import TemporaryFile
from typing import IO

from lopgpn_exp.commands.dispatch import CommandResult
from lopgpn_exp.commands.shared import print_line
from lopgpn_exp.errors import InputError
from lopgpn_exp.tracking import default_uri, read_dashboard_links

DESCRIPTION = "Serve the MLflow UI with the dashboards of all tracked runs. Ctrl-C stops it."
EXAMPLES = """examples:
  lopgpn_exp ui                      the runs of outputs/ on http://127.0.0.1:5000
  lopgpn_exp ui --open               ... and open the first dashboard in the browser
  lopgpn_exp ui --port 5001 --output-dir elsewhere
  lopgpn_exp ui --host 0.0.0.0       for other machines too; the server has no authentication
"""
START_TIMEOUT = 120  # seconds for the server to answer
STOP_TIMEOUT = 10
LOCALHOST = "127.0.0.1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--uri", help="database of runs in another place, as in tracking.uri")
    parser.add_argument("--host", default=LOCALHOST, help="address to listen on (%(default)s: this machine only)")
    parser.add_argument("--port", type=int, default=5000, help="port to listen on (%(default)s)")
    parser.add_argument(
        "--experiment", default="lopgpn_exp", help="MLflow experiment with the dashboards (%(default)s)"
    )
    parser.add_argument("--open", action="store_true", help="open the first dashboard in the browser")


def execute(options: argparse.Namespace) -> CommandResult:
    _check_port(options.host, options.port)
    uri = _store_uri(options)
    links = read_dashboard_links(uri, options.experiment)
    with TemporaryFile("w+") as log:
        server = _start_server(options, uri, log)
        return CommandResult(exit_code=_serve(server, log, options, links))


def _serve(server: subprocess.Popen[bytes], log: IO[str], options: argparse.Namespace, links: dict[str, str]) -> int:
    """Wait until the server stops or is interrupted; return its exit code."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it in background jobs
    base = f"http://{LOCALHOST if options.host == '0.0.0.0' else options.host}:{options.port}"
    try:
        _wait_until_ready(server, log, f"{base}/health")
        print_line(f"\nMLflow is on {base}   (Ctrl-C stops it)")
        width = max(map(len, links), default=0)
        for name, link in links.items():
            print_line(f"  {name:{width}}  {base}{link}")
        if not links:
            print_line("  no dashboards yet: the first tracked run creates them")
        if options.open:
            webbrowser.open(base + next(iter(links.values()), ""))
        return server.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        _stop_server(server)


def _check_port(host: str, port: int) -> None:
    if not 0 < port < 2**16:
        raise InputError(f"--port is {port}", expected="a number from 1 to 65535", hint="--port 5000")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # the port of a server that just stopped is free
        try:
            probe.bind((host, port))
        except (OSError, OverflowError) as error:
            raise InputError(
                f"{host}:{port} cannot be used ({error})",
                expected="an address of this machine and a free port",
                hint=f"--port {port % (2**16 - 1) + 1}, or --host {LOCALHOST}",
            ) from None


def _store_uri(options: argparse.Namespace) -> str:

    uri = default_uri(options.output_dir) if options.uri is None else options.uri
    if uri.startswith(("http://", "https://")):
        raise InputError(f"--uri is {uri}", expected="a database; a server can be opened in a browser directly")
    if ":" not in uri:
        raise InputError(
            f"--uri is {uri!r}", expected="the address of a database", hint="--uri sqlite:///outputs/mlflow.db"
        )
    return uri


def _start_server(options: argparse.Namespace, uri: str, log: IO[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", uri, "--workers", "1"]
    command += ["--host", options.host, "--port", str(options.port)]
    if options.host not in (LOCALHOST, "localhost"):
        command += ["--allowed-hosts", "*"]  # other machines use other names for this one
    command += ["--default-artifact-root", (options.output_dir / "mlartifacts").resolve().as_uri()]
    return subprocess.Popen(
        command,
        env=os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
        stdout=subprocess.DEVNULL,
        stderr=log,
        start_new_session=True,  # a process group of its own, so that its workers are stopped with it
    )


def _wait_until_ready(server: subprocess.Popen[bytes], log: IO[str], address: str) -> None:
    end = time.monotonic() + START_TIMEOUT
    while time.monotonic() < end:
        if server.poll() is not None:
            log.seek(0)
            last = log.read().strip().splitlines()[-1:]
            raise InputError(f"the MLflow server stopped: {' '.join(last)}", expected="a store that it can serve")
        try:
            with urllib.request.urlopen(address, timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.3)
    raise InputError(f"the MLflow server did not answer within {START_TIMEOUT} s", expected="a less busy machine")


def _stop_server(server: subprocess.Popen[bytes]) -> None:
    if server.poll() is None:
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(timeout=STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
