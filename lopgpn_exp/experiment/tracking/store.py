"""The store that MLflow writes to: made once, reached or refused with one message."""

from __future__ import annotations

import logging
import os
import shlex
import sqlite3
import sys
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from filelock import FileLock

from lopgpn_exp.errors import InputError

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

LOCK_SECONDS = 120
DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
SERVERS = ("http://", "https://")
LOCAL_SERVER = "http://127.0.0.1:5000"  # where `python -m lopgpn_exp.ui` serves a database by itself


def default_uri(output_dir: Path) -> str:
    if set("?#%") & set(str(output_dir)):
        raise InputError(
            f"output_dir is {str(output_dir)!r}",
            expected="a path without ?, # and %, which mean something else in a database's address",
            hint="tracking.uri=... or tracking=none",
        )
    return f"sqlite:///{output_dir / 'mlflow.db'}"


def server_of(uri: str) -> str:
    """Where a browser finds a store: a server's own address, else that of the one to be started."""
    return uri.rstrip("/") if uri.startswith(SERVERS) else LOCAL_SERVER


def ui_command(uri: str, output_dir: Path, *, is_default: bool) -> str | None:
    """What serves a store to a browser; None if it is a server already."""
    if uri.startswith(SERVERS):
        return None
    if not is_default:
        return f"python -m lopgpn_exp.ui --uri {shlex.quote(uri)}"
    options = "" if output_dir == Path("outputs") else f" --output-dir {shlex.quote(str(output_dir))}"
    return f"python -m lopgpn_exp.ui{options}"


def connect(uri: str, *, create: bool = True) -> MlflowClient:
    """A client on a store that exists; whoever only reads creates none, which would look as if runs were lost.

    SQLite is created by one process under a lock: several on a database that does not exist yet crash in its migration.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("DO_NOT_TRACK", "true")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")  # a server that is not there is said within seconds
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    logging.getLogger("mlflow").setLevel(logging.WARNING)
    address = uri
    try:
        if uri.startswith("sqlite:///"):
            # Absolute, as MLflow keeps one connection an address, even when the process has gone to another folder.
            database = Path(uri.removeprefix("sqlite:///")).absolute()
            address = f"sqlite:///{database}"
            if not create and not (database.is_file() and database.stat().st_size):
                raise InputError(
                    f"there is no {database}",
                    expected="the database of at least one tracked run",
                    hint="python -m lopgpn_exp, or --output-dir FOLDER",
                )
            database.parent.mkdir(parents=True, exist_ok=True)
            TemporaryFile(dir=database.parent).close()  # said at once, not after waiting for a lock there
            with FileLock(database.with_name(f".{database.name}.lock"), timeout=LOCK_SECONDS):
                if not _ready(database):
                    sys.stderr.write("Creating the MLflow database (once, about ten seconds)\n")
                    MlflowClient(address).search_experiments(max_results=1)
                    _use_wal(database)
        client = MlflowClient(address)
        client.search_experiments(max_results=1)
        return client
    except (MlflowException, OSError, sqlite3.Error, ImportError) as error:  # the last: a database without its driver
        raise unreachable(uri, error) from None


def unreachable(uri: str, error: Exception) -> InputError:
    reason = next(iter(str(error).splitlines()), type(error).__name__)[:200]
    return InputError(
        f"MLflow cannot be used at {uri} ({reason})",
        expected="a writable SQLite file, a database or a running MLflow server",
        hint="tracking.uri=sqlite:///outputs/mlflow.db, or tracking=none",
    )


def _ready(database: Path) -> bool:
    """Whether the schema is there; a half-made database of a killed process is not."""
    if not database.is_file():
        return False
    with sqlite3.connect(database) as connection:
        mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
    connection.close()
    return mode == "wal"  # set last, after the migration


def _use_wal(database: Path) -> None:
    """Readers and a writer at once, and writes three times faster; a property of the file from then on."""
    connection = sqlite3.connect(database)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.close()


def experiment_of(client: MlflowClient, name: str, uri: str, output_dir: Path) -> str:
    from mlflow.exceptions import MlflowException

    found = client.get_experiment_by_name(name)
    if found is None:
        # A server chooses its own place; to a database MLflow would put files beside wherever the process was started.
        is_database = uri.partition(":")[0].partition("+")[0] in DATABASES
        location = (output_dir / "mlartifacts").resolve().as_uri() if is_database else None
        try:
            return client.create_experiment(name, artifact_location=location)
        except MlflowException:  # another process was faster
            found = client.get_experiment_by_name(name)
            if found is None:
                raise
    return found.experiment_id
