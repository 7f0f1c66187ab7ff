"""The store that MLflow writes to: create it once, connect to it, or fail with one message."""

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
LOCAL_SERVER = "http://127.0.0.1:5000"  # where `lopgpn_exp ui` serves a database by default


def default_uri(output_dir: Path) -> str:
    if set("?#%") & set(str(output_dir)):
        raise InputError(
            f"output_dir is {str(output_dir)!r}",
            expected="a path without ?, # and %, which have another meaning in the address of a database",
            parameter="uri",
            suggestion="sqlite:///FILE",
        )
    return f"sqlite:///{output_dir / 'mlflow.db'}"


def server_address(uri: str) -> str:
    """Return where a browser finds a store: the server itself, or the one that `lopgpn_exp ui` starts."""
    return uri.rstrip("/") if uri.startswith(SERVERS) else LOCAL_SERVER


def ui_command(uri: str, output_dir: Path, *, is_default: bool) -> str | None:
    """Return the command that serves a store; None if it is a server already."""
    if uri.startswith(SERVERS):
        return None
    if not is_default:
        return f"lopgpn_exp ui --uri {shlex.quote(uri)}"
    return "lopgpn_exp ui" + ("" if output_dir == Path("outputs") else f" --output-dir {shlex.quote(str(output_dir))}")


def connect(uri: str, *, create: bool = True) -> MlflowClient:
    """Return a client of a store, after checking that it answers.

    An SQLite database is created under a lock, because processes that create it at the same time would crash.

    Args:
        create: whether to create a missing SQLite database. A reader does not: an empty one would look like lost runs.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("DO_NOT_TRACK", "true")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")  # fail within seconds if there is no server
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    logging.getLogger("mlflow").setLevel(logging.WARNING)
    try:
        if uri.startswith("sqlite:///"):
            # Absolute: MLflow keeps one connection per address, also when the process changes its folder.
            database = Path(uri.removeprefix("sqlite:///")).absolute()
            if not create and not (database.is_file() and database.stat().st_size):
                expected = "the database of at least one tracked run"
                raise InputError(f"there is no {database}", expected=expected, parameter="output_dir")
            client = MlflowClient(_create_database(database))
        else:
            client = MlflowClient(uri)
        client.search_experiments(max_results=1)
        return client
    except (MlflowException, OSError, sqlite3.Error, ImportError) as error:
        # ImportError: the driver of the database is not installed.
        raise unreachable(uri, error) from None


def unreachable(uri: str, error: Exception) -> InputError:
    reason = next(iter(str(error).splitlines()), type(error).__name__)[:200]
    return InputError(
        f"MLflow cannot be used at {uri} ({reason})",
        expected="a writable SQLite file, a database or a running MLflow server; tracking can also be turned off",
        parameter="uri",
        suggestion="sqlite:///outputs/mlflow.db",
    )


def _create_database(database: Path) -> str:
    """Create an SQLite database unless it exists; return its address."""
    from mlflow.tracking import MlflowClient

    address = f"sqlite:///{database}"
    database.parent.mkdir(parents=True, exist_ok=True)
    TemporaryFile(dir=database.parent).close()  # an unwritable folder fails at once, not after waiting for the lock
    with FileLock(database.with_name(f".{database.name}.lock"), timeout=LOCK_SECONDS):
        if not _is_ready(database):
            sys.stderr.write("Creating the MLflow database (once, about ten seconds)\n")
            MlflowClient(address).search_experiments(max_results=1)
            _use_wal(database)
    return address


def _is_ready(database: Path) -> bool:
    """Return whether the database is complete; one that a killed process left behind is not."""
    if not database.is_file():
        return False
    with sqlite3.connect(database) as connection:
        mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
    connection.close()
    return mode == "wal"  # set last, after the migration


def _use_wal(database: Path) -> None:
    """Switch the file to write-ahead logging: readers do not block the writer, and writing is three times faster."""
    connection = sqlite3.connect(database)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.close()


def get_or_create_experiment(client: MlflowClient, name: str, uri: str, output_dir: Path) -> str:
    from mlflow.exceptions import MlflowException

    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        # A server chooses its own place. For a database, MLflow would put files into the current folder.
        is_database = uri.partition(":")[0].partition("+")[0] in DATABASES
        location = (output_dir / "mlartifacts").resolve().as_uri() if is_database else None
        try:
            return client.create_experiment(name, artifact_location=location)
        except MlflowException:  # another process has just created it
            experiment = client.get_experiment_by_name(name)
            if experiment is None:
                raise
    return experiment.experiment_id
