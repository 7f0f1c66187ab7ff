"""MLflow, in one place: a finished run is written in one batch, after its files are safe."""

from __future__ import annotations

import logging
import os
import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from lopgpn_exp.errors import InputError

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

METRICS_PER_BATCH = 1000  # MLflow's limits
PARAMS_PER_BATCH = 100
PARAM_LENGTH = 6000


def default_uri(output_dir: Path) -> str:
    return f"sqlite:///{output_dir / 'mlflow.db'}"


def track(
    *,
    uri: str | None,
    experiment: str,
    output_dir: Path,
    folder: Path,
    result: dict[str, Any],
    config: dict[str, Any],
    name: str,
) -> str:
    """Write a finished run to MLflow and return its id there; a run that is there already is left as it is."""
    uri = uri or default_uri(output_dir)
    client = _client(uri)
    experiment_id = _experiment(client, experiment, uri, output_dir)
    if (known := _known(client, experiment_id, result["run_id"])) is not None:
        return known
    now = int(time.time() * 1000)
    tags = {
        "mlflow.source.name": "lopgpn_exp",
        **{key: str(result[key]) for key in ("run_id", "model", "dataset", "split", "init", "scenario")},
    }
    mlflow_id = client.create_run(experiment_id, start_time=now, tags=tags, run_name=name).info.run_id
    from mlflow.entities import Metric, Param

    params = [Param(key, str(value)[:PARAM_LENGTH]) for key, value in flattened(config)]
    metrics = [Metric(key, value, now, step) for key, value, step in _metrics(result)]
    for start in range(0, len(params), PARAMS_PER_BATCH):
        client.log_batch(mlflow_id, params=params[start : start + PARAMS_PER_BATCH])
    for start in range(0, len(metrics), METRICS_PER_BATCH):
        client.log_batch(mlflow_id, metrics=metrics[start : start + METRICS_PER_BATCH])
    for path in sorted(folder.iterdir()):
        if path.name != "model.ckpt":  # stays in the run folder, whose path is a tag
            client.log_artifact(mlflow_id, str(path))
    client.set_tag(mlflow_id, "folder", str(folder))
    client.set_terminated(mlflow_id)
    return mlflow_id


def flattened(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Leaves of a nested config by their dotted path."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from flattened(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _metrics(result: dict[str, Any]) -> Iterator[tuple[str, float, int]]:
    """Single values at step 0; curves as stepped metrics, step = percent rejected."""
    for key, value in result["metrics"].items():
        yield key, value, 0
    for key, curve in result["curves"].items():
        for percent, value in enumerate(curve):
            yield key, value, percent
    for phase, value in result["seconds"].items():
        yield f"seconds/{phase}", value, 0
    yield "epochs", result["epochs"], 0
    yield "peak_rss_mb", result["peak_rss_mb"], 0


def _client(uri: str) -> MlflowClient:
    """A client on a store that exists.

    SQLite is created by one process under a lock: several on a database that does not exist yet crash in its migration.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("DO_NOT_TRACK", "true")
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    logging.getLogger("mlflow").setLevel(logging.WARNING)
    try:
        if uri.startswith("sqlite:///"):
            database = Path(uri.removeprefix("sqlite:///"))
            database.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(database.with_name(f".{database.name}.lock")):
                if not _ready(database):
                    sys.stderr.write("Creating the MLflow database (once, about ten seconds)\n")
                    MlflowClient(uri).search_experiments(max_results=1)
                    _use_wal(database)
        client = MlflowClient(uri)
        client.search_experiments(max_results=1)
        return client
    except (MlflowException, OSError, sqlite3.Error) as error:
        raise InputError(
            f"MLflow cannot be reached at {uri} ({str(error).splitlines()[0][:200]})",
            expected="a writable SQLite file, a database or a running MLflow server",
            hint="tracking.uri=sqlite:///outputs/mlflow.db, or tracking=none",
        ) from None


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


def _experiment(client: MlflowClient, name: str, uri: str, output_dir: Path) -> str:
    from mlflow.exceptions import MlflowException

    found = client.get_experiment_by_name(name)
    if found is None:
        local = uri.startswith("sqlite:///")
        location = (output_dir / "mlartifacts").resolve().as_uri() if local else None
        try:
            return client.create_experiment(name, artifact_location=location)
        except MlflowException:  # another process was faster
            found = client.get_experiment_by_name(name)
            if found is None:
                raise
    return found.experiment_id


def _known(client: MlflowClient, experiment_id: str, run_id: str) -> str | None:
    """The MLflow id of a run that is completely written; what a killed process left of it is removed."""
    found = client.search_runs([experiment_id], filter_string=f"tags.run_id = '{run_id}'", max_results=10)
    for run in found:
        if run.info.status == "FINISHED":
            return run.info.run_id
        client.delete_run(run.info.run_id)
    return None
