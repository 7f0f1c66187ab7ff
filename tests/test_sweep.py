"""Sweeps never lose work: expansion, plan, resume, failures, parallel workers, kills."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy import stats

from lopgpn_exp import cli, training
from lopgpn_exp.experiment import sweep
from lopgpn_exp.experiment.collect import load_curves, load_results
from lopgpn_exp.experiment.jobs import Job
from lopgpn_exp.experiment.results import read_result
from lopgpn_exp.experiment.selection import select
from lopgpn_exp.experiment.slurm import packed
from lopgpn_exp.report.aggregate import aggregate, aggregate_curves, compare
from lopgpn_exp.report.sweep import estimate
from lopgpn_exp.results import main as results_command
from tests.test_cli import command  # noqa: F401  (a fixture)
from tests.test_experiment import TINY

PLAN = re.compile(r"(\d+) runs: (\d+) already done, (\d+) to do")


def planned(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in PLAN.search(text).groups())


@pytest.mark.parametrize(
    ("words", "runs"),
    [
        ([], 10 * 4),
        (["inits=3"], 10 * 4 * 3),
        (["split.index=0,1"], 2 * 4),
        (["ood=none", "init=0,1,2,5"], 10 * 4),
        (["model=lop_gpn,gkde", "inits=2", "split.index=0"], 4 * 2 + 4),  # nothing in GKDE is random
        (["model=glob(gpn_*)", "split.index=0", "ood=none"], 2),
        (["split.count=3"], 3 * 4),
    ],
)
def test_a_bare_sweep_is_the_papers_protocol_and_a_named_axis_replaces_its_own(command, words, runs):  # noqa: F811
    code, out, err = command(*TINY, *words, "dry_run=true", "-m")
    assert code == 0, err
    assert planned(out) == (runs, 0, runs)


def test_overrides_may_stand_on_both_sides_of_the_flag(command):  # noqa: F811
    code, out, _ = command(*TINY, "-m", "split.index=0,1", "dry_run=true")
    assert code == 0
    assert planned(out)[0] == 8


def test_an_official_split_is_one_split(command, tmp_path, monkeypatch):  # noqa: F811
    from tests.test_data import write_ogb

    write_ogb(tmp_path)
    monkeypatch.setenv("LOPGPN_DATA", str(tmp_path))
    code, out, _ = command("dataset=ogbn_arxiv", "ood=none", "tracking=none", "dry_run=true", "-m")
    assert code == 0
    assert planned(out) == (1, 0, 1)


def test_a_launchers_wrong_value_is_a_message(command):  # noqa: F811
    code, _, err = command("hydra/launcher=slurm", "hydra.launcher.chunk=0", "tracking=none", "-m")
    assert code == 2
    assert "hydra.launcher.chunk is 0" in err
    assert "Traceback" not in err


def test_the_same_command_runs_only_what_is_missing(command):  # noqa: F811
    words = [*TINY, "split.index=0,1", "ood=none,gaussian"]
    code, out, _ = command(*words, "-m")
    assert code == 0
    assert planned(out) == (4, 0, 4)
    assert "2 trainings serve the 4 runs" in out
    code, out, _ = command(*words, "ood=none,gaussian,bernoulli", "-m")
    assert code == 0
    assert planned(out) == (6, 4, 2)
    assert "past runs" in out
    assert len(load_results("outputs")) == 6


def test_a_failed_run_is_recorded_the_others_go_on_and_only_it_is_tried_again(command, monkeypatch):  # noqa: F811
    words = [*TINY, "model=appnp,gpn_sym", "split.index=0,1", "ood=none", "-m"]
    original = sweep.run

    def breaks(plan, **options):
        if plan.model == "gpn_sym" and plan.split == 1:
            raise ZeroDivisionError("on purpose")
        return original(plan, **options)

    with monkeypatch.context() as patch:
        patch.setattr(sweep, "run", breaks)
        code, out, _ = command(*words)
    assert code == 1
    assert "1 failed:" in out
    assert "ZeroDivisionError: on purpose" in out
    assert len(load_results("outputs")) == 3
    (record,) = [os.path.join(d, "error.txt") for d, _, files in os.walk("outputs/runs") if "error.txt" in files]
    with open(record) as file:
        assert "Traceback" in file.read()
    code, out, _ = command(*words)
    assert code == 0
    assert planned(out) == (4, 3, 1)
    assert not os.path.exists(record)


@pytest.mark.filterwarnings("ignore")  # MLflow's own
def test_mlflow_has_a_parent_with_aggregates_and_a_failed_child(command, monkeypatch):  # noqa: F811
    from mlflow.tracking import MlflowClient

    words = [*[w for w in TINY if w != "tracking=none"], "model=appnp,gkde", "split.index=0,1,2", "ood=none", "-m"]
    original = sweep.run

    def breaks(plan, **options):
        if plan.model == "gkde" and plan.split == 2:
            raise ZeroDivisionError("on purpose")
        return original(plan, **options)

    with monkeypatch.context() as patch:
        patch.setattr(sweep, "run", breaks)
        assert command(*words)[0] == 1
    client = MlflowClient(f"sqlite:///{Path.cwd()}/outputs/mlflow.db")
    experiment = client.get_experiment_by_name("lopgpn_exp").experiment_id

    def children():
        (parent,) = client.search_runs([experiment], "tags.kind = 'sweep'")
        found = client.search_runs([experiment], f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'")
        return parent, sorted(run.info.status for run in found)

    assert children()[1] == ["FAILED"] + 5 * ["FINISHED"]
    assert command(*words)[0] == 0
    parent, statuses = children()
    assert statuses == 6 * ["FINISHED"]  # nothing counts twice
    results = load_results("outputs")
    accuracy = results.query("model == 'appnp'")["test/accuracy"]
    means = f"| appnp | none | 3 | {100 * accuracy.mean():.1f} ± {100 * accuracy.sem():.1f} |"
    assert means in parent.data.tags["mlflow.note.content"]
    assert not parent.data.metrics  # for each of them the UI would draw a chart
    (summary,) = client.search_runs([experiment], "tags.kind = 'summary' and tags.model = 'appnp'")
    assert summary.data.metrics["test/accuracy"] == pytest.approx(accuracy.mean())
    history = client.get_metric_history(summary.info.run_id, "arc/tu")
    curves = load_curves("outputs").query("model == 'appnp' and measure == 'tu'").groupby("percent")["accuracy"].mean()
    assert {point.step: point.value for point in history} == pytest.approx(curves.to_dict())
    artifacts = {artifact.path for artifact in client.list_artifacts(parent.info.run_id)}
    assert artifacts == {"sweep.json", "runs.csv", "aggregate.csv", "curves.csv", "comparison.csv", "page.html"}
    (side,) = select([parent.info.run_id], Path("outputs"))
    assert {run["run_id"] for run in side.runs} == set(results["run_id"])
    (child,) = client.search_runs([experiment], "tags.kind = 'run' and tags.model = 'gkde' and tags.split = '1'")
    (side,) = select([child.info.run_id], Path("outputs"))
    assert [run["run_id"] for run in side.runs] == [child.data.tags["run_id"]]
    (side,) = select([summary.info.run_id], Path("outputs"))
    assert {run["model"] for run in side.runs} == {"appnp"}
    assert child.data.tags["sweep"] == parent.data.tags["run_id"]


@pytest.mark.filterwarnings("ignore")  # MLflow's own
@pytest.mark.parametrize(("number", "expected"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_sweep_that_is_stopped_does_not_count_as_running(command, monkeypatch, number, expected):  # noqa: F811
    from mlflow.tracking import MlflowClient

    words = [*[w for w in TINY if w != "tracking=none"], "model=gkde", "split.index=0,1", "ood=none", "-m"]
    original = sweep.run

    def stopped(plan, **options):
        if plan.split == 1:
            os.kill(os.getpid(), number)
        return original(plan, **options)

    before = signal.getsignal(signal.SIGTERM)
    with monkeypatch.context() as patch:
        patch.setattr(sweep, "run", stopped)
        assert command(*words)[0] == expected
    assert signal.getsignal(signal.SIGTERM) is before
    client = MlflowClient(f"sqlite:///{Path.cwd()}/outputs/mlflow.db")
    experiment = client.get_experiment_by_name("lopgpn_exp").experiment_id
    assert [run.info.status for run in client.search_runs([experiment], "tags.kind = 'sweep'")] == ["KILLED"]
    code, out, err = command(*words)
    assert code == 0, err
    assert planned(out) == (2, 1, 1)
    assert [run.info.status for run in client.search_runs([experiment], "tags.kind = 'sweep'")] == ["FINISHED"]


@pytest.mark.filterwarnings("ignore")  # MLflow's own
def test_a_newer_sweep_takes_the_place_of_an_older_ones_summary(command):  # noqa: F811
    from mlflow.tracking import MlflowClient

    words = [*[w for w in TINY if w != "tracking=none"], "model=gkde", "ood=none", "-m"]
    for splits in ("split.index=0,1", "split.index=0,1,2"):
        assert command(*words, splits)[0] == 0
    client = MlflowClient(f"sqlite:///{Path.cwd()}/outputs/mlflow.db")
    experiment = client.get_experiment_by_name("lopgpn_exp").experiment_id
    found = client.search_runs([experiment], "tags.kind = 'summary'")
    newest = max(found, key=lambda run: run.info.start_time)
    assert {run.info.run_id: run.data.tags["latest"] for run in found}[newest.info.run_id] == "true"
    assert sorted(run.data.tags["latest"] for run in found) == ["false", "true"]


def test_a_model_with_other_values_is_not_averaged_with_it(command, capsys):  # noqa: F811
    words = [*TINY, "model=appnp", "model.teleport=0.1,0.5", "split.index=0,1", "ood=none", "-m"]
    code, out, err = command(*words)
    assert code == 0, err
    assert re.search(r"appnp teleport 0\.1 +none +2 ", out)
    results_command(["--output-dir", "outputs"])
    assert re.search(r"appnp teleport 0\.5 +none +2 ", capsys.readouterr().out)
    (folder,) = Path("outputs/sweeps").glob("sweep-*")
    means = pd.read_csv(folder / "aggregate.csv").query("metric == 'test/accuracy'").set_index("model")["mean"]
    results = load_results("outputs").set_index("run_id")
    for run_ids, model in _by_teleport(results.index):
        assert means[model] == pytest.approx(results.loc[run_ids, "test/accuracy"].mean())


def _by_teleport(run_ids) -> list[tuple[list[str], str]]:
    config = {run_id: yaml.safe_load(Path("outputs/runs", run_id, "config.yaml").read_text()) for run_id in run_ids}
    return [
        ([run_id for run_id in run_ids if config[run_id]["model"]["teleport"] == value], f"appnp teleport {value}")
        for value in (0.1, 0.5)
    ]


def test_a_sweep_of_impossible_runs_says_why_before_anything_runs(command):  # noqa: F811
    code, out, _ = command(*TINY, "split.index=0,99", "ood=none", "-m")
    assert code == 1
    assert "1 cannot be run: split.index is 99" in out
    assert len(load_results("outputs")) == 1


def _with_own_split(parts: str) -> None:
    """A ring of twelve nodes of two classes, whose file says which node is of which part."""
    rows = [f"n{at},{'ab'[at % 2]},{part},{at % 2 + at / 100}" for at, part in enumerate(parts.split())]
    Path("nodes.csv").write_text("\n".join(["id,label,split,x", *rows]))
    Path("edges.csv").write_text("\n".join(["source,target", *(f"n{at},n{(at + 1) % 12}" for at in range(12))]))


OWN = ["dataset=custom", "dataset.path=nodes.csv", "dataset.edges=edges.csv", "model=gkde", "ood=none", "tracking=none"]


@pytest.mark.parametrize(
    ("words", "left_out"), [([], 9), (["split.index=3,0"], 1)], ids=["by itself", "asked for, the missing one first"]
)
def test_a_sweep_over_data_with_one_split_of_its_own_has_that_one(command, words, left_out):  # noqa: F811
    _with_own_split("train train val val " + "test " * 8)
    code, out, err = command(*OWN, *words, "-m")
    assert code == 0, err
    assert planned(out) == (1, 0, 1)
    assert f"Further splits are left out, {left_out} runs" in out
    assert load_results("outputs")["split"].tolist() == [0]


@pytest.mark.parametrize("words", [["split.index=3"], ["split=random,own", "split.index=3"]], ids=" ".join)
def test_a_split_that_data_has_not_is_still_an_error_where_nothing_else_was_asked_for(command, words):  # noqa: F811
    """A run on a random split of the same data does not stand for one on its own."""
    _with_own_split("train train val val " + "test " * 8)
    code, out, _ = command(*OWN, *words, "-m")
    assert code == 1
    assert "the data brings one split of its own" in out
    assert "Further splits" not in out


def test_a_split_with_nothing_to_test_is_told_before_training(command, monkeypatch):  # noqa: F811
    monkeypatch.setattr(training, "fit", lambda *_, **__: pytest.fail("trained"))
    _with_own_split("train " * 6 + "val " * 6)
    code, _, err = command(*OWN)
    assert code == cli.USER_MISTAKE
    assert "the split has no labelled test nodes" in err


def test_an_estimate_speaks_only_of_what_past_runs_tell():
    todo = [
        Job({}, "", (model, "digits", True), run_id="", training_id=f"{model}{i}", folder=Path(), done=False)
        for model in ("appnp", "gkde")
        for i in range(3)
    ]
    past = pd.DataFrame({"model": ["appnp"] * 2, "dataset": ["digits"] * 2, "seconds/train": [10.0, 20.0]})
    assert estimate(todo[:3], past) == "about 45 s of training (from 2 past runs)"
    assert "about 45 s of training for 3 of them, and the others unknown" in estimate(todo, past)


def test_chunks_hold_whole_groups():
    sizes = {"a": 3, "b": 2, "c": 4, "d": 1}
    kind = ("model", "dataset", True)
    jobs = [[sweep.Job({}, "", kind, f"{g}{i}", g, Path(), False) for i in range(n)] for g, n in sizes.items()]
    assert [[job.run_id for job in chunk] for chunk in packed(jobs, 5)] == [
        ["a0", "a1", "a2", "b0", "b1"],
        ["c0", "c1", "c2", "c3", "d0"],
    ]
    assert [len(chunk) for chunk in packed(jobs, 1)] == [3, 2, 4, 1]
    assert packed([], 5) == []


def results_table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = [
        {"dataset": "d", "model": m, "scenario": "none", "split": s, "init": i, "test/accuracy": rng.random()}
        for m in ("a", "b")
        for s in range(5)
        for i in range(2)
    ]
    return pd.DataFrame(rows)


def test_aggregates_are_over_splits_with_students_interval():
    results = results_table()
    row = aggregate(results).query("model == 'a'").iloc[0]
    by_split = results.query("model == 'a'").groupby("split")["test/accuracy"].mean()
    low, high = stats.t.interval(0.95, 4, loc=by_split.mean(), scale=stats.sem(by_split))
    assert (row["runs"], row["splits"]) == (10, 5)
    assert (row["mean"], row["se"]) == pytest.approx((by_split.mean(), stats.sem(by_split)))
    assert (row["low"], row["high"]) == pytest.approx((low, high))


def test_one_split_has_no_error():
    row = aggregate(results_table().query("split == 0")).iloc[0]
    assert pd.isna(row["se"])
    assert pd.isna(row["low"])


def test_comparison_is_the_paired_t_test():
    results = results_table()
    row = compare(results, "test/accuracy").iloc[0]
    table = results.groupby(["split", "model"])["test/accuracy"].mean().unstack()
    expected = stats.ttest_rel(table["a"], table["b"])
    assert row["p"] == pytest.approx(expected.pvalue)
    interval = expected.confidence_interval(0.95)
    assert (row["low"], row["high"]) == pytest.approx((interval.low, interval.high))


def test_mean_curves():
    curves = pd.DataFrame(
        {"percent": [0, 0], "accuracy": [0.5, 0.7], "measure": "tu", "dataset": "d", "model": "m", "scenario": "none"}
        | {"split": [0, 1], "init": 0, "run_id": ["x", "y"]}
    )
    row = aggregate_curves(curves).iloc[0]
    assert (row["mean"], row["se"]) == pytest.approx((0.6, 0.1))
    assert load_curves("nowhere").empty


def start(folder, *words):
    arguments = [sys.executable, "-m", "lopgpn_exp", *TINY, f"output_dir={folder}", *words]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    return subprocess.Popen(arguments, start_new_session=True, **quiet)


SWEEP = ["-m", "hydra/launcher=joblib", "model=appnp,gpn_sym", "split.index=0,1,2", "hydra.launcher.n_jobs=2"]


def test_killed_at_random_moments_a_sweep_ends_as_if_undisturbed(tmp_path):
    """24 runs; SIGKILL to all its processes at a random moment, again and again, then the same command to the end.

    LOPGPN_KILLS says how often: 2 here, 20 in `make test-kill`.
    """
    calm = start(tmp_path / "calm", *SWEEP)
    assert calm.wait() == 0, calm.stderr.read()
    chance = random.Random(int(os.environ.get("LOPGPN_KILL_SEED", "0")))
    for _ in range(int(os.environ.get("LOPGPN_KILLS", "2"))):
        process = start(tmp_path / "killed", *SWEEP)
        time.sleep(chance.uniform(4, 16))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stderr.close()
    last = start(tmp_path / "killed", *SWEEP)
    assert last.wait() == 0, last.stderr.read()
    for process in (calm, last):
        process.stderr.close()
    folders = {name: sorted((tmp_path / name / "runs").glob("[!.]*")) for name in ("calm", "killed")}
    assert [folder.name for folder in folders["killed"]] == [folder.name for folder in folders["calm"]]
    assert len(folders["calm"]) == 24
    for one, other in zip(folders["calm"], folders["killed"], strict=True):
        assert read_result(one)["metrics"] == read_result(other)["metrics"]
        pd.testing.assert_frame_equal(
            pd.read_parquet(one / "predictions.parquet"), pd.read_parquet(other / "predictions.parquet")
        )


def test_workers_read_the_embedded_dataset_as_the_controller_does(tmp_path):
    """In a worker numerical libraries use other threads: the graph, and so the identity, must not depend on them."""
    words = ["trainer.max_epochs=1", "tracking=none", f"output_dir={tmp_path}", "-m", "hydra/launcher=joblib"]
    arguments = [sys.executable, "-m", "lopgpn_exp", *words, "hydra.launcher.n_jobs=2", "split.index=0,1", "ood=none"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(load_results(tmp_path)) == 2


def test_processes_that_start_at_once_without_a_database_do_not_crash(tmp_path):
    """Four at once; LOPGPN_STARTS says how often: once here, 20 times in `make test-kill`."""
    words = [w for w in TINY if w != "tracking=none"]
    for attempt in range(int(os.environ.get("LOPGPN_STARTS", "1"))):
        folder = tmp_path / str(attempt)
        command_line = [sys.executable, "-m", "lopgpn_exp", *words, f"output_dir={folder}"]
        together = [
            subprocess.Popen([*command_line, f"init={i}"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            for i in range(4)
        ]
        outputs = [process.communicate()[1] for process in together]
        assert [process.returncode for process in together] == [0] * 4, outputs
        assert len(load_results(folder)) == 4
