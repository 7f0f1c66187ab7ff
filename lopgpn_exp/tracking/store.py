"""The store that MLflow writes to: create it once, connect to it, or fail with one message.

Nothing here prints the credentials in the address of a store.
"""

from __future__ import annotations

import errno
import logging
import os
import shlex
import sqlite3
import sys
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from filelock import FileLock

from lopgpn_exp.config.credentials import drop_hidden, hide_credentials, hide_in_text, remove_credentials
from lopgpn_exp.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlflow.tracking import MlflowClient

DEFAULT_EXPERIMENT = "lopgpn_exp"
LOCK_SECONDS = 120
ENGINE_ATTEMPTS = 4  # within a second; MLflow's own ten take 100 s
DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
SERVERS = ("http://", "https://")
SQLITE = "sqlite:///"
SUGGESTED_URIS = ("sqlite:///outputs/mlflow.db", "sqlite:///outputs/runs.db")  # the second if the first is wrong
LOCAL_SERVER = "http://127.0.0.1:5000"  # where `lopgpn_exp ui` serves a database by default


def default_uri(output_dir: Path) -> str:
    if set("?#%") & set(str(output_dir)):
        raise InputError(
            f"output_dir is {str(output_dir)!r}",
            expected="a path without ?, # and %, which have another meaning in the address of a database",
            parameter="uri",
            suggestion="sqlite:///FILE",
        )
    return f"{SQLITE}{output_dir / 'mlflow.db'}"


def server_address(uri: str) -> str:
    """Return where a browser finds a store: the server itself, or the one that `lopgpn_exp ui` starts."""
    return remove_credentials(uri).rstrip("/") if uri.startswith(SERVERS) else LOCAL_SERVER


def ui_command(uri: str, output_dir: Path, *, is_default: bool) -> str | None:
    """Return the command that serves a store; None if it is a server already."""
    if uri.startswith(SERVERS):
        return None
    if not is_default:
        return shlex.join(["lopgpn_exp", "ui", "--uri", hide_credentials(uri)])
    return shlex.join(["lopgpn_exp", "ui", *_output_dir_option(output_dir)])


def track_command(uri: str, experiment: str, output_dir: Path, *, is_default: bool) -> str:
    """Return the command that brings a store up to date."""
    words = ["lopgpn_exp", "track", *_output_dir_option(output_dir)]
    words += [] if is_default else ["--uri", hide_credentials(uri)]
    words += [] if experiment == DEFAULT_EXPERIMENT else ["--experiment", experiment]
    return shlex.join(words)


def _output_dir_option(output_dir: Path) -> list[str]:
    return [] if output_dir == Path("outputs") else ["--output-dir", str(output_dir)]


def connect(uri: str) -> MlflowClient:
    """Return a client of a store, after checking that it answers.

    An SQLite database is created under a lock, because processes that create it at the same time would crash.
    """
    _set_environment()
    uri = drop_hidden(uri)
    with report_store_errors(uri):
        database = database_file(uri)
        client = _create_client(uri if database is None else _create_database(database))
        client.search_experiments(max_results=1)
        return client


def connect_to_existing(uri: str | None, output_dir: Path) -> MlflowClient:
    """Return a client of a store that must exist: an empty new database would look like lost runs."""
    address = uri or default_uri(output_dir)
    database = database_file(address)
    if database is not None and not database.is_dir() and not (database.is_file() and database.stat().st_size):
        raise InputError(
            f"there is no {database}",
            expected="the database of at least one tracked run",
            parameter="uri" if uri else "output_dir",
            suggestion=SUGGESTED_URIS[0] if uri else None,
        )
    return connect(address)


def database_file(uri: str) -> Path | None:
    """Return the file of an SQLite store, None for any other store.

    The path is absolute: MLflow keeps one connection per address, also when the process changes its folder.
    """
    return Path(uri.removeprefix(SQLITE)).absolute() if uri.startswith(SQLITE) else None


def check_database(uri: str, database: Path) -> None:
    """Check that an SQLite store can be created or opened. This does not import MLflow, and creates no database."""
    with report_store_errors(uri):
        _check_location(database)
        _is_ready(database)  # raises an error if the file is not a database


@contextmanager
def report_store_errors(uri: str) -> Iterator[None]:
    """Raise one message for every error that means that a store cannot be used. Any other is a bug."""
    try:
        yield
    except _store_errors() as error:
        raise InputError(
            f"MLflow cannot be used at {hide_credentials(uri)} ({describe_error(error, uri)})",
            expected="a writable SQLite file, a database or a running MLflow server",
            parameter="uri",
            suggestion=SUGGESTED_URIS[uri.endswith("outputs/mlflow.db")],
        ) from None


def describe_error(error: Exception, uri: str) -> str:
    """Return the first line of an error, without credentials; with the type of one that may be a bug."""
    reason = next(iter(str(_root_cause(error)).strip().splitlines()), "")
    if not reason or not isinstance(error, _store_errors()):
        reason = f"{type(error).__name__}: {reason}"
    return hide_in_text(reason, uri)[:200]


def _root_cause(error: Exception) -> object:
    """Return what the system or the driver of a database said, if MLflow's error comes from it."""
    chain: list[BaseException] = [error]
    while cause := chain[-1].__cause__ or chain[-1].__context__:
        chain.append(cause)
    system = (cause for cause in reversed(chain) if isinstance(cause, OSError))
    driver = filter(None, (getattr(cause, "orig", None) for cause in chain))  # of SQLAlchemy
    return next(system, None) or next(driver, error)


def _store_errors() -> tuple[type[Exception], ...]:
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    # OSError: also the errors of requests and filelock. ImportError: the driver of the database is not installed.
    return MlflowException, SQLAlchemyError, OSError, sqlite3.Error, ImportError


def _set_environment() -> None:
    """Set what MLflow reads when it is imported and used."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("DO_NOT_TRACK", "true")
    os.environ["MLFLOW_UV_AUTO_DETECT"] = "false"  # would copy the pyproject.toml of the current folder into a model
    os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "true"  # one link per run, with the password in it
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")  # fail within seconds if there is no server
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")


def _create_client(uri: str) -> MlflowClient:
    from mlflow.store.db import utils
    from mlflow.tracking import MlflowClient

    utils.MAX_RETRY_COUNT = ENGINE_ATTEMPTS
    for name in ("mlflow", "urllib3.connectionpool"):  # their errors are raised, and reported once
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return MlflowClient(uri)


def _create_database(database: Path) -> str:
    """Create an SQLite database unless it exists; return its address."""
    address = f"{SQLITE}{database}"
    _check_location(database)  # an unwritable folder fails at once, not after waiting for the lock
    with FileLock(database.with_name(f".{database.name}.lock"), timeout=LOCK_SECONDS):
        if not _is_ready(database):
            sys.stderr.write("Creating the MLflow database (once, a few seconds)\n")
            _create_client(address).search_experiments(max_results=1)
            _use_wal(database)
    return address


def _check_location(database: Path) -> None:
    """Raise an OSError unless a file can be written there; its folder is created if it is missing."""
    if database.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(database))
    database.parent.mkdir(parents=True, exist_ok=True)
    TemporaryFile(dir=database.parent).close()


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
