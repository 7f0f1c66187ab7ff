"""A server for other machines says what it exposes, and answers to its own names only.

MLflow's own functions decide here; tests/commands/test_ui_command.py sends a foreign name to a real server.
"""

import argparse
import socket
import subprocess
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from lopgpn_exp.commands import ui

PORT = 5005
MACHINE = ("workstation", "workstation.example.org", "192.168.7.7")


@pytest.fixture(autouse=True)
def _machine(monkeypatch):
    """Let this machine have a name and an address in a network, as an ordinary computer has."""
    monkeypatch.setattr(socket, "gethostname", lambda: "Workstation")
    monkeypatch.setattr(socket, "getfqdn", lambda: "workstation.example.org")
    monkeypatch.setattr(socket, "gethostbyname_ex", lambda name: (name, [], ["127.0.1.1", "192.168.7.7"]))
    ui.machine_names.cache_clear()
    yield
    ui.machine_names.cache_clear()


def patterns(option: str, *, host: str, allowed: tuple[str, ...] = ()) -> list[str]:
    """Return the value of an option of the server that the command starts."""
    options = argparse.Namespace(host=host, port=PORT, allowed_hosts=list(allowed), output_dir=Path("outputs"))
    words = ui.server_command(options)
    return words[words.index(option) + 1].split(",")


def accepts(name: str, **options) -> tuple[bool, bool]:
    """Return whether MLflow answers a request to a name, and whether a page from there may change something."""
    from mlflow.server.security_utils import is_allowed_host_header, should_block_cors_request

    origins = patterns("--cors-allowed-origins", **options)
    return (
        is_allowed_host_header(patterns("--allowed-hosts", **options), name),
        not should_block_cors_request(f"http://{name}", "POST", origins),
    )


@pytest.mark.parametrize("name", [*MACHINE, "localhost", "127.0.0.1", "[::1]", "runs.example.org", "a.lab.example"])
def test_server_for_other_machines_answers_to_its_own_names(name):
    options = {"host": "0.0.0.0", "allowed": ("Runs.example.org", "*.lab.example")}
    assert accepts(name, **options) == (True, True)
    assert accepts(f"{name}:{PORT}", **options) == (True, True)
    assert accepts(f"{name}:{PORT + 1}", **options) == (True, True)  # a tunnel or a container with another port


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1", "192.168.7.7"])
@pytest.mark.parametrize(
    "name", ["evil.example", "10.evil.example", "localhost.evil.example", "workstation.evil.example"]
)
def test_foreign_website_is_refused(host, name):
    """It can make a visitor's browser send requests to this machine, under its own name (DNS rebinding)."""
    assert accepts(name, host=host) == (False, False)
    assert accepts(f"{name}:{PORT}", host=host) == (False, False)


def test_server_on_this_machine_has_no_other_names():
    assert accepts("workstation", host="127.0.0.1") == (False, False)
    assert accepts("localhost:8888", host="127.0.0.1") == (True, True)


@pytest.mark.parametrize("names", ["*", "*:*", "a,*", "", "a b"])
def test_any_name_cannot_be_allowed(command, names):
    code, _, err = command("ui", "--allowed-hosts", names, "--port", str(PORT))
    assert code == 2
    assert "--allowed-hosts contains" in err
    assert "try:      --allowed-hosts runs.example.org" in err


@pytest.fixture
def served(command, tracked_outputs, monkeypatch):
    """Return a function that prints what the command prints, without a server."""

    server = MagicMock(spec=subprocess.Popen)
    server.wait.return_value = 0
    monkeypatch.setattr(ui, "_start_server", lambda *_: server)
    monkeypatch.setattr(ui, "_stop_server", lambda server: None)
    monkeypatch.setattr(ui, "_wait_until_ready", lambda *_: None)
    monkeypatch.setattr(ui, "_check_port", lambda *_: None)
    return lambda *words: command("ui", *words)


@pytest.mark.filterwarnings("ignore")  # MLflow's own
def test_exposed_server_prints_its_addresses_and_a_warning(served):
    code, out, _ = served("--host", "0.0.0.0", "--port", str(PORT))
    assert code == 0
    assert f"MLflow is on http://127.0.0.1:{PORT} " in out
    for name in MACHINE:
        assert f"http://{name}:{PORT}" in out
    for text in ("all runs, artifacts and config values", "change and delete", "no authentication"):
        assert text in out
    assert f"ssh -L {PORT}:127.0.0.1:{PORT} workstation" in out
    assert "authentication" not in served("--port", str(PORT))[1]


def test_password_of_a_database_is_not_in_the_command_line(monkeypatch, tmp_path):
    """All users of a machine see the command lines of its processes."""
    start = MagicMock(return_value=MagicMock(spec=subprocess.Popen))
    monkeypatch.setattr("subprocess.Popen", start)
    options = argparse.Namespace(host="127.0.0.1", port=PORT, allowed_hosts=[], output_dir=tmp_path)
    with (tmp_path / "log.txt").open("w+") as log:
        ui._start_server(options, "postgresql://me:hunter22@db/runs", log)
    words, environment = start.call_args.args[0], start.call_args.kwargs["env"]
    assert "hunter22" not in " ".join(words)
    assert environment["MLFLOW_BACKEND_STORE_URI"] == "postgresql://me:hunter22@db/runs"
