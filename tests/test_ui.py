"""`python -m lopgpn_exp.ui`: waits until the server answers, names the dashboards, and leaves nobody behind."""

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from lopgpn_exp import ui
from lopgpn_exp.experiment.tracking.store import ui_command
from tests.test_cli import command  # noqa: F401  (a fixture)
from tests.test_experiment import TINY

ROOT = Path(__file__).resolve().parents[1]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def told(capsys, *words: str) -> str:
    with pytest.raises(SystemExit) as stop:
        ui.main(list(words))
    assert stop.value.code == 2
    return capsys.readouterr().err


def test_a_store_that_is_not_there_is_one_message(capsys, tmp_path):
    message = told(capsys, "--output-dir", str(tmp_path), "--port", str(free_port()))
    assert f"there is no {tmp_path / 'mlflow.db'}" in message
    assert "try:      python -m lopgpn_exp" in message
    assert not list(tmp_path.iterdir())  # an empty store would look as if runs were lost


def test_a_busy_port_is_one_message_with_another_one(capsys, tmp_path):
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        message = told(capsys, "--output-dir", str(tmp_path), "--port", str(port))
    assert f"127.0.0.1:{port} cannot be used" in message
    assert "try:      --port " in message


@pytest.mark.parametrize("port", ["0", "70000"])
def test_a_port_that_cannot_be_is_one_message(capsys, port):
    assert "a number from 1 to 65535" in told(capsys, "--port", port)


def test_a_server_has_no_need_of_it(capsys):
    assert "a server is open in a browser already" in told(
        capsys, "--uri", "http://127.0.0.1:1", "--port", str(free_port())
    )


@pytest.mark.parametrize("uri", ["", "nonsense", "foo://bar", "sqlite:///typo.db", "postgresql://u:p@127.0.0.1:1/x"])
def test_a_uri_of_no_store_is_one_message_and_makes_none(capsys, tmp_path, monkeypatch, uri):
    monkeypatch.chdir(tmp_path)
    told(capsys, "--uri", uri, "--port", str(free_port()))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        (None, "python -m lopgpn_exp.ui"),
        ("http://127.0.0.1:5000", None),  # a server is never started again, wherever it is
        ("sqlite:////x/y.db", "python -m lopgpn_exp.ui --uri sqlite:////x/y.db"),
    ],
)
def test_what_to_type_fits_the_store(uri, expected):
    assert ui_command(uri or "sqlite:///outputs/mlflow.db", Path("outputs"), is_default=uri is None) == expected


def test_a_database_that_is_none_is_one_message(capsys, tmp_path):
    (tmp_path / "mlflow.db").write_text("not a database")
    assert "MLflow cannot be used at" in told(capsys, "--output-dir", str(tmp_path), "--port", str(free_port()))


@pytest.mark.filterwarnings("ignore")  # MLflow's own
@pytest.mark.parametrize(("kill", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_it_serves_names_the_dashboards_opens_the_first_and_stops_whole(command, tmp_path, kill, code):  # noqa: F811
    words = [text for text in TINY if text != "tracking=none"]
    assert command(*words, f"output_dir={tmp_path / 'outputs'}")[0] == 0
    browser = tmp_path / "browser.py"
    browser.write_text("import pathlib, sys; pathlib.Path('opened').write_text(sys.argv[1])")
    environment = os.environ | {"PYTHONPATH": str(ROOT), "BROWSER": f"{sys.executable} {browser} %s"}
    (line,) = re.findall(r"^python (-m lopgpn_exp\.ui .*?)(?: +#.*)?$", (ROOT / "README.md").read_text(), re.M)
    port = free_port()
    program = [sys.executable, *line.split(), "--port", str(port)]
    with subprocess.Popen(program, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            lines = iter(server.stdout.readline, "")
            assert next(line for line in lines if line.strip()).startswith(f"MLflow is on http://127.0.0.1:{port} ")
            match = re.fullmatch(r"  single runs  (http://\S+)\n", next(lines))
            assert match
            link = match[1]
            with urllib.request.urlopen(link.partition("#")[0], timeout=10) as answer:
                assert b"MLflow" in answer.read()
        finally:
            server.send_signal(kill)
            assert server.wait(timeout=30) == code
    assert (tmp_path / "opened").read_text() == link
    assert not answers(port)
