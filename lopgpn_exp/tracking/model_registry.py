"""Register a run as a model in MLflow: all of it or nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from lopgpn_exp import __version__
from lopgpn_exp.config.credentials import hide_credentials
from lopgpn_exp.errors import InputError, check_parameter
from lopgpn_exp.runs.saved_run import SavedRun
from lopgpn_exp.runs.storage import lock
from lopgpn_exp.tracking.run_content import DIGEST_TAG, digest_run
from lopgpn_exp.tracking.store import LOCK_SECONDS, database_file, default_uri, describe_error, report_store_errors
from lopgpn_exp.tracking.tracker import Tracker

if TYPE_CHECKING:
    from mlflow.entities import LoggedModel
    from mlflow.tracking import MlflowClient

    from lopgpn_exp.tracking.model_package import ModelPackage

NAME = re.compile(r"\w[\w.-]{0,99}", re.ASCII)
Undo = Callable[[Callable[[], object]], None]
ALIAS = re.compile(r"(?!latest$|[vV]\d+$)[A-Za-z][\w-]{0,99}", re.ASCII)  # what MLflow keeps for itself is excluded


@dataclass(frozen=True)
class RegisteredVersion:
    """A version of a registered model.

    Args:
        is_new: whether it was made now; False if the run had been registered under this name before.
        store: the address that MLflow needs to find it.
    """

    name: str
    version: int
    is_new: bool
    store: str

    @property
    def address(self) -> str:
        return f"models:/{self.name}/{self.version}"


def default_model_name(run: SavedRun) -> str:
    """Return a name that all runs of a model on a dataset share, so that a better run becomes a new version."""
    return re.sub(r"[^\w.-]", "_", f"{run.config['model']['name']}-{run.result.dataset}", flags=re.ASCII)


def choose_store(run: SavedRun, uri: str | None, output_dir: Path) -> str | None:
    """Return the store of a run: `uri`, or the one that its config names; None for the default one.

    Raises:
        InputError: if the run was made without tracking, and there is no default store either.
    """
    tracking = run.config["tracking"]
    if uri or tracking["uri"]:
        return uri or tracking["uri"]
    address = default_uri(output_dir)
    database = database_file(address)
    if not tracking["enabled"] and database is not None and not database.is_file():
        raise InputError(
            f"{run.folder.name} was made with tracking=none, and there is no {database.name} in {output_dir}",
            expected="the MLflow store to register it in, which is created if it is an SQLite file",
            parameter="uri",
            suggestion=address,
        )
    return None


def check_names(name: str, alias: str | None) -> None:
    """Raise an InputError unless MLflow accepts the names."""
    expected = "up to 100 letters, digits, dots, dashes and underscores, beginning with a letter or digit"
    check_parameter("name", repr(name), bool(NAME.fullmatch(name)), expected=expected, suggestion="my_model")
    if alias is not None:
        expected = "a letter, then letters, digits, dashes and underscores; not 'latest' or 'v1', which MLflow uses"
        check_parameter("alias", repr(alias), bool(ALIAS.fullmatch(alias)), expected=expected, suggestion="champion")


def register_run(
    run: SavedRun, *, name: str, alias: str | None, uri: str | None, output_dir: Path
) -> RegisteredVersion:
    """Write the model of a run to MLflow and register it; a run that is registered already is not written again.

    The model is loaded and applied to an example first. If MLflow fails after that, what was written is removed.

    Args:
        alias: points to the version afterwards, wherever it pointed before.
        uri: address of the store; by default, the SQLite database in the output folder.
    """
    from lopgpn_exp.tracking.model_package import prepare_package  # deferred import: a wrong name needs no torch

    check_names(name, alias)
    with TemporaryDirectory() as temporary:
        package = prepare_package(Path(temporary) / "model", run)
        tracker = Tracker(uri, run.config["tracking"]["experiment"], output_dir)
        with report_store_errors(tracker.uri):
            _check_registry(tracker)
            with lock(output_dir, f"{name}.registry", timeout=LOCK_SECONDS):
                existing = _find_version(tracker.client, name, _version_tags(run))
                with _undo_on_error() as undo:
                    version = existing or _create_version(tracker, package, name, Path(temporary) / "mlflow", undo)
                    if alias is not None:
                        tracker.client.set_registered_model_alias(name, alias, str(version))
    return RegisteredVersion(name, version, existing is None, tracker.uri)


def _check_registry(tracker: Tracker) -> None:
    from mlflow.exceptions import MlflowException

    try:
        tracker.client.search_registered_models(max_results=1)
    except MlflowException as error:
        raise InputError(
            f"the MLflow store at {hide_credentials(tracker.uri)} has no model registry "
            f"({describe_error(error, tracker.uri)})",
            expected="an SQLite file, a database, or an MLflow server with a database",
            parameter="uri",
            suggestion=default_uri(tracker.output_dir),
        ) from None


def _version_tags(run: SavedRun) -> dict[str, str]:
    """Return what makes two versions the same model: the files of the run, and the version of this package."""
    return {"run_id": run.result.run_id, DIGEST_TAG: digest_run(run.folder), "lopgpn_exp": __version__}


def _find_version(client: MlflowClient, name: str, tags: dict[str, str]) -> int | None:
    """Return the newest version with these tags."""
    versions = client.search_model_versions(f"name = '{name}' and tags.run_id = '{tags['run_id']}'")
    matches = [int(v.version) for v in versions if v.status == "READY" and tags.items() <= v.tags.items()]
    return max(matches, default=None)


def _create_version(tracker: Tracker, package: ModelPackage, name: str, folder: Path, undo: Undo) -> int:
    client, run = tracker.client, package.run
    mlflow_id = tracker.add(run.folder, run.result, run.config)
    tags = _version_tags(run)
    model = client.create_logged_model(tracker.experiment_id, name=name, source_run_id=mlflow_id, tags=tags)
    undo(partial(_delete_model, client, model))
    _upload_model(client, model, package, folder, mlflow_id)
    if not client.search_registered_models(f"name = '{name}'"):
        client.create_registered_model(name)
        undo(partial(client.delete_registered_model, name))
    # Not models:/ID as the source, which MLflow would look up in the store of the environment.
    source, model_id = model.artifact_location, model.model_id
    version = client.create_model_version(name, source, run_id=mlflow_id, tags=tags, model_id=model_id)
    undo(partial(client.delete_model_version, name, version.version))
    return int(version.version)


def _upload_model(
    client: MlflowClient, model: LoggedModel, package: ModelPackage, folder: Path, mlflow_id: str
) -> None:
    from mlflow.entities import LoggedModelOutput
    from mlflow.models.model import Model

    from lopgpn_exp.tracking.model_package import save_model

    description = Model(
        artifact_path=model.artifact_location, model_uuid=model.model_id, model_id=model.model_id, run_id=mlflow_id
    )
    save_model(folder, package, description)
    client.log_model_artifacts(model.model_id, str(folder))
    client.finalize_logged_model(model.model_id, "READY")
    client.log_outputs(mlflow_id, [LoggedModelOutput(model.model_id, step=0)])  # the page of the run links the model


def _delete_model(client: MlflowClient, model: LoggedModel) -> None:
    """Delete a logged model with its files, which MLflow would keep."""
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    client.delete_logged_model(model.model_id)
    get_artifact_repository(model.artifact_location, tracking_uri=client.tracking_uri).delete_artifacts()


@contextmanager
def _undo_on_error() -> Iterator[Undo]:
    """Yield a function that collects actions; if the block fails, they are done, the last one first."""
    with ExitStack() as stack:

        def add(action: Callable[[], object]) -> None:
            def attempt() -> None:
                with suppress(Exception):  # the error that caused this is the one to report
                    action()

            stack.callback(attempt)

        yield add
        stack.pop_all()
