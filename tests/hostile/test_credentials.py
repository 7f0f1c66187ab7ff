"""A password in `tracking.uri` reaches the tracking store and nothing else."""

import zipfile
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from lopgpn_exp.config.plan import plan_run
from lopgpn_exp.runs.execute import locate_run
from lopgpn_exp.runs.run_folder import read_config
from lopgpn_exp.tracking import mlflow_experiment
from lopgpn_exp.tracking.store import connect, ui_command
from tests.support import TINY, TRACKED, compose
from tests.support.mlflow_store import MlflowStore

pytestmark = pytest.mark.filterwarnings("ignore")  # MLflow's own

SECRET = "hunter22"
SERVER = f"http://me:{SECRET}@tracking.example:5000/?token={SECRET}"
SINGLE = [*TRACKED, "model=gkde", f"tracking.uri='{SERVER}'"]


@pytest.fixture
def addresses(tracked_outputs, monkeypatch) -> list[str]:
    """Let the local database take the place of the server; return the addresses that were connected to."""
    used: list[str] = []

    def connect_locally(uri):
        used.append(uri)
        return connect(f"sqlite:///{tracked_outputs}/mlflow.db")

    monkeypatch.setattr(mlflow_experiment, "connect", connect_locally)
    return used


def files_with_the_secret(folder: Path) -> list[Path]:
    """Return the files that contain the password, zip files after unpacking them."""
    found = []
    for path in filter(Path.is_file, folder.rglob("*")):
        contents = [path.read_bytes()]
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                contents += [archive.read(name) for name in archive.namelist()]
        if any(SECRET.encode() in content for content in contents):
            found.append(path)
    return found


def test_password_is_in_no_file_no_output_and_not_in_mlflow(command, addresses, tmp_path, tracked_outputs):
    lines = [
        SINGLE,
        [*SINGLE, "split.index=0,1", "ood=none", "-m"],
        ["track", "--uri", SERVER],
        ["results", "--pack", "runs.zip"],
    ]
    for words in lines:
        code, out, err = command(*words)
        assert code == 0, err
        assert SECRET not in out + err
        if "--pack" not in words:
            assert "http://tracking.example:5000/" in out  # the links of the dashboards work in a browser
            assert "***" not in out
    assert addresses == 3 * [SERVER]
    assert files_with_the_secret(tmp_path) == []  # the database included
    run, *_ = MlflowStore(tracked_outputs).search("tags.kind = 'run'")
    assert run.data.params["tracking.uri"] == "http://***@tracking.example:5000/?token=***"


def test_failure_while_tracking_does_not_show_the_password(command, addresses, monkeypatch):
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    def fail(*_, **__):
        raise MlflowException(f"API request to {SERVER}/api/2.0 failed: bad port '{SECRET}'")

    monkeypatch.setattr(MlflowClient, "create_run", fail)
    code, out, err = command(*SINGLE)
    assert code == 0
    assert SECRET not in out + err
    assert "lopgpn_exp track --uri 'http://***@tracking.example:5000/?token=***'" in err


def test_mlflow_prints_no_link_of_its_own(tracked_outputs, monkeypatch, capsys):
    """It would print the address of the server, with the password, whenever a run ends."""
    from mlflow.store.tracking.rest_store import RestStore
    from mlflow.tracking import MlflowClient

    monkeypatch.delenv("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", raising=False)
    monkeypatch.setattr(RestStore, "get_run", MagicMock())
    monkeypatch.setattr(RestStore, "update_run_info", MagicMock())
    connect(f"sqlite:///{tracked_outputs}/mlflow.db")
    MlflowClient(SERVER).set_terminated("1")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("uri", [f"http://me:{SECRET}@127.0.0.1:9", f"http://me:{SECRET}/x@127.0.0.1:9"])
@pytest.mark.parametrize("words", [[*TINY, "tracking=mlflow", "tracking.uri={}"], ["predict", 32 * "0", "--uri", "{}"]])
def test_unreachable_store_is_named_without_its_password(command, monkeypatch, uri, words):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    code, out, err = command(*(word.format(uri) for word in words))
    assert code == 2
    assert "MLflow cannot be used at http://***@127.0.0.1:9 (" in err
    assert SECRET not in out + err


@pytest.mark.parametrize(
    "words",
    [
        ["tracking.uri=[{}]"],
        ["tracking={}"],
        ["results", "--uri", "{}"],
        ["check", "gkde", "--uri", "{}"],
        ["tune", "tracking.uri={}", "model.x=choice(1,2)"],
    ],
)
def test_mistake_is_reported_without_the_password(command, words, tmp_path):
    code, out, err = command(*(word.format(SERVER) for word in words))
    assert code == 2
    assert SECRET not in out + err
    assert files_with_the_secret(tmp_path) == []


def test_study_is_named_and_continued_without_the_password(command, tmp_path):
    fixed = [word for word in SINGLE if not word.startswith(("split.index", "ood"))]
    words = [*fixed, "model.max_hops=choice(2,3)", "--trials", "1"]
    code, out, err = command("tune", *words)
    assert code == 0, err
    assert "tracking.uri=" in out
    assert SECRET not in out + err
    assert files_with_the_secret(tmp_path) == []
    assert ": 1 trials done, 0 to do" in command("tune", *words)[1]


@pytest.mark.parametrize("uri", [SERVER, f"me:{SECRET}@server:5000", f"postgresql://me:{SECRET}@127.0.0.1:9/runs"])
def test_ui_does_not_show_a_password(command, uri):
    code, out, err = command("ui", "--uri", uri, "--port", "5999")
    assert code == 2
    assert "***" in err
    assert SECRET not in out + err


def test_command_that_serves_a_database_has_no_password():
    uri = f"postgresql://me:{SECRET}@db/runs"
    assert ui_command(uri, Path("outputs"), is_default=False) == "lopgpn_exp ui --uri 'postgresql://***@db/runs'"


def test_stored_config_is_run_again_without_logging_in_as_stars(command, addresses, tracked_outputs):
    assert command(*SINGLE)[0] == 0
    (folder,) = (tracked_outputs / "runs").glob("[!.]*/")
    stored = read_config(folder)["tracking"]["uri"]
    assert stored == "http://***@tracking.example:5000/?token=***"
    assert command(*TRACKED, "model=gkde", f"tracking.uri='{stored}'")[0] == 0
    assert addresses == [SERVER, "http://tracking.example:5000/"]


def test_credentials_are_not_part_of_the_identity_of_a_run():
    plain, secret = (plan_run(compose(*TINY, *words)) for words in ([], [f"tracking.uri='{SERVER}'"]))
    assert secret.tracking.uri == SERVER
    assert SECRET not in str(secret.config)
    assert locate_run(plain).run_id == locate_run(secret).run_id
