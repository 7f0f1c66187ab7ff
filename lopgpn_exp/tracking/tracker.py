"""Write finished runs and sweeps to MLflow, each in one batch, after their files are complete."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from lopgpn_exp.config.schema import flatten
from lopgpn_exp.errors import InputError
from lopgpn_exp.records import RUN_KEYS, Attempt, RunResult, SweepRecord
from lopgpn_exp.report.names import model_color, model_colors
from lopgpn_exp.tracking.dashboards import (
    Dashboard,
    dataset_dashboard,
    describe_dashboards,
    read_dashboards,
    runs_dashboard,
)
from lopgpn_exp.tracking.store import (
    LOCK_SECONDS,
    connect,
    default_uri,
    get_or_create_experiment,
    server_address,
    ui_command,
    unreachable,
)

if TYPE_CHECKING:
    import pandas as pd
    from mlflow.tracking import MlflowClient

METRICS_PER_BATCH = 1000  # limits of MLflow
PARAMS_PER_BATCH = 100
PARAM_LENGTH = 6000
TAG_LENGTH = 4000
PARENT_TAG = "mlflow.parentRunId"
COLOR_TAG = "mlflow.runColor"  # of a run's lines and bars
NOTE_TAG = "mlflow.note.content"  # the description of an experiment or a run
NOTE_LENGTH = 8000
MAX_SUMMARIES = 10_000
LAYOUT_TAG = "mlflow.experimentKind"  # selects the layout in which the UI opens an experiment

MetricPoint = tuple[str, float, int]  # key, value, step


class Tracker:
    """One MLflow experiment."""

    def __init__(self, uri: str | None, experiment: str, output_dir: Path) -> None:
        self.uri = uri or default_uri(output_dir)
        self.is_default = not uri
        self.output_dir = output_dir
        self.client = connect(self.uri)
        try:
            self.experiment_id = get_or_create_experiment(self.client, experiment, self.uri, output_dir)
        except Exception as error:  # a deleted experiment, an empty name: MLflow has an exception for each
            raise unreachable(self.uri, error) from None
        self.parent: str | None = None
        self.sweep: SweepRecord | None = None
        self._charted: dict[str, set[str]] = {}  # by dashboard, the metrics that it shows already

    def add(self, folder: Path, result: RunResult, config: Mapping[str, Any]) -> str:
        """Write a finished run and return its MLflow id. An existing run is only moved below the current sweep."""
        lock = self.output_dir / "runs" / f".{folder.name}.tracking.lock"
        with FileLock(lock, timeout=LOCK_SECONDS):  # another process may be writing the same run
            existing = _find_complete_run(self.client, self.experiment_id, result.run_id)
            if existing is not None:
                for key, value in self._sweep_tags().items():
                    self.client.set_tag(existing, key, value)
                return existing
            tags = {key: str(getattr(result, key)) for key in RUN_KEYS} | {"kind": "run", "folder": str(folder)}
            mlflow_id = self._create(result.title, tags)
            metrics = list(_metrics(result))
            self._log(mlflow_id, params=flatten(config), metrics=metrics)
            for path in sorted(folder.iterdir()):
                if path.name != "model.ckpt":  # stays in the run folder, whose path is a tag
                    self.client.log_artifact(mlflow_id, str(path))
            self.client.set_terminated(mlflow_id)
            self._update_dashboard(runs_dashboard, {key for key, _, _ in metrics})
            return mlflow_id

    def add_attempt(self, attempt: Attempt) -> None:
        """Write a run of a sweep: finished, or FAILED with its error."""
        job = attempt.job
        if attempt.result is not None:
            self.add(job.folder, attempt.result, job.config)
            return
        error = attempt.error or ""
        _find_complete_run(self.client, self.experiment_id, job.run_id)  # removes an earlier failure
        tags = {"run_id": job.run_id, "kind": "run", "model": job.model, "dataset": job.dataset}
        tags |= {"folder": str(job.folder), "scenario": job.config["ood"]["name"], "error": error[:TAG_LENGTH]}
        mlflow_id = self._create(job.title, tags)
        self._log(mlflow_id, params=flatten(job.config), metrics=[])
        self.client.log_text(mlflow_id, attempt.details or error, "error.txt")
        self.client.set_terminated(mlflow_id, "FAILED")

    def open_sweep(self, sweep: SweepRecord) -> None:
        """Create the parent of a sweep's runs. The same sweep, started again, has the same parent."""
        existing = self.client.search_runs([self.experiment_id], f"tags.run_id = '{sweep.id}'", max_results=1)
        if existing:
            self.parent = existing[0].info.run_id
            self.client.update_run(self.parent, status="RUNNING")
        else:
            self.parent = self._create(sweep.name, {"run_id": sweep.id, "kind": "sweep"})
        self.sweep = sweep

    def abandon_sweep(self, *, failed: bool) -> None:
        """Mark a sweep that ended early, because of a bug or because it was stopped."""
        if self.parent is not None:
            with suppress(Exception):  # an unreachable store must not hide what ended the sweep
                self.client.set_terminated(self.parent, "FAILED" if failed else "KILLED")

    def close_sweep(self, results: pd.DataFrame, curves: pd.DataFrame, by_id: Mapping[str, RunResult]) -> None:
        """Write means and files to the parent, and one summary run per dataset and model for the dashboards.

        The means are the parent's description, not its metrics, since the UI would draw a chart for each of thousands.
        """
        from lopgpn_exp.evaluation.statistics import find_first_clean_runs, summarise_models  # deferred: pandas
        from lopgpn_exp.report.terminal import render_means_markdown

        assert self.parent is not None
        assert self.sweep is not None
        if not results.empty:
            text = render_means_markdown(results)
            if len(text) > NOTE_LENGTH:
                text = f"{len(results)} runs: the means are in the artifact page.html."
            self.client.set_tag(self.parent, NOTE_TAG, text)
            self.client.log_artifacts(self.parent, str(self.output_dir / "sweeps" / self.sweep.id))
            examples, colors = find_first_clean_runs(results), model_colors(results["model"])
            for key, summary in summarise_models(results, curves).items():
                history = _history(by_id[examples[key]]) if key in examples else ()
                self._add_summary(*key, [*summary, *history], colors[key[1]])
        self.client.set_terminated(self.parent)

    def _add_summary(self, dataset: str, model: str, metrics: list[MetricPoint], color: str) -> None:
        """Write the means of a model over a sweep as a run, which replaces an earlier one in the dashboards."""
        assert self.sweep is not None
        query = "tags.kind = 'summary' and tags.latest = 'true'"  # without names, which may contain quotes
        for old in self.client.search_runs([self.experiment_id], query, max_results=MAX_SUMMARIES):
            tags = old.data.tags
            if (tags["dataset"], tags["model"]) != (dataset, model):
                continue
            if tags["sweep"] == self.sweep.id:
                self.client.delete_run(old.info.run_id)
            else:
                self.client.set_tag(old.info.run_id, "latest", "false")
        # Not a child of the sweep's run: the UI shows children only after a click.
        tags = {"kind": "summary", "latest": "true", "dataset": dataset, "model": model, "sweep": self.sweep.id}
        mlflow_id = self._create(f"{model} · {dataset} · mean", tags | {COLOR_TAG: color}, is_child=False)
        self._log(mlflow_id, params=[], metrics=metrics)
        self.client.set_terminated(mlflow_id)
        self._update_dashboard(partial(dataset_dashboard, dataset), {key for key, _, _ in metrics})

    def links(self, datasets: Collection[str]) -> dict[str, str]:
        """Return the addresses of the dashboards by name: that of single runs, and those of some datasets."""
        tags = self.client.get_experiment(self.experiment_id).tags
        return {
            dashboard.name: dashboard.link(server_address(self.uri), self.experiment_id)
            for dashboard in read_dashboards(tags)
            if dashboard.dataset is None or dashboard.dataset in datasets
        }

    @property
    def ui(self) -> str | None:
        """The command that serves the store; None if it is a server already."""
        return ui_command(self.uri, self.output_dir, is_default=self.is_default)

    def _update_dashboard(self, make: Callable[[Collection[str]], Dashboard], metrics: set[str]) -> None:
        """Add metrics that are missing on a dashboard, and list the dashboard in the experiment's description."""
        key = make(()).key
        if metrics <= self._charted.get(key, set()):
            return
        lock = self.output_dir / "runs" / ".dashboards.lock"
        with FileLock(lock, timeout=LOCK_SECONDS):  # another process may be adding metrics to the same dashboard
            tags = self.client.get_experiment(self.experiment_id).tags
            dashboards = {dashboard.key: dashboard for dashboard in read_dashboards(tags)}
            self._charted[key] = metrics | (dashboards[key].metrics if key in dashboards else set())
            dashboards[key] = make(self._charted[key])
            note = describe_dashboards(dashboards.values(), self.experiment_id)
            for name, value in (dashboards[key].tag, (NOTE_TAG, note), (LAYOUT_TAG, "custom_model_development")):
                if tags.get(name) != value:
                    self._set_experiment_tag(name, value)

    def _set_experiment_tag(self, name: str, value: str) -> None:
        from mlflow.exceptions import MlflowException

        try:
            self.client.set_experiment_tag(self.experiment_id, name, value)
        except MlflowException:  # another machine has just inserted the same tag, which can be set now
            self.client.set_experiment_tag(self.experiment_id, name, value)

    def _create(self, name: str, tags: dict[str, str], *, is_child: bool = True) -> str:
        color = {COLOR_TAG: model_color(tags["model"])} if "model" in tags else {}
        tags = {"mlflow.source.name": "lopgpn_exp", **(self._sweep_tags() if is_child else {}), **color, **tags}
        return self.client.create_run(self.experiment_id, tags=tags, run_name=name).info.run_id

    def _sweep_tags(self) -> dict[str, str]:
        if self.parent is None or self.sweep is None:
            return {}
        return {PARENT_TAG: self.parent, "sweep": self.sweep.id}

    def _log(self, mlflow_id: str, *, params: Iterable[tuple[str, Any]], metrics: Iterable[MetricPoint]) -> None:
        from mlflow.entities import Metric, Param

        now = int(time.time() * 1000)
        all_params = [Param(key, str(value)[:PARAM_LENGTH]) for key, value in params]
        all_metrics = [Metric(key, value, now, step) for key, value, step in metrics]
        for start in range(0, len(all_params), PARAMS_PER_BATCH):
            self.client.log_batch(mlflow_id, params=all_params[start : start + PARAMS_PER_BATCH])
        for start in range(0, len(all_metrics), METRICS_PER_BATCH):
            self.client.log_batch(mlflow_id, metrics=all_metrics[start : start + METRICS_PER_BATCH])


def _metrics(result: RunResult) -> Iterator[MetricPoint]:
    """Yield single values at step 0, curves by percent rejected, and the history of the training by epoch."""
    for key, value in result.metrics.items():
        yield key, value, 0
    for key, curve in result.curves.items():
        for percent, value in enumerate(curve):
            yield key, value, percent
    for phase, value in result.seconds.items():
        yield f"seconds/{phase}", value, 0
    yield from _history(result)
    yield "epochs", result.epochs, 0
    yield "peak_rss_mb", result.peak_rss_mb, 0


def _history(result: RunResult) -> Iterator[MetricPoint]:
    for key, points in result.history.items():
        for epoch, value in points:
            yield key, value, int(epoch)


def _find_complete_run(client: MlflowClient, experiment_id: str, run_id: str) -> str | None:
    """Return the MLflow id of a run that is completely written; remove what a killed process left of it."""
    for run in client.search_runs([experiment_id], filter_string=f"tags.run_id = '{run_id}'", max_results=10):
        if run.info.status == "FINISHED":
            return run.info.run_id
        client.delete_run(run.info.run_id)
    return None


def read_dashboard_links(uri: str, experiment: str) -> dict[str, str]:
    """Return the paths of an experiment's dashboards by name, relative to the server that serves the store."""
    existing = connect(uri, create=False).get_experiment_by_name(experiment)
    if existing is None:
        return {}
    return {d.name: d.link("", existing.experiment_id) for d in read_dashboards(existing.tags)}


def read_tags(mlflow_id: str, *, uri: str | None, output_dir: Path) -> dict[str, str]:
    """Return the tags of an MLflow run; `kind` says whether it is a run, a sweep or a summary."""
    from mlflow.exceptions import MlflowException

    uri = uri or default_uri(output_dir)
    try:
        return dict(connect(uri, create=False).get_run(mlflow_id).data.tags)
    except MlflowException:
        raise InputError(
            f"MLflow at {uri} has no run {mlflow_id}", expected="the id of a run or a sweep, as shown on its page"
        ) from None
