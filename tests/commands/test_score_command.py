"""The score command: how reliable the flags are, on nodes that were used neither for training nor for the limits."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from lopgpn_exp.config.plan import plan_run
from lopgpn_exp.report.guarantee_report import describe_broken_bound
from lopgpn_exp.runs.execute import run
from tests.support import compose


@pytest.fixture
def words(tree_run):
    folder, run_id = tree_run
    return [run_id, "--output-dir", str(folder / "outputs")]


def test_only_test_nodes_are_scored(command, words):
    command("predict", *words, "--output", "out.csv")
    code, out, _ = command("score", *words, "--export", "flags.csv")
    assert code == 0
    table, rows = pd.read_csv("out.csv"), pd.read_csv("flags.csv").set_index("flag")
    scored = table[table["label"].notna() & (table["part"] == "test")]
    assert rows["nodes"].sum() == len(scored)
    trusted = scored[scored["flag"] == "trust"]
    assert rows.loc["trust", "accuracy"] == pytest.approx((trusted["label"] == trusted["predicted"]).mean())
    assert f"{len(scored):,} labelled nodes" in out
    is_wrong = (scored["label"] != scored["predicted"]).to_numpy()
    kept = np.argsort(scored["tu"].to_numpy())[: int(np.ceil(0.8 * len(scored)))]
    row = re.search(r"TU +([\d.]+) +[\d.]+ +[\d.]+ +([\d.]+)%", out)
    assert float(row[1]) == pytest.approx(roc_auc_score(is_wrong, scored["tu"]), abs=1e-4)
    assert float(row[2]) == pytest.approx(100 * is_wrong[kept].mean(), abs=0.051)
    assert "written  flags.csv" in out
    assert f"next     lopgpn_exp predict {' '.join(words)}" in out


def test_training_nodes_of_the_run_are_not_scored_in_another_file(command, words, tree_run):
    """The file has no column for the split, so the parts of the nodes are those of the run."""
    folder, _ = tree_run
    command("score", *words, "--export", "own.csv")
    graph = ["--graph", str(folder / "nodes.csv"), "--edges", str(folder / "edges.csv")]
    command("score", *words, *graph, "--export", "same.csv")
    pd.testing.assert_frame_equal(pd.read_csv("own.csv"), pd.read_csv("same.csv"))


def test_the_table_of_sets_is_readable_in_a_narrow_terminal(command, words, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    _, out, _ = command("score", *words, "--coverage", "0.9")
    assert re.search(r"in-distribution +\d+ +[\d.]+% +[\d.]+% to [\d.]+% +[\d.]+% to [\d.]+% ", out)


def test_left_out_classes_count_as_ood(command, tree_run):
    overrides = ["dataset=custom", f"dataset.path={tree_run[0]}", "output_dir=outputs", "tracking=none"]
    run_id = run(plan_run(compose(*overrides, "ood=leave_out_classes", "trainer.progress=false"))).result.run_id
    command("predict", run_id)
    table = pd.read_csv("predictions.csv")
    assert "oak" in set(table["label"].dropna())  # left out of training, but still a label with a name
    assert "oak" not in set(table["predicted"])
    assert "p(oak)" not in table
    _, out, _ = command("score", run_id, "--export", "flags.csv")
    is_left_out = (table["label"] == "oak") & ~table["part"].isin(["train", "val"])
    assert pd.read_csv("flags.csv")["ood"].sum() == is_left_out.sum() > 0
    assert re.search(r"of all errors +OOD", out)


def test_ood_nodes_are_no_errors_against_the_bound(command, tree_run):
    """The model is wrong about all nodes of a class that it does not have; no bound is promised for them."""
    overrides = ["dataset=custom", f"dataset.path={tree_run[0]}", "output_dir=outputs", "tracking=none"]
    run_id = run(plan_run(compose(*overrides, "ood=leave_out_classes", "trainer.progress=false"))).result.run_id
    command("predict", run_id, "--max-error", "0.3")
    table = pd.read_csv("predictions.csv")
    accepted = table[table["label"].notna() & ~table["part"].isin(["train", "val"]) & table["accepted"]]
    is_ood = ~accepted["label"].isin([name[2:-1] for name in table if name.startswith("p(")])
    is_wrong = (accepted["label"] != accepted["predicted"])[~is_ood]
    _, out, _ = command("score", run_id, "--max-error", "0.3")
    assert f"{100 * is_wrong.mean():.1f}% of {len(is_wrong)} accepted labelled nodes are wrong" in out
    assert is_ood.any()
    assert f"the promise does not cover {is_ood.sum()} accepted OOD nodes" in " ".join(out.split())


def test_error_above_the_bound_is_reported_if_it_is_significant():
    is_wrong = np.arange(100) < 30
    assert "More than 20 % are wrong" in describe_broken_bound(is_wrong, 0.2)
    assert describe_broken_bound(is_wrong, 0.25) == ""
    assert describe_broken_bound(is_wrong[:0], 0.2) == ""


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        (["--keep", "7"], "keep is 7", "--keep 0.8"),
        (["--coverage", "7"], "coverage is 7", "--coverage 0.9"),
        (["--coverage", "0.99"], "need more than the 48 nodes", "--coverage 0.979"),
        (["--max-error", "0.001"], "cannot be promised", "--max-error 0.1"),
        (["--risk", "7"], "risk is 7", "--risk"),
        (["--export", "flags.xlsx"], "ends in .csv or .parquet", ""),
    ],
)
def test_input_error_is_one_message(command, words, options, message, hint):
    code, _, err = command("score", *words, *options)
    assert code == 2
    assert message in err
    assert hint in err
    assert "Traceback" not in err
