"""Reading back what MLflow contains, and comparing it with the files of an output folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lopgpn_exp.records import RunResult
from lopgpn_exp.runs.sweep_folder import read_sweep
from lopgpn_exp.runs.table import read_results

if TYPE_CHECKING:
    from mlflow.entities import Run


class MlflowStore:
    """The default experiment in the database of an output folder, or in another store."""

    def __init__(self, output_dir: Path, *, uri: str | None = None) -> None:
        from mlflow.tracking import MlflowClient

        self.output_dir = output_dir
        self.client = MlflowClient(uri or f"sqlite:///{output_dir.absolute()}/mlflow.db")

    @property
    def experiment_id(self) -> str:
        return self.client.get_experiment_by_name("lopgpn_exp").experiment_id

    @property
    def dashboards(self) -> set[str | None]:
        """The datasets of the dashboards; None stands for that of single runs."""
        from lopgpn_exp.tracking.dashboards import read_dashboards

        tags = self.client.get_experiment(self.experiment_id).tags
        return {dashboard.dataset for dashboard in read_dashboards(tags)}

    def search(self, query: str = "") -> list[Run]:
        return list(self.client.search_runs([self.experiment_id], query))

    def check_complete(self) -> None:
        """Check that MLflow shows exactly what the files contain."""
        results: list[RunResult] = read_results(self.output_dir)
        runs = self.search("tags.kind = 'run'")
        assert {run.info.status for run in runs} == {"FINISHED"}
        assert sorted(run.data.tags["run_id"] for run in runs) == [result.run_id for result in results]
        by_id = {run.data.tags["run_id"]: run for run in runs}
        for result in results:
            run = by_id[result.run_id]
            values = result.metrics | {f"seconds/{phase}": value for phase, value in result.seconds.items()}
            assert values.items() <= run.data.metrics.items()
            artifacts = {artifact.path for artifact in self.client.list_artifacts(run.info.run_id)}
            assert {"config.yaml", "result.json", "page.html"} <= artifacts
        assert None in self.dashboards
        for folder in (self.output_dir / "sweeps").glob("sweep-*"):
            self._check_sweep(folder)

    def _check_sweep(self, folder: Path) -> None:
        record = read_sweep(folder)
        (parent,) = self.search(f"tags.run_id = '{record.id}'")
        assert parent.info.status == "FINISHED"
        children = self.search(f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'")
        assert {run.data.tags["run_id"] for run in children} == set(record.run_ids)
        summaries = self.search(f"tags.kind = 'summary' and tags.sweep = '{record.id}'")
        groups = {(run.data.tags["dataset"], run.data.tags["model"]) for run in children}
        assert sorted((run.data.tags["dataset"], run.data.tags["model"]) for run in summaries) == sorted(groups)
        assert {dataset for dataset, _ in groups} <= self.dashboards
