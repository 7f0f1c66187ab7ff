"""A sweep in MLflow: a parent with its runs, summaries for the dashboards, and the state of a stopped sweep."""

import os
import signal
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from lopgpn_exp.runs.query import select_runs
from lopgpn_exp.runs.table import load_curves, load_results
from lopgpn_exp.tracking import read_tags
from tests.support import TRACKED
from tests.support.sweeps import before_each_run, planned_runs

pytestmark = pytest.mark.filterwarnings("ignore")  # MLflow's own


@pytest.fixture
def search(tracked_outputs):
    """Return a function that finds the runs of the experiment by their tags."""
    client = MlflowClient(f"sqlite:///{tracked_outputs}/mlflow.db")

    def find(query: str) -> list:
        experiment = client.get_experiment_by_name("lopgpn_exp").experiment_id
        return client.search_runs([experiment], query)

    find.client = client
    return find


def select(mlflow_id: str):
    outputs = Path("outputs")
    (selection,) = select_runs([mlflow_id], outputs, read_tags=lambda i: read_tags(i, uri=None, output_dir=outputs))
    return [run.result for run in selection.runs]


def test_parent_has_means_files_and_one_child_per_run(command, monkeypatch, search):
    words = [*TRACKED, "model=appnp,gkde", "split.index=0,1,2", "ood=none", "-m"]

    def fail(plan):
        if plan.model == "gkde" and plan.split == 2:
            raise ZeroDivisionError("on purpose")

    def children():
        (parent,) = search("tags.kind = 'sweep'")
        runs = search(f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'")
        return parent, sorted(run.info.status for run in runs)

    with monkeypatch.context() as patch:
        before_each_run(patch, fail)
        assert command(*words)[0] == 1
    assert children()[1] == ["FAILED"] + 5 * ["FINISHED"]
    (failed,) = search("attributes.status = 'FAILED'")
    assert failed.data.tags["error"] == "ZeroDivisionError: on purpose"
    assert command(*words)[0] == 0
    parent, statuses = children()
    assert statuses == 6 * ["FINISHED"]  # nothing counts twice
    results = load_results("outputs")
    accuracy = results.query("model == 'appnp'")["test/accuracy"]
    means = f"| appnp | none | 3 | {100 * accuracy.mean():.1f} ± {100 * accuracy.sem():.1f} |"
    assert means in parent.data.tags["mlflow.note.content"]
    assert not parent.data.metrics  # the UI would draw a chart for each of them
    (summary,) = search("tags.kind = 'summary' and tags.model = 'appnp'")
    assert summary.data.metrics["test/accuracy"] == pytest.approx(accuracy.mean())
    history = search.client.get_metric_history(summary.info.run_id, "arc/tu")
    curves = load_curves("outputs").query("model == 'appnp' and measure == 'tu'").groupby("percent")["accuracy"].mean()
    assert {point.step: point.value for point in history} == pytest.approx(curves.to_dict())
    artifacts = {artifact.path for artifact in search.client.list_artifacts(parent.info.run_id)}
    tables = {"runs.csv", "aggregate.csv", "curves.csv", "comparison.csv"}
    assert artifacts == {"sweep.json", *tables, "page.html", "SHA256SUMS"}
    (child,) = search("tags.kind = 'run' and tags.model = 'gkde' and tags.split = '1'")
    assert child.data.tags["sweep"] == parent.data.tags["run_id"]
    # The MLflow ids of sweep, run and summary select the same runs on the command line.
    assert {result.run_id for result in select(parent.info.run_id)} == set(results["run_id"])
    assert [result.run_id for result in select(child.info.run_id)] == [child.data.tags["run_id"]]
    assert {result.model for result in select(summary.info.run_id)} == {"appnp"}


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_stopped_sweep_is_marked_and_can_be_continued(command, monkeypatch, search, number, exit_code):
    words = [*TRACKED, "model=gkde", "split.index=0,1", "ood=none", "-m"]
    handler = signal.getsignal(signal.SIGTERM)
    with monkeypatch.context() as patch:
        before_each_run(patch, lambda plan: os.kill(os.getpid(), number) if plan.split == 1 else None)
        code, _, err = command(*words)
    assert code == exit_code
    assert len(err.strip().splitlines()) == 1
    assert "the same command continues" in err
    assert signal.getsignal(signal.SIGTERM) is handler
    assert [run.info.status for run in search("tags.kind = 'sweep'")] == ["KILLED"]
    code, out, err = command(*words)
    assert code == 0, err
    assert planned_runs(out) == (2, 1, 1)
    assert [run.info.status for run in search("tags.kind = 'sweep'")] == ["FINISHED"]


def test_summary_of_a_sweep_over_budgets_has_curves_for_the_dashboard(command, search):
    words = ["model=gkde", "ood=dice", "ood.budget=0,0.2,0.5", "split.index=0,1", "-m"]
    assert command(*TRACKED, *words)[0] == 0
    (summary,) = search("tags.kind = 'summary'")
    results = load_results("outputs")
    for name, metric in (("accuracy", "test/accuracy"), ("ece", "test/ece"), ("tu", "shift/mean/tu")):
        history = search.client.get_metric_history(summary.info.run_id, f"by_budget/dice/{name}")
        means = results.groupby("shift/budget")[metric].mean()
        assert {point.step / 100: point.value for point in history} == pytest.approx(means.to_dict())


def test_summary_of_a_newer_sweep_replaces_the_older_one(command, search):
    for splits in ("split.index=0,1", "split.index=0,1,2"):
        assert command(*TRACKED, "model=gkde", "ood=none", "-m", splits)[0] == 0
    summaries = search("tags.kind = 'summary'")
    newest = max(summaries, key=lambda run: run.info.start_time)
    assert newest.data.tags["latest"] == "true"
    assert sorted(run.data.tags["latest"] for run in summaries) == ["false", "true"]
