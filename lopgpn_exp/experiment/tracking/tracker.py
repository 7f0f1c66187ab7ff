"""MLflow, in one place: a finished run is written in one batch, after its files are safe."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from lopgpn_exp.errors import InputError
from lopgpn_exp.experiment.jobs import Attempt
from lopgpn_exp.experiment.results import read_result
from lopgpn_exp.experiment.sweeps import Sweep, flattened
from lopgpn_exp.experiment.tracking.dashboards import (
    Dashboard,
    dashboards_in,
    dataset_dashboard,
    described,
    runs_dashboard,
)
from lopgpn_exp.experiment.tracking.store import (
    LOCK_SECONDS,
    connect,
    default_uri,
    experiment_of,
    server_of,
    ui_command,
    unreachable,
)
from lopgpn_exp.report.names import model_color, model_colors

if TYPE_CHECKING:
    import pandas as pd
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

METRICS_PER_BATCH = 1000  # MLflow's limits
PARAMS_PER_BATCH = 100
PARAM_LENGTH = 6000
TAG_LENGTH = 4000
MLFLOW_PARENT = "mlflow.parentRunId"
COLOR = "mlflow.runColor"  # of a run's lines and bars
NOTE = "mlflow.note.content"  # the description of an experiment or a run
NOTE_LENGTH = 8000
MOST_SUMMARIES = 10_000
KIND = "mlflow.experimentKind"  # which layout the UI opens it in
TAGS = ("run_id", "model", "dataset", "split", "init", "scenario")


class Tracker:
    """One MLflow experiment. Everything is read from files that are already safe, so nothing is lost if MLflow is."""

    def __init__(self, uri: str | None, experiment: str, output_dir: Path) -> None:
        self.uri = uri or default_uri(output_dir)
        self.is_default = not uri
        self.output_dir = output_dir
        self.client = connect(self.uri)
        try:
            self.experiment_id = experiment_of(self.client, experiment, self.uri, output_dir)
        except Exception as error:  # a deleted experiment, an empty name: MLflow has an exception for each
            raise unreachable(self.uri, error) from None
        self.parent: str | None = None
        self.sweep: Sweep | None = None
        self._charted: dict[str, set[str]] = {}  # by dashboard, the metrics that this process knows to be on it

    def add(self, folder: Path, config: dict[str, Any], name: str) -> str:
        """Write a finished run and return its id in MLflow; one that is there already is only given its parent."""
        lock = self.output_dir / "runs" / f".{folder.name}.tracking.lock"
        with FileLock(lock, timeout=LOCK_SECONDS):  # another process may be writing this very run
            return self._add(folder, config, name)

    def _add(self, folder: Path, config: dict[str, Any], name: str) -> str:
        result = read_result(folder)
        known = _known(self.client, self.experiment_id, result["run_id"])
        if known is not None:
            for key, value in self._of_sweep().items():
                self.client.set_tag(known, key, value)
            return known
        tags = {key: str(result[key]) for key in TAGS} | {"kind": "run", "folder": str(folder)}
        mlflow_id = self._create(name, tags)
        metrics = list(_metrics(result))
        self._log(mlflow_id, params=flattened(config), metrics=metrics)
        for path in sorted(folder.iterdir()):
            if path.name != "model.ckpt":  # stays in the run folder, whose path is a tag
                self.client.log_artifact(mlflow_id, str(path))
        self.client.set_terminated(mlflow_id)
        self._show(runs_dashboard, {key for key, _, _ in metrics})
        return mlflow_id

    def add_attempt(self, attempt: Attempt) -> None:
        """A run of a sweep as it ended: finished, or FAILED with what is known of why."""
        job = attempt.job
        if attempt.error is None:
            self.add(job.folder, job.config, job.title)
            return
        _known(self.client, self.experiment_id, job.run_id)
        model, dataset, _ = job.kind
        tags = {"run_id": job.run_id, "kind": "run", "model": model, "dataset": dataset, "folder": str(job.folder)}
        tags |= {"scenario": job.config["ood"]["name"], "error": attempt.error[:TAG_LENGTH]}
        mlflow_id = self._create(job.title, tags)
        self._log(mlflow_id, params=flattened(job.config), metrics=[])
        self.client.log_text(mlflow_id, attempt.details or attempt.error, "error.txt")
        self.client.set_terminated(mlflow_id, "FAILED")

    def open_sweep(self, sweep: Sweep) -> None:
        """The parent of a sweep's runs. The same sweep, started again, has the same parent."""
        found = self.client.search_runs([self.experiment_id], f"tags.run_id = '{sweep.id}'", max_results=1)
        if found:
            self.parent = found[0].info.run_id
            self.client.update_run(self.parent, status="RUNNING")
        else:
            self.parent = self._create(sweep.name, {"run_id": sweep.id, "kind": "sweep"})
        self.sweep = sweep

    def abandon_sweep(self, *, failed: bool) -> None:
        """It ended before its end, by a defect or because it was stopped; started again, it is RUNNING again."""
        if self.parent is not None:
            with suppress(Exception):  # a store out of reach must not hide what ended the sweep
                self.client.set_terminated(self.parent, "FAILED" if failed else "KILLED")

    def close_sweep(self, results: pd.DataFrame, curves: pd.DataFrame) -> None:
        """Means and files on the parent; a summary run a dataset and model, whose lines the dashboards draw.

        The means are the parent's description, not its metrics: for each of thousands, the UI would draw a chart.
        """
        from lopgpn_exp.report.aggregate import first_clean_runs, summaries  # pandas: only for a sweep
        from lopgpn_exp.report.sweep import means_markdown

        assert self.parent is not None
        assert self.sweep is not None
        if not results.empty:
            text = means_markdown(results)
            if len(text) > NOTE_LENGTH:
                text = f"{len(results)} runs: the means are in the artifact page.html."
            self.client.set_tag(self.parent, NOTE, text)
            self.client.log_artifacts(self.parent, str(self.sweep.folder))
            examples, colors = first_clean_runs(results), model_colors(results["model"])
            for key, summary in summaries(results, curves).items():
                example = self.output_dir / "runs" / examples[key] if key in examples else None
                metrics = [*summary, *(_history(read_result(example)) if example else ())]
                self._summarise(*key, metrics, colors[key[1]])
        self.client.set_terminated(self.parent)

    def _summarise(self, dataset: str, model: str, metrics: list[tuple[str, float, int]], color: str) -> None:
        """Means of a model over a sweep's runs, as a run; it takes the place of an earlier one in the dashboards."""
        assert self.sweep is not None
        for old in self._latest_summaries():
            if (old.data.tags["dataset"], old.data.tags["model"]) != (dataset, model):  # a name may hold a quote
                continue
            if old.data.tags["sweep"] == self.sweep.id:
                self.client.delete_run(old.info.run_id)
            else:
                self.client.set_tag(old.info.run_id, "latest", "false")
        # Not a child of the sweep's run: the UI shows children only after a click.
        tags = {"kind": "summary", "latest": "true", "dataset": dataset, "model": model, "sweep": self.sweep.id}
        mlflow_id = self._create(f"{model} · {dataset} · mean", tags | {COLOR: color}, is_child=False)
        self._log(mlflow_id, params=[], metrics=metrics)
        self.client.set_terminated(mlflow_id)
        self._show(partial(dataset_dashboard, dataset), {key for key, _, _ in metrics})

    def _latest_summaries(self) -> list[Run]:
        wanted = "tags.kind = 'summary' and tags.latest = 'true'"
        return list(self.client.search_runs([self.experiment_id], wanted, max_results=MOST_SUMMARIES))

    def links(self, datasets: Collection[str] | None = None) -> dict[str, str]:
        """By their names, the addresses of the experiment's dashboards: all, or those of runs on some datasets."""
        tags = self.client.get_experiment(self.experiment_id).tags
        return {
            dashboard.name: dashboard.link(server_of(self.uri), self.experiment_id)
            for dashboard in dashboards_in(tags)
            if datasets is None or dashboard.dataset is None or dashboard.dataset in datasets
        }

    @property
    def ui(self) -> str | None:
        """What to type to have the store served; None if it is a server."""
        return ui_command(self.uri, self.output_dir, is_default=self.is_default)

    def _show(self, make: Callable[[Collection[str]], Dashboard], metrics: set[str]) -> None:
        """Bring a dashboard up to date, if these metrics are not all on it, and the list of dashboards with it."""
        key = make(()).key
        if metrics <= self._charted.get(key, set()):
            return
        tags = self.client.get_experiment(self.experiment_id).tags
        there = {dashboard.key: dashboard for dashboard in dashboards_in(tags)}
        self._charted[key] = metrics | (there[key].metrics if key in there else set())
        there[key] = make(self._charted[key])
        note = described(there.values(), self.experiment_id)
        for name, value in (there[key].tag, (NOTE, note), (KIND, "custom_model_development")):
            if tags.get(name) != value:
                self.client.set_experiment_tag(self.experiment_id, name, value)

    def _create(self, name: str, tags: dict[str, str], *, is_child: bool = True) -> str:
        color = {COLOR: model_color(tags["model"])} if "model" in tags else {}
        tags = {"mlflow.source.name": "lopgpn_exp", **(self._of_sweep() if is_child else {}), **color, **tags}
        return self.client.create_run(self.experiment_id, tags=tags, run_name=name).info.run_id

    def _of_sweep(self) -> dict[str, str]:
        if self.parent is None or self.sweep is None:
            return {}
        return {MLFLOW_PARENT: self.parent, "sweep": self.sweep.id}

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


def _metrics(result: dict[str, Any]) -> Iterator[tuple[str, float, int]]:
    """Single values at step 0; curves as stepped metrics, step = percent rejected; how training went, step = epoch."""
    for key, value in result["metrics"].items():
        yield key, value, 0
    for key, curve in result["curves"].items():
        for percent, value in enumerate(curve):
            yield key, value, percent
    for phase, value in result["seconds"].items():
        yield f"seconds/{phase}", value, 0
    yield from _history(result)
    yield "epochs", result["epochs"], 0
    yield "peak_rss_mb", result["peak_rss_mb"], 0


def _history(result: dict[str, Any]) -> Iterator[tuple[str, float, int]]:
    for key, points in result.get("history", {}).items():  # a run of an earlier version has none
        for epoch, value in points:
            yield key, value, epoch


def _known(client: MlflowClient, experiment_id: str, run_id: str) -> str | None:
    """The MLflow id of a run that is completely written; what a killed process left of it is removed."""
    found = client.search_runs([experiment_id], filter_string=f"tags.run_id = '{run_id}'", max_results=10)
    for run in found:
        if run.info.status == "FINISHED":
            return run.info.run_id
        client.delete_run(run.info.run_id)
    return None


def dashboard_links(uri: str, experiment: str) -> dict[str, str]:
    """By their names, the paths of an experiment's dashboards on whichever server serves the store."""
    client = connect(uri, create=False)
    found = client.get_experiment_by_name(experiment)
    return {d.name: d.link("", found.experiment_id) for d in dashboards_in(found.tags)} if found else {}


def tags_of(mlflow_id: str, *, uri: str | None, output_dir: Path) -> dict[str, str]:
    """The tags of a run in MLflow: `kind` says whether it is a run, a sweep or a summary."""
    from mlflow.exceptions import MlflowException

    uri = uri or default_uri(output_dir)
    try:
        return dict(connect(uri, create=False).get_run(mlflow_id).data.tags)
    except MlflowException:
        raise InputError(
            f"MLflow at {uri} has no run {mlflow_id}", expected="the id of a run or a sweep, as its page shows it"
        ) from None
