"""`python -m lopgpn_exp.ui`: the MLflow UI on the project's runs, with its dashboards' links."""

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
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from lopgpn_exp.errors import InputError, mistakes_told

EXAMPLES = """examples:
  python -m lopgpn_exp.ui                      the runs of outputs/ on http://127.0.0.1:5000
  python -m lopgpn_exp.ui --open               ... and the browser opened on the newest models
  python -m lopgpn_exp.ui --port 5001 --output-dir elsewhere
  python -m lopgpn_exp.ui --host 0.0.0.0       for other machines too: the server asks nobody who they are
"""
PATIENCE = 120  # seconds for the server to answer
LOCAL = "127.0.0.1"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m lopgpn_exp.ui",
        description="The MLflow UI with the dashboards of all tracked runs. Ctrl-C stops it.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--output-dir", type=Path, default=Path("outputs"), help="whose runs (default: outputs)")
    parser.add_argument("--uri", help="a database of runs elsewhere, as in tracking.uri")
    parser.add_argument("--host", default=LOCAL, help=f"address to listen on (default: {LOCAL}, this machine alone)")
    parser.add_argument("--port", type=int, default=5000)
    parser.add_argument("--experiment", default="lopgpn_exp", help="whose dashboards to list")
    parser.add_argument("--open", action="store_true", help="open the first dashboard in the browser")
    with mistakes_told():
        try:
            sys.exit(_serve(parser.parse_args(arguments)))
        except KeyboardInterrupt:  # before the server is there
            sys.exit(0)


def _serve(options: argparse.Namespace) -> int:
    """Until it is stopped; its exit code."""
    _check_port(options.host, options.port)
    uri = _store(options)
    links = _links(options, uri)
    base = f"http://{LOCAL if options.host == '0.0.0.0' else options.host}:{options.port}"
    with TemporaryFile("w+") as log:
        server = _start(options, uri, log)
        return _attend(server, log, base, links, options.open)


def _attend(server: subprocess.Popen, log: IO[str], base: str, links: dict[str, str], browse: bool) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # by way of the server's end, below
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job has it ignored
    try:
        _wait(server, log, f"{base}/health")
        _say(f"\nMLflow is on {base}   (Ctrl-C stops it)")
        width = max(map(len, links), default=0)
        addresses = {name: base + link for name, link in links.items()}
        for name, address in addresses.items():
            _say(f"  {name:{width}}  {address}")
        if not links:
            _say("  no dashboards yet: they come with the first tracked run")
        if browse:
            webbrowser.open(next(iter(addresses.values()), base))
        return server.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        _stop(server)


def _check_port(host: str, port: int) -> None:
    if not 0 < port < 2**16:
        raise InputError(f"--port is {port}", expected="a number from 1 to 65535", hint="--port 5000")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a server that has just stopped is no obstacle
        try:
            probe.bind((host, port))
        except (OSError, OverflowError) as error:
            raise InputError(
                f"{host}:{port} cannot be used ({error})",
                expected="an address of this machine and a port that nobody listens on",
                hint=f"--port {port % (2**16 - 1) + 1}, or --host {LOCAL}",
            ) from None


def _store(options: argparse.Namespace) -> str:
    """The address of the store to serve."""
    from lopgpn_exp.experiment.tracking import default_uri

    uri = default_uri(options.output_dir) if options.uri is None else options.uri
    if uri.startswith(("http://", "https://")):
        raise InputError(f"--uri is {uri}", expected="a database; a server is open in a browser already")
    if ":" not in uri:
        raise InputError(f"--uri is {uri!r}", expected="a database's address", hint="--uri sqlite:///outputs/mlflow.db")
    return uri


def _links(options: argparse.Namespace, uri: str) -> dict[str, str]:
    from lopgpn_exp.experiment.tracking import dashboard_links

    return dashboard_links(uri, options.experiment)


def _start(options: argparse.Namespace, uri: str, log: IO[str]) -> subprocess.Popen:
    quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    words = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", uri, "--workers", "1"]
    words += ["--host", options.host, "--port", str(options.port)]
    if options.host not in (LOCAL, "localhost"):
        words += ["--allowed-hosts", "*"]  # whoever asks for other machines means them by their names too
    words += ["--default-artifact-root", (options.output_dir / "mlartifacts").resolve().as_uri()]
    return subprocess.Popen(
        words,
        env=os.environ | quiet,
        stdout=subprocess.DEVNULL,
        stderr=log,
        start_new_session=True,  # its workers are its own: they are stopped with it
    )


def _wait(server: subprocess.Popen, log: IO[str], address: str) -> None:
    """Until the server answers."""
    end = time.monotonic() + PATIENCE
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
    raise InputError(f"the MLflow server did not answer within {PATIENCE} s", expected="a machine that is less busy")


def _stop(server: subprocess.Popen) -> None:
    if server.poll() is None:
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
