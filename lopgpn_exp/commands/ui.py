"""`lopgpn_exp ui`: serve the MLflow UI on the tracked runs, and print the links of its dashboards."""

from __future__ import annotations

import argparse
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import webbrowser
from contextlib import suppress
from functools import cache
from tempfile import TemporaryFile
from typing import IO

from lopgpn_exp.commands.dispatch import CommandResult
from lopgpn_exp.commands.shared import print_line
from lopgpn_exp.config.credentials import drop_hidden, hide_credentials, hide_in_text
from lopgpn_exp.errors import InputError
from lopgpn_exp.tracking import DEFAULT_EXPERIMENT, default_uri, read_dashboard_links
from lopgpn_exp.tracking.store import SERVERS

DESCRIPTION = "Serve the MLflow UI with the dashboards of all tracked runs. Ctrl-C stops it."
EXAMPLES = """examples:
  lopgpn_exp ui                      the runs of outputs/ on http://127.0.0.1:5000
  lopgpn_exp ui --open               ... and open the first dashboard in the browser
  lopgpn_exp ui --port 5001 --output-dir elsewhere
  lopgpn_exp ui --host 0.0.0.0       for other machines too; the server has no authentication
  lopgpn_exp ui --allowed-hosts runs.example.org     behind a proxy of this name
"""
START_TIMEOUT = 120  # seconds for the server to answer
STOP_TIMEOUT = 10
LOCALHOST = "127.0.0.1"
ALL_ADDRESSES = "0.0.0.0"
LOCAL_NAMES = ("localhost", LOCALHOST, "[::1]")
EXPOSURE = """
warning: everybody who can reach this port sees all runs, artifacts and config values, and can change and delete them.
  There is no authentication. Use it in a network that you trust, or an SSH tunnel to a server on this machine only:
  ssh -L {port}:{local}:{port} {name}"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--uri", help="database of runs in another place, as in tracking.uri")
    parser.add_argument("--host", default=LOCALHOST, help="address to listen on (%(default)s: this machine only)")
    parser.add_argument(
        "--allowed-hosts",
        type=lambda text: [name.strip() for name in text.split(",")],
        default=[],
        metavar="NAMES",
        help="further names under which browsers reach the server, separated by commas; requests to any name but "
        "these and those of this machine are refused",
    )
    parser.add_argument("--port", type=int, default=5000, help="port to listen on (%(default)s)")
    parser.add_argument(
        "--experiment", default=DEFAULT_EXPERIMENT, help="MLflow experiment with the dashboards (%(default)s)"
    )
    parser.add_argument("--open", action="store_true", help="open the first dashboard in the browser")


def execute(options: argparse.Namespace) -> CommandResult:
    _check_port(options.host, options.port)
    _check_allowed_hosts(options.allowed_hosts)
    uri = _store_uri(options)
    links = read_dashboard_links(options.uri, options.experiment, options.output_dir)
    with TemporaryFile("w+") as log:
        server = _start_server(options, uri, log)
        return CommandResult(exit_code=_serve(server, log, options, links))


def _serve(server: subprocess.Popen[bytes], log: IO[str], options: argparse.Namespace, links: dict[str, str]) -> int:
    """Wait until the server stops or is interrupted; return its exit code."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it in background jobs
    base = f"http://{LOCALHOST if options.host == ALL_ADDRESSES else options.host}:{options.port}"
    try:
        _wait_until_ready(server, log, f"{base}/health")
        print_line(f"\nMLflow is on {base}   (Ctrl-C stops it)")
        width = max(map(len, links), default=0)
        for name, link in links.items():
            print_line(f"  {name:{width}}  {base}{link}")
        if not links:
            print_line("  no dashboards yet: the first tracked run creates them")
        _print_exposure(options)
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


def _check_allowed_hosts(names: list[str]) -> None:
    for name in names:
        if not re.fullmatch(r"[\w.*:\[\]-]*\w[\w.*:\[\]-]*", name):
            raise InputError(
                f"--allowed-hosts contains {name!r}",
                expected="names of this server, separated by commas; any name would let foreign websites use it",
                hint="--allowed-hosts runs.example.org",
            )


def _store_uri(options: argparse.Namespace) -> str:
    uri = default_uri(options.output_dir) if options.uri is None else drop_hidden(options.uri)
    if uri.startswith(SERVERS):
        raise InputError(
            f"--uri is {hide_credentials(uri)}", expected="a database; a server can be opened in a browser directly"
        )
    if ":" not in uri:
        raise InputError(
            f"--uri is {uri!r}", expected="the address of a database", hint="--uri sqlite:///outputs/mlflow.db"
        )
    return uri


@cache  # looking up names may take seconds
def machine_names(host: str) -> list[str]:
    """Return the names and addresses under which other machines may reach a server that listens on `host`."""
    if _is_local(host):
        return []
    names = [socket.gethostname(), socket.getfqdn()]
    if host == ALL_ADDRESSES:
        with suppress(OSError):  # the host name is not in DNS
            names += socket.gethostbyname_ex(socket.gethostname())[2]
        with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("192.0.2.1", 9))  # sends no packet, but selects the address of the outgoing interface
            names.append(probe.getsockname()[0])
    else:
        names.insert(0, host)
    # A machine without a name in DNS is called like 1.0.0...ip6.arpa.
    return [name for name in dict.fromkeys(map(str.lower, names)) if not _is_local(name) and "arpa" not in name]


def _is_local(host: str) -> bool:
    return host.startswith(("127.", "localhost"))


def _print_exposure(options: argparse.Namespace) -> None:
    """Print the addresses for other machines, and what they can do there."""
    if names := machine_names(options.host):
        addresses = [f"http://{name}:{options.port}" for name in names]
        print_line(f"from other machines: {', '.join(addresses)}")
        print_line(EXPOSURE.format(port=options.port, local=LOCALHOST, name=names[0]))


def server_command(options: argparse.Namespace) -> list[str]:
    """Return the command that starts MLflow's server, which answers only to its own names, with any port.

    A request under another name comes from a foreign website that uses the browser of a visitor (DNS rebinding).
    """
    names = dict.fromkeys([*LOCAL_NAMES, *machine_names(options.host), *map(str.lower, options.allowed_hosts)])
    # MLflow matches names with a port as patterns, in which [[] is a bracket.
    hosts = [pattern for name in names for pattern in (name, name.replace("[", "[[]") + ":*")]
    origins = [f"{scheme}://{pattern}" for scheme in ("http", "https") for pattern in hosts]
    command = [sys.executable, "-m", "mlflow", "server", "--workers", "1"]
    command += ["--host", options.host, "--port", str(options.port)]
    command += ["--allowed-hosts", ",".join(hosts), "--cors-allowed-origins", ",".join(origins)]
    return [*command, "--default-artifact-root", (options.output_dir / "mlartifacts").resolve().as_uri()]


def _start_server(options: argparse.Namespace, uri: str, log: IO[str]) -> subprocess.Popen[bytes]:
    # The address of the store may contain a password, which all users of the machine would see in a command line.
    settings = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_BACKEND_STORE_URI": uri}
    settings["PYTHONSAFEPATH"] = "1"  # no modules from the current folder, which may be somebody else's
    return subprocess.Popen(
        server_command(options),
        env=os.environ | settings,
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
            reason = hide_in_text(" ".join(last))
            raise InputError(f"the MLflow server stopped: {reason}", expected="a store that it can serve")
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
