"""One MLflow experiment: its store, its runs and its dashboards."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from lopgpn_exp.config.credentials import drop_hidden, hide_credentials
from lopgpn_exp.errors import InputError
from lopgpn_exp.report.names import model_color
from lopgpn_exp.runs.storage import lock
from lopgpn_exp.tracking.dashboards import Dashboard, describe_dashboards, read_dashboards, select_links
from lopgpn_exp.tracking.store import (
    LOCK_SECONDS,
    connect,
    connect_to_existing,
    default_uri,
    get_or_create_experiment,
    report_store_errors,
    server_address,
    track_command,
    ui_command,
)

if TYPE_CHECKING:
    from mlflow.entities import Run

RUNS_PER_PAGE = 1000
COLOR_TAG = "mlflow.runColor"  # of a run's lines and bars
NOTE_TAG = "mlflow.note.content"  # the description of an experiment or a run
LAYOUT_TAG = "mlflow.experimentKind"  # selects the layout in which the UI opens an experiment


class MlflowExperiment:
    """A connection to an MLflow experiment, which is created if there is none.

    Args:
        uri: address of the store; by default, the SQLite database in the output folder.
    """

    def __init__(self, uri: str | None, experiment: str, output_dir: Path) -> None:
        self.uri = drop_hidden(uri) if uri else default_uri(output_dir)
        self.output_dir = output_dir
        self.client = connect(self.uri)
        with report_store_errors(self.uri):  # a deleted experiment, an empty name
            self.experiment_id = get_or_create_experiment(self.client, experiment, self.uri, output_dir)
        self.ui = ui_command(self.uri, output_dir, is_default=not uri)  # None if the store is a server
        self.track_command = track_command(self.uri, experiment, output_dir, is_default=not uri)
        self._charted: dict[str, set[str]] = {}  # by dashboard, the metrics that it shows already

    def links(self, datasets: Collection[str]) -> dict[str, str]:
        """Return the addresses of the dashboards by name: that of single runs, and those of some datasets."""
        return select_links(self._read_dashboards(), server_address(self.uri), self.experiment_id, datasets)

    def _read_dashboards(self) -> list[Dashboard]:
        return read_dashboards(self.client.get_experiment(self.experiment_id).tags)

    def _update_dashboard(self, make: Callable[[Collection[str]], Dashboard], metrics: set[str]) -> None:
        """Add metrics that are missing on a dashboard, and list the dashboard in the experiment's description."""
        key = make(()).key
        if metrics <= self._charted.get(key, set()):
            return
        with self._lock("dashboards"):  # another process may be adding metrics to the same dashboard
            tags = self.client.get_experiment(self.experiment_id).tags
            dashboards = {dashboard.key: dashboard for dashboard in read_dashboards(tags)}
            charted = metrics | (dashboards[key].metrics if key in dashboards else set())
            dashboards[key] = make(charted)
            note = describe_dashboards(dashboards.values(), self.experiment_id)
            for name, value in (dashboards[key].tag, (NOTE_TAG, note), (LAYOUT_TAG, "custom_model_development")):
                if tags.get(name) != value:
                    self._set_experiment_tag(name, value)
            self._charted[key] = charted

    def _set_experiment_tag(self, name: str, value: str) -> None:
        from mlflow.exceptions import MlflowException

        try:
            self.client.set_experiment_tag(self.experiment_id, name, value)
        except MlflowException:  # another machine has just inserted the same tag, which can be set now
            self.client.set_experiment_tag(self.experiment_id, name, value)

    def _search(self, query: str) -> list[Run]:
        """Return all runs of the experiment that match a filter."""
        runs: list[Run] = []
        token: str | None = None
        while True:
            page = self.client.search_runs([self.experiment_id], query, max_results=RUNS_PER_PAGE, page_token=token)
            runs += page
            token = page.token
            if not token:
                return runs

    def _search_run(self, run_id: str) -> list[Run]:
        return self._search(f"tags.run_id = '{run_id}'")

    def _create(self, name: str, tags: dict[str, str]) -> str:
        color = {COLOR_TAG: model_color(tags["model"])} if "model" in tags else {}
        tags = {"mlflow.source.name": "lopgpn_exp", **color, **tags}
        return self.client.create_run(self.experiment_id, tags=tags, run_name=name).info.run_id

    def _lock(self, name: str) -> AbstractContextManager[None]:
        return lock(self.output_dir, name, timeout=LOCK_SECONDS)


def read_dashboard_links(uri: str | None, experiment: str, output_dir: Path) -> dict[str, str]:
    """Return the paths of an experiment's dashboards by name, relative to the server that serves the store."""
    existing = connect_to_existing(uri, output_dir).get_experiment_by_name(experiment)
    if existing is None:
        return {}
    return {d.name: d.link("", existing.experiment_id) for d in read_dashboards(existing.tags)}


def read_tags(mlflow_id: str, *, uri: str | None, output_dir: Path) -> dict[str, str]:
    """Return the tags of an MLflow run; `kind` says whether it is a run, a sweep or a summary."""
    from mlflow.exceptions import MlflowException

    client = connect_to_existing(uri, output_dir)
    try:
        return dict(client.get_run(mlflow_id).data.tags)
    except MlflowException:
        raise InputError(
            f"MLflow at {hide_credentials(uri or default_uri(output_dir))} has no run {mlflow_id}",
            expected="the id of a run or a sweep, as shown on its page",
        ) from None
