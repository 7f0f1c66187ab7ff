"""The ui command: it waits until the server answers, prints the dashboards, and stops all its processes."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from lopgpn_exp.commands import ui
from lopgpn_exp.tracking.store import ui_command
from tests.support import ROOT, TRACKED


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def error_message(command):
    """Return a function that runs the command with wrong options and returns what it prints to stderr."""

    def call(*words: str) -> str:
        code, _, err = command("ui", *words)
        assert code == 2
        assert "Traceback" not in err
        return err

    return call


def test_missing_database_is_one_message_and_creates_none(error_message, tmp_path):
    message = error_message("--output-dir", str(tmp_path), "--port", str(free_port()))
    assert f"there is no {tmp_path / 'mlflow.db'}" in message
    assert "expected: the database of at least one tracked run" in message
    assert "try:      --output-dir DIR" in message
    assert not list(tmp_path.iterdir())  # an empty database would look like lost runs


def test_missing_database_of_an_address_suggests_another_address(error_message):
    message = error_message("--uri", "sqlite:///missing.db", "--port", str(free_port()))
    assert "try:      --uri sqlite:///outputs/mlflow.db" in message
    assert "--output-dir" not in message


def test_busy_port_is_one_message_with_another_port(error_message, tmp_path):
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        message = error_message("--output-dir", str(tmp_path), "--port", str(port))
    assert f"127.0.0.1:{port} cannot be used" in message
    assert f"try:      --port {port + 1}" in message


@pytest.mark.parametrize("port", ["0", "70000"])
def test_port_out_of_range_is_one_message(error_message, port):
    assert "a number from 1 to 65535" in error_message("--port", port)


def test_server_is_not_served_again(error_message):
    message = error_message("--uri", "http://127.0.0.1:1", "--port", str(free_port()))
    assert "a server can be opened in a browser directly" in message


@pytest.mark.parametrize("uri", ["", "nonsense", "foo://bar", "sqlite:///typo.db", "postgresql://u:p@127.0.0.1:1/x"])
def test_address_of_no_database_is_one_message_and_creates_none(error_message, tmp_path, uri):
    error_message("--uri", uri, "--port", str(free_port()))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("uri", "output_dir", "expected"),
    [
        (None, "outputs", "lopgpn_exp ui"),
        (None, "my runs", "lopgpn_exp ui --output-dir 'my runs'"),
        ("http://127.0.0.1:5000", "outputs", None),  # a server needs no other
        ("sqlite:////x/y.db", "outputs", "lopgpn_exp ui --uri sqlite:////x/y.db"),
    ],
)
def test_command_that_serves_a_store(uri, output_dir, expected):
    default = f"sqlite:///{output_dir}/mlflow.db"
    assert ui_command(uri or default, Path(output_dir), is_default=uri is None) == expected


def test_file_that_is_not_a_database_is_one_message(error_message, tmp_path):
    (tmp_path / "mlflow.db").write_text("not a database")
    assert "MLflow cannot be used at" in error_message("--output-dir", str(tmp_path), "--port", str(free_port()))


@pytest.mark.filterwarnings("ignore")  # MLflow's own
def test_ui_serves_prints_and_opens_the_dashboards_and_stops_everything(command, tracked_outputs, tmp_path):
    """With the command of the README and the real server."""
    (words,) = re.findall(r"^lopgpn_exp (ui .*?)(?: +#.*)?$", (ROOT / "README.md").read_text(), re.M)
    assert command(*TRACKED, "model=gkde")[0] == 0
    browser = tmp_path / "browser.py"
    browser.write_text("import pathlib, sys; pathlib.Path('opened').write_text(sys.argv[1])")
    environment = os.environ | {"PYTHONPATH": str(ROOT), "BROWSER": f"{sys.executable} {browser} %s"}
    port = free_port()
    program = [sys.executable, "-m", "lopgpn_exp", *words.split(), "--port", str(port)]
    with subprocess.Popen(program, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            lines = iter(server.stdout.readline, "")
            assert next(line for line in lines if line.strip()).startswith(f"MLflow is on http://127.0.0.1:{port} ")
            match = re.fullmatch(r"  single runs  (http://\S+)\n", next(lines))
            assert match
            link = match[1]
            with urllib.request.urlopen(link.partition("#")[0], timeout=10) as answer:
                assert b"MLflow" in answer.read()
            foreign = urllib.request.Request(link.partition("#")[0], headers={"Host": f"evil.example:{port}"})
            with pytest.raises(urllib.error.HTTPError, match="403"):
                urllib.request.urlopen(foreign, timeout=10)
        finally:
            server.send_signal(signal.SIGINT)
            assert server.wait(timeout=30) == 0
    assert (tmp_path / "opened").read_text() == link
    assert not answers(port)


# A server whose worker, a process of its own, is what answers.
SERVER = """
import http.server, os, sys, time
if os.fork():
    time.sleep(60)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), http.server.SimpleHTTPRequestHandler).serve_forever()
"""


@pytest.mark.filterwarnings("ignore")  # MLflow's own
@pytest.mark.parametrize(("stop", "exit_code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_signal_stops_the_server_and_its_workers(command, tracked_outputs, tmp_path, monkeypatch, stop, exit_code):
    (tmp_path / "health").write_text("OK")
    port = free_port()

    def start_server(options, uri, log):
        program = [sys.executable, "-c", SERVER, str(options.port)]
        return subprocess.Popen(program, start_new_session=True, stderr=subprocess.DEVNULL)

    def open_browser(address):
        assert answers(port)
        os.kill(os.getpid(), stop)

    monkeypatch.setattr(ui, "_start_server", start_server)
    monkeypatch.setattr("webbrowser.open", open_browser)
    code, out, err = command("ui", "--open", "--port", str(port))
    assert code == exit_code, err
    assert f"MLflow is on http://127.0.0.1:{port} " in out
    assert "no dashboards yet: the first tracked run creates them" in out
    deadline = time.monotonic() + 10
    while answers(port) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not answers(port)


def test_server_that_does_not_start_is_one_message(error_message, tracked_outputs, monkeypatch):
    def start_server(options, uri, log):
        log.write("first line\nno such store\n")
        return subprocess.Popen([sys.executable, "-c", "raise SystemExit(1)"])

    monkeypatch.setattr(ui, "_start_server", start_server)
    assert "the MLflow server stopped: no such store" in error_message("--port", str(free_port()))
