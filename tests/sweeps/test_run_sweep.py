"""A sweep runs only what is missing, goes on after a failure, and reports both."""

import os
import re
from pathlib import Path

import pandas as pd
import pytest
import yaml

from lopgpn_exp import training
from lopgpn_exp.records import RunResult
from lopgpn_exp.runs.run_folder import read_result
from lopgpn_exp.runs.table import load_results
from tests.support import TINY
from tests.support.sweeps import before_each_run, planned_runs


def test_same_command_runs_only_what_is_missing(command):
    words = [*TINY, "split.index=0,1", "ood=none,gaussian"]
    code, out, _ = command(*words, "-m")
    assert code == 0
    assert planned_runs(out) == (4, 0, 4)
    assert "2 trainings for 4 runs" in out
    code, out, _ = command(*words, "ood=none,gaussian,bernoulli", "-m")
    assert code == 0
    assert planned_runs(out) == (6, 4, 2)
    assert "past runs" in out
    assert len(load_results("outputs")) == 6


def test_resumed_sweep_parses_each_result_once(command, monkeypatch):
    words = [*TINY, "model=appnp", "ood=none,gaussian", "-m"]
    assert command(*words, "split.index=0")[0] == 0
    parsed = []
    original = RunResult.from_json.__func__

    def count(cls, content):
        parsed.append(content["run_id"])
        return original(cls, content)

    monkeypatch.setattr(RunResult, "from_json", classmethod(count))
    code, out, _ = command(*words, "split.index=0,1")
    assert code == 0
    assert planned_runs(out) == (4, 2, 2)
    assert len(parsed) == len(set(parsed)) == 2  # the finished runs; new results stay in memory


def test_failed_run_is_recorded_and_only_it_is_repeated(command, monkeypatch):
    words = [*TINY, "model=appnp,gpn_sym", "split.index=0,1", "ood=none", "-m"]

    def fail(plan):
        if plan.model == "gpn_sym" and plan.split == 1:
            raise ZeroDivisionError("on purpose")

    with monkeypatch.context() as patch:
        before_each_run(patch, fail)
        code, out, _ = command(*words)
    assert code == 1
    assert "1 failed:" in out
    assert "ZeroDivisionError: on purpose" in out
    assert len(load_results("outputs")) == 3
    (record,) = [os.path.join(d, "error.txt") for d, _, files in os.walk("outputs/runs") if "error.txt" in files]
    assert "Traceback" in Path(record).read_text()
    code, out, _ = command(*words)
    assert code == 0
    assert planned_runs(out) == (4, 3, 1)
    assert not os.path.exists(record)


@pytest.mark.filterwarnings("ignore")  # MLflow's own
@pytest.mark.parametrize("tracking", ["none", "mlflow"])
def test_finished_run_with_a_damaged_result_is_made_again(command, tracked_outputs, tracking):
    words = [*TINY, f"tracking={tracking}", "model=gkde", "split.index=0,1", "ood=none", "-m"]
    assert command(*words)[0] == 0
    (result,) = Path("outputs/runs").glob("gkde-*-s0-*/result.json")
    before = read_result(result.parent)
    result.write_text("{")
    code, out, _ = command(*words)
    assert code == 0
    assert planned_runs(out) == (2, 1, 1)
    assert read_result(result.parent).metrics == before.metrics


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["split.index=a,b"], "split.index is 'a'\n  expected: a whole number"),
        (["init="], "init is ''\n  expected: a whole number"),
        (["model.teleport=interval(0.1,0.2)"], "model.teleport is a range\n  expected: single values"),
        (["hydra/launcher=joblib", "hydra.launcher.n_jobs=0"], "n_jobs is 0"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_wrong_axis_or_launcher_option_is_one_message(command, words, message):
    code, out, err = command(*TINY, *words, "-m")
    assert (code, out) == (2, "")
    assert f"lopgpn_exp: {message}" in err


def test_runs_of_a_model_with_other_settings_are_not_averaged(command):
    words = [*TINY, "model=appnp", "model.teleport=0.1,0.5", "split.index=0,1", "ood=none", "-m"]
    code, out, err = command(*words)
    assert code == 0, err
    assert re.search(r"appnp teleport 0\.1 +none +2 ", out)
    assert re.search(r"appnp teleport 0\.5 +none +2 ", command("results")[1])
    (folder,) = Path("outputs/sweeps").glob("sweep-*")
    means = pd.read_csv(folder / "aggregate.csv").query("metric == 'test/accuracy'").set_index("model")["mean"]
    accuracy = load_results("outputs").set_index("run_id")["test/accuracy"]
    configs = {
        run_id: yaml.safe_load(Path("outputs/runs", run_id, "config.yaml").read_text()) for run_id in accuracy.index
    }
    for teleport in (0.1, 0.5):
        run_ids = [run_id for run_id, config in configs.items() if config["model"]["teleport"] == teleport]
        assert len(run_ids) == 2
        assert means[f"appnp teleport {teleport}"] == pytest.approx(accuracy[run_ids].mean())


def test_invalid_run_is_reported_before_the_others_run(command, tmp_path):
    code, out, _ = command(*TINY, "split.index=99,0", "ood=none", "-m")
    assert code == 1
    plan, _, summary = out.partition("accuracy")
    assert "1 cannot be run: index is 99" in plan
    assert "index is 99" in summary
    assert "try:      split.index=9" in summary
    assert len(load_results("outputs")) == 1
    assert len(list((tmp_path / "outputs" / "runs").iterdir())) == 1


def write_dataset_with_split(parts: str) -> None:
    """Write a ring of twelve nodes in two classes, with the part of each node in a column."""
    rows = [f"n{i},{'ab'[i % 2]},{part},{i % 2 + i / 100}" for i, part in enumerate(parts.split())]
    Path("nodes.csv").write_text("\n".join(["id,label,split,x", *rows]))
    Path("edges.csv").write_text("\n".join(["source,target", *(f"n{i},n{(i + 1) % 12}" for i in range(12))]))


CUSTOM = ["dataset=custom", "dataset.path=nodes.csv", "dataset.edges=edges.csv", "model=gkde", "ood=none"]
CUSTOM += ["tracking=none"]


@pytest.mark.parametrize(
    ("words", "num_skipped"), [([], 9), (["split.index=3,0"], 1)], ids=["default axis", "given axis, valid split last"]
)
def test_sweep_over_a_dataset_with_a_single_split_skips_the_others(command, words, num_skipped):
    write_dataset_with_split("train train val val " + "test " * 8)
    code, out, err = command(*CUSTOM, *words, "-m")
    assert code == 0, err
    assert planned_runs(out) == (1, 0, 1)
    runs = f"{num_skipped} run{'s' * (num_skipped > 1)}"
    assert f"Further splits are left out ({runs}): the dataset ships no more" in out
    assert load_results("outputs")["split"].tolist() == [0]


@pytest.mark.parametrize("words", [["split.index=3"], ["split=random,own", "split.index=3"]], ids=" ".join)
def test_split_that_does_not_exist_is_an_error_if_no_other_is_asked_for(command, words):
    """A run on a random split of the same dataset does not replace one on the dataset's own split."""
    write_dataset_with_split("train train val val " + "test " * 8)
    code, out, _ = command(*CUSTOM, *words, "-m")
    assert code == 1
    assert "the dataset ships a single split" in out
    assert "Further splits" not in out


def test_split_without_test_nodes_is_refused_before_training(command, monkeypatch):
    monkeypatch.setattr(training, "fit", lambda *_, **__: pytest.fail("trained"))
    write_dataset_with_split("train " * 6 + "val " * 6)
    code, _, err = command(*CUSTOM)
    assert code == 2
    assert "the split has no labelled test nodes" in err
