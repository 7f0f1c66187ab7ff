"""`lopgpn_exp reproduce`: its options, which runs count, and what the report is made from."""

import shutil
import subprocess
from dataclasses import replace
from functools import partial

import pandas as pd
import pytest

from lopgpn_exp.config.plan import plan_run
from lopgpn_exp.paper import reproduction
from lopgpn_exp.paper.paper_report import write_report
from lopgpn_exp.paper.run_selection import compose_runs
from lopgpn_exp.paper.runs_file import load_runs
from lopgpn_exp.report.names import DATASET_NAMES
from lopgpn_exp.runs.execute import run
from tests.support import ROOT
from tests.support.published_runs import published_results, save_published, save_results

RUNS = "outputs/reproduction/runs.parquet"


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Leave out what takes longest: the figures of the report, the pages and figures of runs, and tracking."""
    monkeypatch.setattr("lopgpn_exp.paper.paper_report.write_report", partial(write_report, figures=False))
    monkeypatch.setattr("lopgpn_exp.report.figures.save_run_figures", lambda *_, **__: None)
    monkeypatch.setattr("lopgpn_exp.report.run_page.run_page", lambda *_, **__: "")
    monkeypatch.setattr(reproduction, "compose_runs", compose_untracked_runs)


def compose_untracked_runs(**options):
    return compose_runs(**(options | {"settings": [*options["settings"], "tracking=none"]}))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--splits", "abc"], "--splits is 'abc'\n  expected: a whole number from 1 to 10\n  try:      --splits 2"),
        (["--splits", "11"], "--splits is '11'"),
        (["--inits", "0"], "--inits is '0'"),
        (["--jobs", "0"], "--jobs is '0'\n  expected: a whole number from 1 to 1024"),
        (["--models", "foo"], "--models contains 'foo'\n  expected: some of appnp"),
        (["--models", "lopgpn"], "try:      --models lop_gpn"),
        (["--datasets", "cora_ml,digits"], "--datasets contains 'digits'"),
        (["--datasets", ","], "--datasets is empty"),
        (["--report", "--splits", "x"], "--splits is 'x'"),
        (["--report"], "no finished runs of the reproduction"),
        (["--split", "other"], "--split"),
        (["--recipes", "--report"], "--recipes is given together with --report"),
        (["--recipes", "--models", "gkde"], "there is nothing to evaluate"),
        (["--add", "runs.parquet"], "try:      --report --add FILE"),
        (["--report", "--add", "missing.parquet"], "missing.parquet cannot be read"),
    ],
    ids=lambda arguments: " ".join(arguments) if isinstance(arguments, list) else "",
)
def test_a_wrong_option_is_one_message_before_anything_runs(command, tmp_path, arguments, message):
    code, _, err = command("reproduce", *arguments)
    assert code == 2
    assert message in err
    assert not (tmp_path / "outputs").exists()


def test_variables_of_make_reach_the_command():
    line = ["make", "-n", "reproduce-tables", "SPLITS=3", "DATASETS=cora_ml pubmed", "MODELS=gkde", "JOBS=2"]
    recipe = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert (
        "--split 'published' --splits '3' --inits '1' --datasets 'cora_ml pubmed' --models 'gkde' --jobs '2'" in recipe
    )


def test_missing_runs_are_executed_and_exactly_these_are_reported(real_data, monkeypatch, command, tmp_path):
    monkeypatch.setenv("LOPGPN_DATA", str(real_data))
    report, options = tmp_path / "outputs/reproduction", {"models": ["gkde"], "datasets": ["cora_ml"], "inits": 1}
    arguments = ["reproduce", "--models", "gkde", "--datasets", "cora_ml", "--splits", "2", "--jobs", "1"]
    code, out, err = command(*arguments, "--dry-run")
    assert code == 0, err
    assert "8 runs: 0 already done, 8 to do" in out
    assert not report.exists()

    (variant, *_) = compose_runs(
        **options, splits=1, split_name="published", settings=["tracking=none"], variant=["model.max_hops=1"]
    )
    run(plan_run(variant))
    with monkeypatch.context() as whole_report:
        whole_report.setattr("lopgpn_exp.paper.paper_report.write_report", write_report)
        whole_report.setattr(
            "lopgpn_exp.paper.paper_report.save_figure", lambda _, folder, name: (folder / f"{name}.pdf").touch()
        )
        code, out, err = command(*arguments)
    assert code == 0, err
    assert (report / "arc.pdf").is_file()
    assert "8 runs: 0 already done, 8 to do" in out
    assert f"written  {report.relative_to(tmp_path) / 'audit.html'}" in out
    assert "next     lopgpn_exp ui" in out
    runs = load_runs(report / "runs.parquet")
    assert (runs.num_runs, len(runs.results)) == (8, 8 + 2 * 3)  # GKDE has a recipe in three scenarios
    assert (report / "table1_recipe.csv").read_text() != (report / "table1.csv").read_text()
    assert "OGBN Arxiv is left out" in (report / "audit.md").read_text()
    table = (report / "table1.csv").read_text()

    code, _, err = command("reproduce", "--report", "--also", "model.max_hops=1")
    assert code == 0, err
    assert (report / "table1.csv").read_text() == table  # the variant is reported, but is not part of the table
    assert "`model.max_hops=1`" in (report / "audit.md").read_text()

    code, _, err = command("reproduce", "--report", "--also", "model.max_hps=1")
    assert code == 2
    assert "gkde cannot run with model.max_hps=1" in err

    code, _, err = command("reproduce", "--models", "appnp", "--datasets", "cora_ml", "--report")
    assert code == 0, err
    assert "`model.max_hops=1`" in (report / "audit.md").read_text()  # a stored variant of another model stays

    shutil.rmtree(tmp_path / "outputs/runs")
    code, out, err = command("reproduce", "--report")
    assert code == 0, err
    assert "runs.parquet contains 9 runs" in out
    assert "adds 0." in out
    assert (report / "table1.csv").read_text() == table


def test_extending_executes_only_what_is_not_stored_and_loses_nothing(real_data, monkeypatch, command, tmp_path):
    monkeypatch.setenv("LOPGPN_DATA", str(real_data))
    arguments = ["reproduce", "--models", "gkde", "--datasets", "cora_ml", "--jobs", "1"]
    code, _, err = command(*arguments, "--splits", "1")
    assert code == 0, err
    before = pd.read_parquet(tmp_path / RUNS).set_index("run_id")
    shutil.rmtree(tmp_path / "outputs/runs")  # on another machine there is only the file
    code, out, err = command(*arguments, "--splits", "2", "--extend")
    assert code == 0, err
    assert "4 runs: 0 already done, 4 to do" in out
    after = pd.read_parquet(tmp_path / RUNS).set_index("run_id")
    assert sorted(after["split"]) == [0] * (4 + 3) + [1] * (4 + 3)  # the recipes of split 0 are kept
    pd.testing.assert_frame_equal(after.loc[before.index, before.columns], before)
    assert [session.runs for session in load_runs(tmp_path / RUNS).notes.sessions] == [4, 4]
    audit = (tmp_path / "outputs/reproduction/audit.md").read_text()
    assert "for 8 runs, repeated runs included, in 2 sessions" in audit
    assert "in a single session" not in audit
    code, out, err = command(*arguments, "--splits", "2", "--extend")
    assert code == 0, err
    assert " to do" not in out


def test_untrained_networks_are_shown_next_to_published_numbers_without_training(
    real_data, monkeypatch, command, tmp_path
):
    monkeypatch.setenv("LOPGPN_DATA", str(real_data))
    arguments = [
        "reproduce",
        "--recipes",
        "--datasets",
        "citeseer",
        "--models",
        "gpn_rw",
        "--splits",
        "1",
        "--jobs",
        "1",
    ]
    code, out, err = command(*arguments)
    assert code == 0, err
    rows = [line.split() for line in out.splitlines() if line.strip().startswith("CiteSeer")]
    assert [row[3] for row in rows] == ["published", "untrained"]
    assert rows[0][4:] == ["17.45", "17.30", "91.28", "91.68", "72.38", "72.00", "78.25"]
    assert float(rows[1][4]) == pytest.approx(17.45, abs=2)  # one split of ten
    assert "next     lopgpn_exp reproduce" in out
    assert not (tmp_path / "outputs/runs").exists()
    assert len(list((tmp_path / "outputs/recipes").glob("gpn_rw-*"))) == 10


def test_a_file_of_runs_on_other_splits_is_refused(command, tmp_path):
    save_published(tmp_path / "outputs/reproduction/random_splits/runs.parquet", datasets=("cora_ml",))
    code, _, err = command("reproduce", "--report", "--split", "random")
    assert code == 2
    assert "contains runs on published splits" in err
    assert "try:      move the file to the report of its splits" in err


def test_runs_of_another_machine_are_added_and_compared(command, tmp_path):
    save_published(tmp_path / RUNS, datasets=("cora_ml",))
    (first, *others) = published_results(datasets=("cora_ml",))
    first = replace(first, metrics=first.metrics | {"id/accuracy": first.metrics["id/accuracy"] + 0.02})
    theirs = [replace(result, seconds=result.seconds | {"train": 9.0}) for result in (first, *others)]
    save_results(tmp_path / "there.parquet", [*theirs, replace(theirs[1], split=1, run_id="new")])
    for message in ("24 of them were executed twice, 23 of these with identical metrics", "0 of them were executed"):
        code, out, err = command("reproduce", "--report", "--add", "there.parquet")
        assert code == 0, err
        assert message in out
        assert len(load_runs(tmp_path / RUNS).results) == 25
    audit = (tmp_path / "outputs/reproduction/audit.md").read_text()
    assert audit.count("24 of these runs were executed twice. In 23 of them all metrics are identical to the bit") == 1
    code, _, err = command("reproduce", "--report", "--add", "there.parquet", "--output-dir", "empty")
    assert code == 0, err
    assert len(load_runs(tmp_path / "empty/reproduction/runs.parquet").results) == 25


def test_runs_of_other_data_are_not_added(command, tmp_path):
    save_published(tmp_path / RUNS, datasets=("cora_ml",))
    before = load_runs(tmp_path / RUNS).results
    theirs = [replace(r, run_id=f"{r.run_id}x") for r in published_results(datasets=("cora_ml",))]
    save_results(tmp_path / "other.parquet", theirs)
    code, _, err = command("reproduce", "--report", "--add", "other.parquet")
    assert code == 2
    assert "expected: runs of the same config and the same data" in err
    pd.testing.assert_frame_equal(load_runs(tmp_path / RUNS).results, before)


def test_an_earlier_file_with_other_runs_is_kept(capsys, tmp_path):
    file = tmp_path / "runs.parquet"
    ids = {result.run_id for result in save_published(file, datasets=("cora_ml",))}
    reproduction._back_up_other_runs(file, ids)
    assert file.is_file()
    reproduction._back_up_other_runs(file, sorted(ids)[:20])
    assert "4 other runs" in capsys.readouterr().out
    assert not file.exists()
    assert set(load_runs(tmp_path / "runs.previous.parquet").results["run_id"]) == ids
    reproduction._back_up_other_runs(file, ids)  # there is none


def test_unavailable_datasets_are_named(monkeypatch, command, tmp_path):
    """Without data and without a network there is nothing to run."""
    monkeypatch.setenv("LOPGPN_DATA", str(tmp_path / "data"))
    for module in ("torch_geometric.data", "torch_geometric.datasets.citation_full"):
        monkeypatch.setattr(f"{module}.download_url", _refuse_download)
    code, out, err = command("reproduce", "--datasets", "cora_ml,pubmed")
    assert code == 2
    assert all(f"{DATASET_NAMES[name]} is left out" in out for name in ("cora_ml", "pubmed"))
    assert "none of the datasets is available" in err


def _refuse_download(*_, **__):
    raise OSError("no network")


def test_stored_runs_of_another_numerics_version_are_refused(command, tmp_path, monkeypatch):
    save_published(tmp_path / RUNS, datasets=("cora_ml",))
    monkeypatch.setattr(reproduction, "NUMERICS_VERSION", 99)
    code, _, err = command("reproduce", "--report")
    assert code == 2
    assert "has numerics version 2" in err
