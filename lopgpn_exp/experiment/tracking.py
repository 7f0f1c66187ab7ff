"""MLflow, in one place: a finished run is written in one batch, after its files are safe."""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from lopgpn_exp.errors import InputError
from lopgpn_exp.experiment.jobs import Attempt
from lopgpn_exp.experiment.results import read_result

if TYPE_CHECKING:
    import pandas as pd
    from mlflow.tracking import MlflowClient

METRICS_PER_BATCH = 1000  # MLflow's limits
PARAMS_PER_BATCH = 100
PARAM_LENGTH = 6000
LOCK_SECONDS = 120
TAG_LENGTH = 4000
MLFLOW_PARENT = "mlflow.parentRunId"
DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
TAGS = ("run_id", "model", "dataset", "split", "init", "scenario")


def default_uri(output_dir: Path) -> str:
    if set("?#%") & set(str(output_dir)):
        raise InputError(
            f"output_dir is {str(output_dir)!r}",
            expected="a path without ?, # and %, which mean something else in a database's address",
            hint="tracking.uri=... or tracking=none",
        )
    return f"sqlite:///{output_dir / 'mlflow.db'}"


class Tracker:
    """One MLflow experiment. Everything is read from files that are already safe, so nothing is lost if MLflow is."""

    def __init__(self, uri: str | None, experiment: str, output_dir: Path) -> None:
        self.uri = uri or default_uri(output_dir)
        self.output_dir = output_dir
        self.client = _client(self.uri)
        try:
            self.experiment_id = _experiment(self.client, experiment, self.uri, output_dir)
        except Exception as error:  # a deleted experiment, an empty name: MLflow has an exception for each
            raise _unreachable(self.uri, error) from None
        self.parent: str | None = None

    def add(self, folder: Path, config: dict[str, Any], name: str) -> str:
        """Write a finished run and return its id in MLflow; one that is there already is only given its parent."""
        lock = self.output_dir / "runs" / f".{folder.name}.tracking.lock"
        with FileLock(lock, timeout=LOCK_SECONDS):  # another process may be writing this very run
            return self._add(folder, config, name)

    def _add(self, folder: Path, config: dict[str, Any], name: str) -> str:
        result = read_result(folder)
        known = _known(self.client, self.experiment_id, result["run_id"])
        if known is not None:
            if self.parent is not None:
                self.client.set_tag(known, MLFLOW_PARENT, self.parent)
            return known
        mlflow_id = self._create(name, {key: str(result[key]) for key in TAGS} | {"folder": str(folder)})
        self._log(mlflow_id, params=flattened(config), metrics=_metrics(result))
        for path in sorted(folder.iterdir()):
            if path.name != "model.ckpt":  # stays in the run folder, whose path is a tag
                self.client.log_artifact(mlflow_id, str(path))
        self.client.set_terminated(mlflow_id)
        return mlflow_id

    def add_attempt(self, attempt: Attempt) -> None:
        """A run of a sweep as it ended: finished, or FAILED with what is known of why."""
        job = attempt.job
        if attempt.error is None:
            self.add(job.folder, job.config, job.title)
            return
        _known(self.client, self.experiment_id, job.run_id)
        tags = {"run_id": job.run_id, "folder": str(job.folder), "error": attempt.error[:TAG_LENGTH]}
        mlflow_id = self._create(job.title, tags)
        self._log(mlflow_id, params=flattened(job.config), metrics=[])
        self.client.log_text(mlflow_id, attempt.details or attempt.error, "error.txt")
        self.client.set_terminated(mlflow_id, "FAILED")

    def open_sweep(self, run_ids: Sequence[str], *, name: str) -> None:
        """The parent of a sweep's runs. The same sweep, started again, has the same parent."""
        sweep = "sweep-" + hashlib.blake2b(" ".join(sorted(run_ids)).encode(), digest_size=8).hexdigest()
        found = self.client.search_runs([self.experiment_id], f"tags.run_id = '{sweep}'", max_results=1)
        if found:
            self.parent = found[0].info.run_id
            self.client.update_run(self.parent, status="RUNNING")
        else:
            self.parent = self._create(name, {"run_id": sweep, "kind": "sweep"})

    def close_sweep(self, results: pd.DataFrame, curves: pd.DataFrame) -> None:
        """Aggregates on the parent: mean, standard error, 95 % interval of every metric, mean curves, comparisons."""
        from lopgpn_exp.report.aggregate import sweep_metrics, sweep_tables  # pandas: only for a sweep

        assert self.parent is not None
        if not results.empty:
            self._log(self.parent, params=[], metrics=list(sweep_metrics(results, curves)))
            with TemporaryDirectory() as scratch:
                for file_name, table in sweep_tables(results, curves).items():
                    table.to_csv(Path(scratch) / file_name, index=False)
                self.client.log_artifacts(self.parent, scratch)
        self.client.set_terminated(self.parent)

    def _create(self, name: str, tags: dict[str, str]) -> str:
        parent = {MLFLOW_PARENT: self.parent} if self.parent is not None else {}
        tags = {"mlflow.source.name": "lopgpn_exp", **parent, **tags}
        return self.client.create_run(self.experiment_id, tags=tags, run_name=name).info.run_id

    def _log(
        self, mlflow_id: str, *, params: Iterable[tuple[str, Any]], metrics: Iterable[tuple[str, float, int]]
    ) -> None:
        from mlflow.entities import Metric, Param

        now = int(time.time() * 1000)
        all_params = [Param(key, str(value)[:PARAM_LENGTH]) for key, value in params]
        all_metrics = [Metric(key, value, now, step) for key, value, step in metrics]
        for start in range(0, len(all_params), PARAMS_PER_BATCH):
            self.client.log_batch(mlflow_id, params=all_params[start : start + PARAMS_PER_BATCH])
        for start in range(0, len(all_metrics), METRICS_PER_BATCH):
            self.client.log_batch(mlflow_id, metrics=all_metrics[start : start + METRICS_PER_BATCH])


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
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")  # a server that is not there is said within seconds
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    logging.getLogger("mlflow").setLevel(logging.WARNING)
    try:
        if uri.startswith("sqlite:///"):
            database = Path(uri.removeprefix("sqlite:///"))
            database.parent.mkdir(parents=True, exist_ok=True)
            TemporaryFile(dir=database.parent).close()  # said at once, not after waiting for a lock there
            with FileLock(database.with_name(f".{database.name}.lock"), timeout=LOCK_SECONDS):
                if not _ready(database):
                    sys.stderr.write("Creating the MLflow database (once, about ten seconds)\n")
                    MlflowClient(uri).search_experiments(max_results=1)
                    _use_wal(database)
        client = MlflowClient(uri)
        client.search_experiments(max_results=1)
        return client
    except (MlflowException, OSError, sqlite3.Error) as error:
        raise _unreachable(uri, error) from None


def _unreachable(uri: str, error: Exception) -> InputError:
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


def _experiment(client: MlflowClient, name: str, uri: str, output_dir: Path) -> str:
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


def _known(client: MlflowClient, experiment_id: str, run_id: str) -> str | None:
    """The MLflow id of a run that is completely written; what a killed process left of it is removed."""
    found = client.search_runs([experiment_id], filter_string=f"tags.run_id = '{run_id}'", max_results=10)
    for run in found:
        if run.info.status == "FINISHED":
            return run.info.run_id
        client.delete_run(run.info.run_id)
    return None
