"""Write finished runs and sweeps to MLflow, each in one batch, after their files are complete."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lopgpn_exp.config.schema import flatten
from lopgpn_exp.records import RUN_KEYS, Attempt, RunResult, SweepRecord
from lopgpn_exp.report.names import model_colors
from lopgpn_exp.tracking.dashboards import dataset_dashboard, runs_dashboard
from lopgpn_exp.tracking.mlflow_experiment import COLOR_TAG, NOTE_TAG, MlflowExperiment
from lopgpn_exp.tracking.run_content import (
    DIGEST_TAG,
    MetricPoint,
    digest_run,
    digest_sweep,
    log_batches,
    run_metrics,
    shows_result,
    training_history,
)

if TYPE_CHECKING:
    import pandas as pd
    from mlflow.entities import Run

TAG_LENGTH = 4000
NOTE_LENGTH = 8000
PARENT_TAG = "mlflow.parentRunId"


class Tracker(MlflowExperiment):
    """One MLflow experiment. Everything that it writes can be repeated: what is there already is not written again.

    Attributes:
        sweep: the sweep that runs are added to, if any.
        changes: how many runs were `added`, `updated` and `unchanged`.
        new_sweeps: ids of the sweeps whose parent run was created.
    """

    def __init__(self, uri: str | None, experiment: str, output_dir: Path) -> None:
        super().__init__(uri, experiment, output_dir)
        self.sweep: SweepRecord | None = None
        self.changes: Counter[str] = Counter()
        self.new_sweeps: set[str] = set()
        self._parents: dict[str, str] = {}  # MLflow ids by sweep id
        self._found: defaultdict[str, list[Run]] = defaultdict(list)  # by run id, what `find_runs` found

    def find_runs(self, query: str = "") -> None:
        """Look up many runs at once, which is faster than one by one. Others are looked up when they are added."""
        self._found.clear()
        for run in self._search(f"tags.kind = 'run'{query}"):
            self._found[run.data.tags.get("run_id", "")].append(run)

    def add(self, folder: Path, result: RunResult, config: Mapping[str, Any] | None = None) -> str:
        """Write a finished run and return its MLflow id.

        An MLflow run that shows an earlier result of the same run is replaced, and one that a killed process left is
        removed.

        Args:
            config: by default, the one in the folder.
        """
        digest, sweep_tags = digest_run(folder), self._sweep_tags()
        match self._found.pop(result.run_id, []):
            case [run] if shows_result(run, digest, result) and sweep_tags.items() <= run.data.tags.items():
                mlflow_id, change = run.info.run_id, "unchanged"
            case _:
                with self._lock(f"{folder.name}.tracking"):  # another process may be writing the same run
                    mlflow_id, change = self._add(folder, result, config, sweep_tags | {DIGEST_TAG: digest})
        self._update_dashboard(runs_dashboard, {key for key, _, _ in run_metrics(result)})
        self.changes[change] += 1
        return mlflow_id

    def _add(
        self, folder: Path, result: RunResult, config: Mapping[str, Any] | None, tags: dict[str, str]
    ) -> tuple[str, str]:
        """Return the MLflow id of a run, and what was done to it."""
        runs = self._search_run(result.run_id)
        current = next((run for run in runs if shows_result(run, tags[DIGEST_TAG], result)), None)
        others = [run for run in runs if run is not current]
        if current is not None:
            mlflow_id, missing = current.info.run_id, tags.items() - current.data.tags.items()
            for key, value in missing:
                self.client.set_tag(mlflow_id, key, value)
            change = "updated" if missing or others else "unchanged"
        else:
            for run in runs:  # a run of a sweep stays in it
                tags = {key: run.data.tags[key] for key in (PARENT_TAG, "sweep") if key in run.data.tags} | tags
            self._delete(run for run in others if run.info.status != "FINISHED")
            mlflow_id, change = self._write_run(folder, result, config, tags), "updated" if runs else "added"
        self._delete(run for run in others if current or run.info.status == "FINISHED")
        return mlflow_id, change

    def _delete(self, runs: Iterable[Run]) -> None:
        for run in runs:
            self.client.delete_run(run.info.run_id)

    def _write_run(
        self, folder: Path, result: RunResult, config: Mapping[str, Any] | None, tags: dict[str, str]
    ) -> str:
        from lopgpn_exp.runs.run_folder import read_config  # deferred import: keeps --help fast

        params = list(flatten(read_config(folder) if config is None else config))
        tags = tags | {key: str(getattr(result, key)) for key in RUN_KEYS} | {"kind": "run", "folder": str(folder)}
        mlflow_id = self._create(result.title, tags)
        log_batches(self.client, mlflow_id, params=params, metrics=run_metrics(result))
        for path in sorted(folder.iterdir()):
            # A checkpoint stays in the run folder, whose path is a tag.
            if path.name != "model.ckpt" and path.is_file() and not path.is_symlink():
                self.client.log_artifact(mlflow_id, str(path))
        self.client.set_terminated(mlflow_id)
        return mlflow_id

    def add_attempt(self, attempt: Attempt) -> None:
        """Write a run of a sweep: finished, or FAILED with its error."""
        job = attempt.job
        if attempt.result is not None:
            self.add(job.folder, attempt.result, job.config)
            return
        error = attempt.error or ""
        tags = {"run_id": job.run_id, "kind": "run", "model": job.model, "dataset": job.dataset}
        tags |= {"folder": str(job.folder), "scenario": job.config["ood"]["name"], "error": error[:TAG_LENGTH]}
        with self._lock(f"{job.folder.name}.tracking"):
            # Earlier failures, and what a killed process left.
            self._delete(run for run in self._search_run(job.run_id) if run.info.status != "FINISHED")
            mlflow_id = self._create(job.title, self._sweep_tags() | tags)
            log_batches(self.client, mlflow_id, params=flatten(job.config), metrics=[])
            self.client.log_text(mlflow_id, attempt.details or error, "error.txt")
            self.client.set_terminated(mlflow_id, "FAILED")

    def open_sweep(self, sweep: SweepRecord) -> None:
        """Create the parent of a sweep's runs. The same sweep, started again, has the same parent."""
        self.sweep = sweep
        self.client.update_run(self._parent(sweep), status="RUNNING")
        self.find_runs(f" and tags.sweep = '{sweep.id}'")

    def abandon_sweep(self, *, failed: bool) -> None:
        """Mark a sweep that ended early, because of a bug or because it was stopped."""
        if self.sweep is not None and self.sweep.id in self._parents:
            with suppress(Exception):  # an unreachable store must not hide what ended the sweep
                self.client.set_terminated(self._parents[self.sweep.id], "FAILED" if failed else "KILLED")

    def close_sweep(self, results: pd.DataFrame, curves: pd.DataFrame, by_id: Mapping[str, RunResult]) -> None:
        """Write means and files to the parent, and one summary run per dataset and model for the dashboards.

        The means are the parent's description, not its metrics, since the UI would draw a chart for each of thousands.
        """
        from lopgpn_exp.evaluation.shift import summarise_shifts
        from lopgpn_exp.evaluation.statistics import find_first_clean_runs, summarise_models  # deferred: pandas
        from lopgpn_exp.report.terminal import render_means_markdown

        assert self.sweep is not None
        parent = self._parent(self.sweep)
        with self._lock("summaries.tracking"):  # another process may be closing a sweep of the same models
            if not results.empty:
                text = render_means_markdown(results)
                if len(text) > NOTE_LENGTH:
                    text = f"{len(results)} runs: the means are in the artifact page.html."
                self.client.set_tag(parent, NOTE_TAG, text)
                self.client.log_artifacts(parent, str(self.output_dir / "sweeps" / self.sweep.id))
                examples, colors = find_first_clean_runs(results), model_colors(results["model"])
                earlier = self._search("tags.kind = 'summary'")  # without names, which may contain quotes
                summaries, shifts = summarise_models(results, curves), summarise_shifts(results)
                for key in summaries | shifts:
                    summary = [*summaries.get(key, ()), *shifts.get(key, ())]
                    history = training_history(by_id[examples[key]]) if key in examples else ()
                    self._add_summary(*key, [*summary, *history], colors[key[1]])
                    self._retire_summaries(*key, earlier)
            self.client.set_tag(parent, DIGEST_TAG, digest_sweep(self.output_dir, by_id))  # last: it is complete
            self.client.set_terminated(parent)

    def is_sweep_closed(self, sweep: SweepRecord, results: Mapping[str, RunResult]) -> bool:
        """Return whether MLflow shows the present results of a sweep's finished runs, dashboards included."""
        parent = self.client.get_run(self._parent(sweep))
        dashboards = {dashboard.dataset for dashboard in self._read_dashboards()}
        return (
            parent.info.status == "FINISHED"
            and parent.data.tags.get(DIGEST_TAG) == digest_sweep(self.output_dir, results)
            and {result.dataset for result in results.values()} <= dashboards
        )

    def _add_summary(self, dataset: str, model: str, metrics: list[MetricPoint], color: str) -> None:
        """Write the means of a model over a sweep as a run, which the dashboard of the dataset shows."""
        assert self.sweep is not None
        # Not a child of the sweep's run: the UI shows children only after a click.
        tags = {"kind": "summary", "latest": "true", "dataset": dataset, "model": model, "sweep": self.sweep.id}
        mlflow_id = self._create(f"{model} · {dataset} · mean", tags | {COLOR_TAG: color})
        log_batches(self.client, mlflow_id, params=[], metrics=metrics)
        self.client.set_terminated(mlflow_id)
        self._update_dashboard(partial(dataset_dashboard, dataset), {key for key, _, _ in metrics})

    def _retire_summaries(self, dataset: str, model: str, earlier: list[Run]) -> None:
        """Remove the earlier means of the same sweep, and take those of other sweeps off the dashboard."""
        assert self.sweep is not None
        for run in earlier:
            tags = run.data.tags
            if (tags["dataset"], tags["model"]) != (dataset, model):
                continue
            if tags["sweep"] == self.sweep.id:
                self.client.delete_run(run.info.run_id)
            elif tags["latest"] == "true":
                self.client.set_tag(run.info.run_id, "latest", "false")

    def _parent(self, sweep: SweepRecord) -> str:
        """Return the MLflow id of a sweep's parent run, which is created if there is none."""
        if sweep.id not in self._parents:
            with self._lock(f"{sweep.id}.tracking"):
                runs = self._search_run(sweep.id)
                if not runs:
                    self.new_sweeps.add(sweep.id)
                tags = {"run_id": sweep.id, "kind": "sweep"}
                self._parents[sweep.id] = runs[0].info.run_id if runs else self._create(sweep.name, tags)
        return self._parents[sweep.id]

    def _sweep_tags(self) -> dict[str, str]:
        return {} if self.sweep is None else {PARENT_TAG: self._parent(self.sweep), "sweep": self.sweep.id}
