"""Shifts in whole runs: every model, trainings that are shared, saved runs, and sweeps over budgets."""

import json
from pathlib import Path

import pytest
import torch

from lopgpn_exp import load_results
from lopgpn_exp.config.plan import plan_run
from lopgpn_exp.errors import InputError
from lopgpn_exp.runs.execute import locate_run
from lopgpn_exp.runs.saved_run import SavedRun
from tests.support import MODELS, SMALL, TINY, compose, run_tiny
from tests.support.sweeps import planned_runs


def locate(*overrides: str):
    return locate_run(plan_run(compose(*TINY, *overrides)))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("shift", ["ood=dice", "ood=leave_out_classes ood.classes=[0] ood.inductive=true"])
def test_every_model_predicts_the_changed_graph(tmp_path, model, shift):
    """Also from the saved run, with the same numbers: closed-form models are fitted to the changed graph again."""
    options = [f"model={model}", *SMALL.get(model, [])]
    outcome = run_tiny(tmp_path, *options, *shift.split())
    saved = SavedRun.open(outcome.folder)
    assert saved.graphs.training.structure_fingerprint != saved.graph.structure_fingerprint
    expected = torch.tensor(saved.predictions["confidence"].to_numpy(copy=True))
    torch.testing.assert_close(saved.posterior.mean.double().max(dim=1).values, expected, rtol=1e-6, atol=1e-7)
    assert len(saved.predictions) == 300
    if "dice" in shift:
        metrics = outcome.result.metrics
        within = (saved.graphs.clean.labels[saved.graphs.clean.edge_index].diff(dim=0) == 0).sum() // 2
        assert metrics["shift/edges_removed"] == metrics["shift/edges_added"]
        assert metrics["shift/edges_removed"] == pytest.approx(0.1 * int(within), abs=2)


def test_edge_scenarios_share_the_training_of_the_clean_run_and_a_budget_of_zero_is_clean(tmp_path):
    clean = run_tiny(tmp_path, "ood=none")
    changed = run_tiny(tmp_path, "ood=random_edges", "ood.budget=0.3")
    zero = run_tiny(tmp_path, "ood=random_edges", "ood.budget=0")
    assert clean.result.training_id == changed.result.training_id == zero.result.training_id
    assert clean.result.metrics.items() <= zero.result.metrics.items()
    assert zero.result.metrics["shift/edges_removed"] == 0
    assert changed.result.scenario == "random_edges-0.3"


def test_inductive_and_transductive_runs_differ_in_training(tmp_path):
    first = locate("ood=leave_out_classes")
    second = locate("ood=leave_out_classes", "ood.inductive=true")
    assert first.training_id != second.training_id
    assert first.graphs.evaluation.fingerprint == second.graphs.evaluation.fingerprint


def test_a_set_of_the_last_classes_has_the_id_of_its_own():
    assert (
        locate("ood=leave_out_classes").training_id == locate("ood=leave_out_classes", "ood.classes=[2,3]").training_id
    )


@pytest.mark.parametrize("split", ["popularity", "locality", "density"])
def test_structural_splits_are_scenarios_in_results(tmp_path, split):
    outcome = run_tiny(tmp_path, f"split={split}")
    assert outcome.result.scenario == split
    assert {"id/accuracy", "ood/accuracy", "ood/auroc/eu"} <= set(outcome.result.metrics)
    assert json.loads((outcome.folder / "result.json").read_text())["scenario"] == split


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["split=density", "ood=gaussian"], "split=density marks out-of-distribution nodes itself"),
        (["ood=os_2"], "synthetic has no left-out classes for os_2"),
        (["ood=leave_out_classes", "ood.left_out_classes=null"], "synthetic names no classes to leave out"),
        (["ood=gaussian", "+ood.inductive=true"], "ood.inductive is true and ood.stage evaluation"),
        (["ood=leave_out_classes", "ood.inductive=1"], "ood.inductive is 1"),
    ],
)
def test_combinations_that_do_not_exist_are_refused_before_data_is_read(overrides, message):
    with pytest.raises(InputError, match=message):
        plan_run(compose(*TINY, *overrides))


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (["protocol=paper"], 10 * 4),
        (["protocol=per_class_20"], 5),  # no sets of left-out classes here
        (["protocol=per_class_20", "+dataset.left_out_sets={os_1: [0], os_3: [1, 2]}"], 5 * 3),
        (["protocol=shifts"], 3 * (2 + 2 * 5 + 3)),
        (["protocol=shifts", "split=locality"], 3),
        (["protocol=shifts", "ood=dice", "ood.budget=0,0.5"], 3 * 2),
        (["split=popularity"], 10),
        (["dataset.left_out_classes=null", "split.index=0"], 3),
    ],
)
def test_a_protocol_says_what_a_sweep_evaluates(command, words, count):
    code, out, err = command(*TINY, *words, "dry_run=true", "-m")
    assert code == 0, err
    assert planned_runs(out) == (count, 0, count)


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (["ood=glob(*)"], 9),  # those that need no sets of left-out classes
        (["ood=glob(*)", "+dataset.left_out_sets={os_2: [0]}"], 10),
        (["ood=glob(*)", "dataset.left_out_classes=null"], 8),
        (["ood=glob(*)", "split=density"], 1),
    ],
)
def test_all_scenarios_are_those_that_the_dataset_has(command, words, count):
    code, out, err = command(*TINY, *words, "split.index=0", "dry_run=true", "-m")
    assert code == 0, err
    assert planned_runs(out) == (count, 0, count)


def test_a_scenario_named_in_a_sweep_has_to_exist(command):
    code, out, _ = command(*TINY, "ood=none,os_1", "split.index=0", "dry_run=true", "-m")
    assert planned_runs(out) == (2, 0, 1)
    assert "synthetic has no left-out classes for os_1" in out
    code, _, err = command(*TINY, "ood=glob(os_*)", "dry_run=true", "-m")
    assert code == 2
    assert "the sweep has no runs" in err


def test_a_run_in_which_all_neighbourhoods_change_has_nothing_to_detect(tmp_path):
    outcome = run_tiny(tmp_path, "dataset.num_edges=4000", "ood=random_edges", "ood.budget=1")
    assert SavedRun.open(outcome.folder).graph.is_ood.all()
    assert "ood/accuracy" in outcome.result.metrics
    assert not any(metric.startswith("ood/auroc") for metric in outcome.result.metrics)
    assert (outcome.folder / "arc.png").is_file()
    assert not (outcome.folder / "ood.png").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hydra: {sweeper: {evaluations: ood=none}}", "evaluations is not a list of lines"),
        ("hydra: {sweeper: {evaluations: [3]}}", "evaluations is not a list of lines"),
        ("hydra: {sweeper: {params: [init]}}", "params is not a mapping"),
        ("hydra: {sweeper: {evaluations: [ood=nope]}}", "there is no ood=nope"),
        ("report: 3", "In 'protocol/mine'"),
    ],
)
def test_an_invalid_protocol_is_one_message(command, tmp_path, text, message):
    folder = tmp_path / "conf" / "protocol"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text(f"# @package _global_\n{text}\n")
    code, _, err = command("--config-dir", str(tmp_path / "conf"), *TINY, "protocol=mine", "-m")
    assert code == 2
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["ood=leave_out_classes", "ood.classes=[9]", "ood.inductive=true"], "class 9 does not exist"),
        (["ood=leave_out_classes", "ood.classes=[a]"], "expected: a list of whole numbers in brackets or null"),
        (["ood=dice", "ood.budget=1.5"], "budget is 1.5"),
        (["ood=random_edges", "dataset.num_edges=0"], "the graph has no edges"),
        (["split=density", "dataset.num_edges=0"], "the graph has no edges"),
        (["split=per_class", "dataset.num_nodes=60", "dataset.num_edges=90"], "class 0 has 15 nodes"),
        (["split=locality", "split.index=10"], "from 0 to 9"),
        (["protocol=mine"], "there is no protocol=mine"),
    ],
)
def test_bad_input_is_one_message_on_the_command_line(command, words, message):
    code, _, err = command(*TINY, *words)
    assert code == 2
    assert message in err
    assert "Traceback" not in err


def test_a_protocol_of_a_user_is_one_file(command, tmp_path):
    folder = tmp_path / "conf" / "protocol"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text(
        """
# @package _global_
report: [test/ece]
hydra:
  sweeper:
    params:
      split.index: range(2)
    evaluations:
      - ood=none
      - ood=dice ood.budget=0.1,0.2
"""
    )
    code, out, err = command("--config-dir", str(tmp_path / "conf"), *TINY, "protocol=mine", "-m")
    assert code == 0, err
    assert planned_runs(out) == (6, 0, 6)
    assert "ECE" in out
    assert set(load_results("outputs")["scenario"]) == {"none", "dice-0.1", "dice-0.2"}


def test_a_sweep_over_budgets_draws_curves_and_prints_the_correlation(command):
    code, out, err = command(*TINY, "ood=dice", "ood.budget=0,0.1,0.3,0.6", "split.index=0,1", "-m")
    assert code == 0, err
    assert "rank correlation of error and mean uncertainty over budgets" in out
    text = next(Path("outputs/sweeps").glob("*/page.html")).read_text()
    assert "dice, by budget" in text
    assert text.count('data-chart="budget"') == 2 + 6  # accuracy, ECE, six measures
    assert "Rank correlation of error" in text
