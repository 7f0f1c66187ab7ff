"""One run end to end: what it writes, what it does not repeat, and what it refuses."""

import json
import math

import pandas as pd
import pytest
import torch

from lopgpn_exp import training
from lopgpn_exp.config.plan import plan_run
from lopgpn_exp.errors import InputError
from lopgpn_exp.evaluation.evaluate import tabulate_predictions
from lopgpn_exp.runs import checkpoint
from lopgpn_exp.runs.checksums import write_checksums
from lopgpn_exp.runs.execute import locate_run, run
from lopgpn_exp.runs.run_folder import read_result
from lopgpn_exp.training import load_module
from tests.support import SMALL, TINY, compose, config_names, run_tiny
from tests.support.graph_files import write_ogb_files
from tests.support.processes import Program

MEASURES = ["tu", "au", "eu", "eu_pc", "eu_so", "lconf"]


# The tiny dataset has no sets of left-out classes, and negative features.
SCENARIOS = [name for name in config_names("ood") if not name.startswith("os_") and name != "near_features"]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_run_folder_has_the_documented_content(tmp_path, scenario):
    outcome = run_tiny(tmp_path, f"ood={scenario}", "split.index=3", "init=2")
    result = json.loads((outcome.folder / "result.json").read_text())
    assert {"schema", "run_id", "model", "dataset", "split", "init", "scenario", "metrics", "curves", "epochs"} | {
        "seconds",
        "peak_rss_mb",
        "versions",
    } <= set(result)
    assert (result["schema"], result["run_id"]) == (2, outcome.folder.name)
    has_budget = scenario in ("dice", "random_edges")
    name = f"{scenario}-0.1" if has_budget else scenario
    assert (result["model"], result["dataset"], result["scenario"]) == ("lop_gpn", "synthetic", name)
    assert (result["split"], result["init"]) == (3, 2)
    assert set(result["seconds"]) == {"load", "prepare", "train", "evaluate"}
    assert set(result["cpu_seconds"]) == {"train", "predict"}
    assert list(result["curves"]) == [f"arc/{m}" for m in MEASURES]
    assert all(len(curve) == 100 for curve in result["curves"].values())
    expected = {f"test/{m}" for m in ("accuracy", "brier", "ece", "nll")} | {f"test/auarc/{m}" for m in MEASURES}
    expected |= {"val/accuracy", "val/nll"} | {f"error/{kind}/{m}" for kind in ("auroc", "aupr") for m in MEASURES}
    if has_budget:
        expected |= {"shift/budget", "shift/edges_removed", "shift/edges_added"} | {f"shift/mean/{m}" for m in MEASURES}
    if scenario != "none":
        expected |= {"id/accuracy", "ood/accuracy"} | {f"change/{m}" for m in MEASURES}
        expected |= {f"ood/{kind}/{m}" for kind in ("auroc", "aupr", "fpr95") for m in MEASURES}
    assert set(result["metrics"]) == expected
    fractions = [
        value
        for key, value in result["metrics"].items()
        if not key.startswith(("change/", "shift/")) and key not in ("test/nll", "test/brier")
    ]
    assert all(0 <= value <= 1 for value in fractions)
    table = pd.read_parquet(outcome.folder / "predictions.parquet")
    assert list(table.columns) == ["node", "part", "label", "predicted", "confidence", "is_ood", *MEASURES]
    assert len(table) == 300
    assert set(table["part"]) <= {"train", "val", "test", "none"}
    assert bool(table["is_ood"].any()) == (scenario != "none")
    assert "model:" in (outcome.folder / "config.yaml").read_text()
    assert "could not be drawn" not in (outcome.folder / "page.html").read_text()
    assert {path.name for path in outcome.folder.iterdir()} == {
        "config.yaml",
        "SHA256SUMS",
        "model.ckpt",
        "predictions.parquet",
        "result.json",
        "arc.png",
        "page.html",
    } | ({"ood.png"} if scenario != "none" else set())


@pytest.mark.parametrize("model", config_names("model"))
def test_checkpoint_of_every_model_gives_the_predictions_of_its_run(tmp_path, model):
    overrides = [f"output_dir={tmp_path}", f"model={model}", *SMALL.get(model, []), "ood=leave_out_classes"]
    plan = plan_run(compose(*TINY, *overrides))
    outcome = run(plan)
    graph = plan.load_graphs().evaluation
    module = load_module(outcome.folder / "model.ckpt", model_class=plan.model_class)
    pd.testing.assert_frame_equal(
        tabulate_predictions(module.model.predict(graph), graph),
        pd.read_parquet(outcome.folder / "predictions.parquet"),
    )
    assert read_result(outcome.folder) == outcome.result


def test_finished_run_is_not_repeated_unless_forced(tmp_path, monkeypatch):
    first = run_tiny(tmp_path)
    calls = []
    original = training.fit
    monkeypatch.setattr(training, "fit", lambda *a, **k: calls.append(1) or original(*a, **k))
    again = run_tiny(tmp_path)
    assert again.is_cached
    assert again.result == first.result
    assert not calls
    forced = run_tiny(tmp_path, "force=true")
    assert not forced.is_cached
    assert calls == [1]
    assert forced.result.metrics == first.result.metrics
    assert forced.folder == first.folder


def test_trained_model_is_evaluated_without_reading_its_checkpoint(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "read_checkpoint", lambda *_: pytest.fail("read the checkpoint"))
        clean = run_tiny(tmp_path)
    calls = []
    original = checkpoint.read_checkpoint
    monkeypatch.setattr(checkpoint, "read_checkpoint", lambda content: calls.append(1) or original(content))
    shifted = run_tiny(tmp_path, "ood=gaussian")
    assert len(calls) == 1  # a training from the cache has only its checkpoint
    assert shifted.result.training_id == clean.result.training_id


def test_feature_scenarios_share_the_clean_training(tmp_path):
    clean = run_tiny(tmp_path)
    for scenario in ("bernoulli", "gaussian"):
        outcome = run_tiny(tmp_path, f"ood={scenario}")
        assert outcome.result.training_id == clean.result.training_id
        assert (outcome.folder / "model.ckpt").read_bytes() == (clean.folder / "model.ckpt").read_bytes()
    assert run_tiny(tmp_path, "ood=leave_out_classes").result.training_id != clean.result.training_id
    assert len([path for path in (tmp_path / "trainings").iterdir() if path.is_dir()]) == 2


def test_forced_evaluation_scenario_does_not_repeat_the_shared_training(tmp_path, monkeypatch):
    run_tiny(tmp_path)
    monkeypatch.setattr(training, "fit", lambda *_, **__: pytest.fail("trained again"))
    for _ in range(2):
        assert not run_tiny(tmp_path, "ood=gaussian", "force=true").is_cached


def test_change_without_effect_finds_the_finished_run(tmp_path):
    run_tiny(tmp_path)
    assert run_tiny(tmp_path, "trainer.progress=true").is_cached
    assert run_tiny(tmp_path, "model.memory_limit_gib=9").is_cached


def test_two_processes_give_the_same_bits(tmp_path):
    here = run_tiny(tmp_path / "here", "ood=gaussian")
    program = Program(tmp_path / "there", *TINY, "ood=gaussian")
    assert program.wait() == 0, program.output
    (folder,) = (tmp_path / "there" / "outputs" / "runs").iterdir()
    assert folder.name == here.folder.name
    assert read_result(folder).metrics == here.result.metrics
    tables = [pd.read_parquet(path / "predictions.parquet") for path in (folder, here.folder)]
    pd.testing.assert_frame_equal(*tables, check_exact=True)


@pytest.mark.parametrize("name", ["predictions.parquet", "config.yaml"])
def test_run_that_lost_a_file_is_repeated(tmp_path, name):
    first = run_tiny(tmp_path)
    (first.folder / name).unlink()
    again = run_tiny(tmp_path)
    assert not again.is_cached
    assert (again.folder / name).is_file()
    assert again.result.metrics == first.result.metrics


def test_output_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written") as caught:
        run_tiny(tmp_path / "file" / "outputs")
    assert caught.value.hint == "output_dir=FOLDER"


def test_result_of_another_schema_is_made_again(tmp_path, caplog):
    outcome = run_tiny(tmp_path)
    (outcome.folder / "result.json").write_text(json.dumps(outcome.result.to_json() | {"schema": 0}))
    write_checksums(outcome.folder)
    with pytest.raises(InputError, match="schema 0 instead of 2"):
        read_result(outcome.folder)
    again = run_tiny(tmp_path)
    assert "schema 0 instead of 2): making the run again" in caplog.text
    assert not again.is_cached
    assert again.result.metrics == outcome.result.metrics
    assert read_result(outcome.folder).metrics == outcome.result.metrics


@pytest.mark.parametrize("content", ["", "{", "[]", '{"a": 1}', '{"schema": 1}'])
def test_damaged_result_is_refused(tmp_path, content):
    (tmp_path / "result.json").write_text(content)
    with pytest.raises(InputError, match="cannot be read"):
        read_result(tmp_path)


def test_folder_without_a_result_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"has no result\.json"):
        read_result(tmp_path)


def test_metrics_are_finite(tmp_path):
    outcome = run_tiny(tmp_path, "ood=gaussian", "model=appnp")
    assert all(math.isfinite(value) for value in outcome.result.metrics.values())
    assert torch.get_num_threads() == 1


def test_a_model_that_needs_features_is_refused_before_training_if_there_are_none(tmp_path, monkeypatch):
    """The message names the file; a model without features runs."""
    folder = write_ogb_files(tmp_path)
    (folder / "raw/node-feat.csv.gz").unlink()
    monkeypatch.setenv("LOPGPN_DATA", str(tmp_path))
    options = ["dataset=ogbn_arxiv", f"output_dir={tmp_path / 'outputs'}", "tracking=none"]
    for model in ("lop_gpn", "gpn_sym", "gpn_rw", "appnp"):
        with pytest.raises(InputError, match=f"ogbn_arxiv has no features here, and model={model} needs") as caught:
            run(plan_run(compose(f"model={model}", *options)))
        assert str(folder / "raw/node-feat.csv.gz") in str(caught.value)
    assert not (tmp_path / "outputs" / "trainings").exists()
    assert locate_run(plan_run(compose("model=gkde", *options))).graphs.training.missing_features is not None
