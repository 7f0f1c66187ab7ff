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
