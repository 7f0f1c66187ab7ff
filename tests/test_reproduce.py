"""`python -m lopgpn_exp.reproduce`: the knobs, which runs count, and where the report comes from."""

import json
import shutil
import subprocess
from functools import partial
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lopgpn_exp import NUMERICS_VERSION, reproduce
from lopgpn_exp.cli import config_dir
from lopgpn_exp.experiment import reproduction
from lopgpn_exp.experiment.build import plan
from lopgpn_exp.experiment.reproduction import configs, identified
from lopgpn_exp.experiment.runner import locate, run
from lopgpn_exp.report.names import DATASET_NAMES, MODEL_NAMES
from lopgpn_exp.report.reproduction import write_reproduction
from lopgpn_exp.report.store import add_runs, load_runs, save_runs
from tests.published_runs import published_results, save_published
from tests.test_experiment import outcome

ROOT = Path(__file__).resolve().parents[1]


def call(capsys, *words: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command."""
    code = 0
    try:
        reproduce.main(list(words))
    except SystemExit as stop:
        code = int(stop.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--splits", "abc"], "SPLITS is 'abc'\n  expected: a whole number from 1 to 10"),
        (["--splits", "11"], "SPLITS is '11'"),
        (["--inits", "0"], "INITS is '0'"),
        (["--jobs", "0"], "JOBS is '0'\n  expected: a whole number from 1 to 1024"),
        (["--models", "foo"], "MODELS names 'foo'\n  expected: some of appnp"),
        (["--models", "lopgpn"], "try:      MODELS=lop_gpn"),
        (["--datasets", "cora_ml,digits"], "DATASETS names 'digits'"),
        (["--datasets", ","], "DATASETS is empty"),
        (["--report", "--splits", "x"], "SPLITS is 'x'"),
        (["--report"], "no finished runs of the reproduction"),
        (["--add", "runs.parquet"], "try:      --report --add FILE"),
        (["--report", "--add", "missing.parquet"], "missing.parquet cannot be read"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_a_wrong_knob_is_one_message_before_anything_runs(capsys, tmp_path, words, message):
    code, _, err = call(capsys, *words, "--output-dir", str(tmp_path / "outputs"))
    assert code == 2
    assert message in err
    assert not (tmp_path / "outputs").exists()


def test_knobs_reach_the_command_through_make():
    line = ["make", "-n", "reproduce-tables", "SPLITS=3", "DATASETS=cora_ml pubmed", "MODELS=gkde", "JOBS=2"]
    shown = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    words = "--splits '3' --inits '1' --datasets 'cora_ml pubmed' --models 'gkde' --jobs '2'"
    assert words in shown


def test_the_plan_is_the_papers_protocol():
    """Six models, four scenarios, ten splits; one split of OGBN Arxiv, one initialisation where nothing is random."""
    found = configs(config_dir(), models=MODEL_NAMES, datasets=["cora_ml", "ogbn_arxiv"], splits=10, inits=2)
    table = pd.DataFrame([{"m": c.model.name, "d": c.dataset.name, "s": c.split.index, "i": c.init} for c in found])
    counts = table.groupby(["d", "m"]).size()
    assert counts["cora_ml"].to_dict() == {m: 40 if m in ("gkde", "matern_ggp") else 80 for m in MODEL_NAMES}
    assert counts["ogbn_arxiv"].to_dict() == {m: 4 if m in ("gkde", "matern_ggp") else 8 for m in MODEL_NAMES}


def test_a_variant_is_another_run_and_only_of_models_that_have_it(real_data, monkeypatch):
    monkeypatch.setenv("LOPGPN_DATA", str(real_data))
    options = {"models": ["gkde", "lop_gpn"], "datasets": ["cora_ml"], "splits": 1, "inits": 1}
    default = identified(configs(config_dir(), **options))
    power = identified(configs(config_dir(), **options, variant=["model.dispersion=power"]))
    assert {job.kind[0] for job in default} == {"gkde", "lop_gpn"}
    assert {job.kind[0] for job in power} == {"lop_gpn"}
    assert not {job.run_id for job in default} & {job.run_id for job in power}


def test_sharing_graphs_changes_no_identity(real_data, monkeypatch):
    monkeypatch.setenv("LOPGPN_DATA", str(real_data))
    found = configs(config_dir(), models=["gkde", "appnp"], datasets=["cora_ml", "citeseer"], splits=2, inits=1)
    assert [job.run_id for job in identified(found)] == [locate(plan(config)).run_id for config in found]


def test_large_synthetic_runs_are_found_with_what_sets_them_apart(monkeypatch, tmp_path):
    done = outcome(tmp_path, "model=gkde")
    assert reproduction.scale_runs(config_dir(), tmp_path) == {}
    monkeypatch.setattr(reproduction, "LARGE", 300)
    (variant,) = reproduction.scale_runs(config_dir(), tmp_path).values()
    assert {"dataset.num_nodes=300", "dataset.signal=2", "trainer.max_epochs=6"} <= set(variant.split())
    assert "model." not in variant
    done.folder.rename(done.folder.with_name(done.folder.name[:-1] + "x"))  # an id that today's code does not give
    assert reproduction.scale_runs(config_dir(), tmp_path) == {}


@pytest.fixture
def without_figures(monkeypatch):
    """Call it, and reports are written without what takes longest."""
    whole = "lopgpn_exp.report.reproduction.write_reproduction"
    return lambda: monkeypatch.setattr(whole, partial(write_reproduction, figures=False))


@pytest.mark.filterwarnings("ignore")  # MLflow's own
def test_runs_what_is_missing_and_reports_on_exactly_that(real_data, monkeypatch, capsys, tmp_path, without_figures):
    monkeypatch.setenv("LOPGPN_DATA", str(real_data))
    outputs = tmp_path / "outputs"
    words = ["--models", "gkde", "--datasets", "cora_ml", "--splits", "2", "--jobs", "1", "--output-dir", str(outputs)]
    code, out, err = call(capsys, *words, "--dry-run")
    assert code == 0, err
    assert "8 runs: 0 already done, 8 to do" in out
    (stray, *_) = configs(
        config_dir(),
        models=["gkde"],
        datasets=["cora_ml"],
        splits=1,
        inits=1,
        settings=[f"output_dir={outputs}", "tracking=none"],
        variant=["model.max_hops=1"],
    )
    run(plan(stray))
    code, out, err = call(capsys, *words)
    assert code == 0, err
    assert "8 runs: 0 already done, 8 to do" in out
    assert "next " in out
    report = outputs / "reproduction"
    table = pd.read_parquet(report / "runs.parquet", columns=["split", "scenario", "variant"])
    assert len(table) == 8
    first = (report / "table1.csv").read_text()
    assert "OGBN Arxiv is left out" in (report / "audit.md").read_text()
    assert (report / "arc.pdf").is_file()
    without_figures()

    code, out, err = call(capsys, "--report", "--output-dir", str(outputs), "--also", "model.max_hops=1")
    assert code == 0, err
    assert (report / "table1.csv").read_text() == first  # the stray run is another reading, and no part of the table
    assert "`model.max_hops=1`" in (report / "audit.md").read_text()

    code, _, err = call(capsys, "--report", "--output-dir", str(outputs), "--also", "model.max_hps=1")
    assert code == 2
    assert "model.max_hps=1 is of no model" in err

    words = ["--models", "appnp", "--datasets", "cora_ml", "--report", "--output-dir", str(outputs)]
    code, _, err = call(capsys, *words)  # a stored reading that is of no model asked for now
    assert code == 0, err
    assert "`model.max_hops=1`" in (report / "audit.md").read_text()

    shutil.rmtree(outputs / "runs")
    code, out, err = call(capsys, "--report", "--output-dir", str(outputs))
    assert code == 0, err
    assert "runs.parquet holds 9 runs" in out
    assert "adds 0." in out
    assert (report / "table1.csv").read_text() == first


@pytest.mark.filterwarnings("ignore")  # MLflow's own
def test_extending_runs_only_what_is_not_stored_and_loses_nothing(
    real_data, monkeypatch, capsys, tmp_path, without_figures
):
    without_figures()
    monkeypatch.setenv("LOPGPN_DATA", str(real_data))
    outputs = tmp_path / "outputs"
    words = ["--models", "gkde", "--datasets", "cora_ml", "--jobs", "1", "--output-dir", str(outputs)]
    code, _, err = call(capsys, *words, "--splits", "1")
    assert code == 0, err
    file = outputs / "reproduction" / "runs.parquet"
    before = pd.read_parquet(file).set_index("run_id")
    shutil.rmtree(outputs / "runs")  # another machine: all that came along is the file
    code, out, err = call(capsys, *words, "--splits", "2", "--extend")
    assert code == 0, err
    assert "4 runs: 0 already done, 4 to do" in out
    after = pd.read_parquet(file).set_index("run_id")
    assert sorted(after["split"]) == [0] * 4 + [1] * 4
    pd.testing.assert_frame_equal(after.loc[before.index, before.columns], before)
    assert [stretch["runs"] for stretch in load_runs(file).notes["stretches"]] == [4, 4]
    audit = (file.parent / "audit.md").read_text()
    assert "for 8 runs, counting those made again; started 2 times" in audit
    assert "in one go" not in audit  # it was not
    code, out, err = call(capsys, *words, "--splits", "2", "--extend")
    assert code == 0, err
    assert " to do" not in out


def test_runs_of_another_place_are_added_and_compared(capsys, tmp_path, without_figures):
    """One of 24 runs differs in its accuracy by 2 points, another was not here; nothing is lost, nothing told twice."""
    here, there = (tmp_path / place / "reproduction" / "runs.parquet" for place in ("here", "there"))
    save_published(here, datasets=("cora_ml",))
    (first, *rest) = published_results(datasets=("cora_ml",))
    first["metrics"] = first["metrics"] | {"id/accuracy": first["metrics"]["id/accuracy"] + 0.02}
    theirs = [first, *rest, rest[0] | {"split": 1, "run_id": "new"}]
    theirs = [run | {"seconds": run["seconds"] | {"train": 9.0}} for run in theirs]
    in_one_go = {"seconds": 7200, "runs": 25, "of": 25, "jobs": "2", "cores": 2}
    notes = {"numerics": NUMERICS_VERSION, "stretches": [in_one_go]}
    save_runs(there, theirs, variants={run["run_id"]: "" for run in theirs}, notes=notes)
    without_figures()
    for added in ("24 of them made twice, 23 with the same metrics", "0 of them made twice"):
        code, out, err = call(capsys, "--report", "--output-dir", str(tmp_path / "here"), "--add", str(there))
        assert code == 0, err
        assert added in out
        stored = load_runs(here)
        assert len(stored.results) == 25
        assert stored.results.set_index("run_id").loc[first["run_id"], "id/accuracy"] == first["metrics"]["id/accuracy"]
        assert stored.notes["stretches"] == [in_one_go]
        assert stored.notes["repeats"] == [{"runs": 24, "same": 23, "splits": [0], "largest": pytest.approx(2.0)}]
    audit = (here.parent / "audit.md").read_text()
    assert "24 of these runs were made a second time. In 23 of them no metric differs by a bit; in the others" in audit
    code, _, err = call(capsys, "--report", "--output-dir", str(tmp_path / "empty"), "--add", str(there))
    assert code == 0, err
    assert len(load_runs(tmp_path / "empty" / "reproduction" / "runs.parquet").results) == 25


def test_runs_of_other_data_are_not_taken_in(capsys, tmp_path):
    """The same model, dataset, split and scenario under another id: other content, or another default."""
    file = tmp_path / "here" / "reproduction" / "runs.parquet"
    save_published(file, datasets=("cora_ml",))
    before = load_runs(file).results
    theirs = [run | {"run_id": run["run_id"] + "x"} for run in published_results(datasets=("cora_ml",))]
    variants = {run["run_id"]: "" for run in theirs}
    save_runs(tmp_path / "other.parquet", theirs, variants=variants, notes={"numerics": NUMERICS_VERSION})
    words = ["--report", "--output-dir", str(tmp_path / "here"), "--add", str(tmp_path / "other.parquet")]
    code, _, err = call(capsys, *words)
    assert code == 2
    assert "expected: runs of the same config and the same data" in err
    pd.testing.assert_frame_equal(load_runs(file).results, before)


@pytest.mark.parametrize(
    ("change", "notes", "message"),
    [
        ({}, {}, "no numerics version"),
        ({}, [2], "no numerics version"),
        ({"dataset": None}, {"numerics": 2}, "no column 'dataset'"),
        ({"seconds/train": None}, {"numerics": 2}, "no column 'seconds/train'"),
        ({"split": "first"}, {"numerics": 2}, "no whole numbers"),
    ],
)
def test_a_file_of_something_else_is_one_message(capsys, tmp_path, change, notes, message):
    save_published(tmp_path / "runs.parquet", datasets=("cora_ml",))
    frame = pd.read_parquet(tmp_path / "runs.parquet").assign(**{k: v for k, v in change.items() if v is not None})
    frame = frame.drop(columns=[column for column, value in change.items() if value is None])
    table = pa.Table.from_pandas(frame).replace_schema_metadata({"lopgpn_exp": json.dumps(notes)})
    pq.write_table(table, tmp_path / "runs.parquet")
    words = ["--report", "--output-dir", str(tmp_path / "outputs"), "--add"]
    for file in (tmp_path / "runs.parquet", tmp_path):  # a folder of such files is none
        code, _, err = call(capsys, *words, str(file))
        assert code == 2
        assert f"{file} cannot be read" in err
        assert message in err or file == tmp_path
    assert not (tmp_path / "outputs").exists()


def test_a_metric_that_only_one_of_two_has_makes_them_differ(tmp_path):
    here, there = tmp_path / "here.parquet", tmp_path / "there.parquet"
    (run, *_) = save_published(here, datasets=("cora_ml",))
    fewer = {key: value for key, value in run["metrics"].items() if not key.startswith("ood/auroc/")}
    again = run | {"metrics": fewer, "seconds": run["seconds"] | {"train": 1.0}}
    save_runs(there, [again], variants={run["run_id"]: ""}, notes={"numerics": NUMERICS_VERSION})
    assert add_runs(here, there) == {"runs": 1, "same": 0, "splits": [0], "largest": 0.0}
    assert len(load_runs(here).results) == 24


def test_an_earlier_file_of_other_runs_is_set_aside(capsys, tmp_path):
    file = tmp_path / "runs.parquet"
    ids = {run["run_id"] for run in save_published(file, datasets=("cora_ml",))}
    reproduce._set_aside(file, ids)
    assert file.is_file()
    reproduce._set_aside(file, set(sorted(ids)[:20]))
    assert "4 other runs" in capsys.readouterr().out
    assert not file.exists()
    assert set(load_runs(tmp_path / "runs.previous.parquet").results["run_id"]) == ids
    reproduce._set_aside(file, ids)  # none is there


def test_a_dataset_that_cannot_be_had_is_named_and_the_others_go_on(monkeypatch, capsys, tmp_path):
    """Without data and without a network nothing is left: each dataset is named, then one message."""
    monkeypatch.setenv("LOPGPN_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("torch_geometric.data.download_url", _no_network)
    monkeypatch.setattr("torch_geometric.datasets.citation_full.download_url", _no_network)
    words = ["--datasets", "cora_ml,pubmed", "--output-dir", str(tmp_path / "outputs")]
    code, out, err = call(capsys, *words)
    assert code == 2
    assert all(f"{DATASET_NAMES[name]} is left out" in out for name in ("cora_ml", "pubmed"))
    assert "none of the datasets can be had" in err


def _no_network(*_, **__):
    raise OSError("no network")


def test_stored_results_of_older_numerics_are_refused(capsys, tmp_path, monkeypatch):
    save_published(tmp_path / "reproduction" / "runs.parquet", datasets=("cora_ml",))
    monkeypatch.setattr(reproduce, "NUMERICS_VERSION", 99)
    code, _, err = call(capsys, "--report", "--output-dir", str(tmp_path))
    assert code == 2
    assert "is of numerics version 2" in err
