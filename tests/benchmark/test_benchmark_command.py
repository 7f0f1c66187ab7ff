"""`lopgpn_exp benchmark`: its options, which runs it makes, and the files that it writes."""

import subprocess
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from lopgpn_exp.benchmark import BenchmarkOptions
from lopgpn_exp.benchmark.benchmark_report import write_benchmark_report
from lopgpn_exp.benchmark.benchmark_runs import load_benchmark, merge_rows, save_benchmark
from lopgpn_exp.benchmark.leaderboard import COLUMNS
from lopgpn_exp.benchmark.protocol_runs import compose_protocol, list_evaluations
from lopgpn_exp.benchmark.run_benchmark import run_missing_cells
from lopgpn_exp.config.compose import compose_config
from lopgpn_exp.errors import InputError
from tests.support import ROOT
from tests.support.benchmark_runs import benchmark_rows

STORED = ROOT / "outputs" / "benchmark"


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Leave out what takes longest: the figures of the report, and the pages and figures of runs."""
    quick = partial(write_benchmark_report, figures=False)
    monkeypatch.setattr("lopgpn_exp.benchmark.benchmark_report.write_benchmark_report", quick)
    monkeypatch.setattr("lopgpn_exp.report.figures.save_run_figures", lambda *_, **__: None)
    monkeypatch.setattr("lopgpn_exp.report.run_page.run_page", lambda *_, **__: "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--splits", "abc"], "--splits is 'abc'\n  expected: a whole number from 1 to 10\n  try:      --splits 2"),
        (["--inits", "0"], "--inits is '0'"),
        (["--jobs", "x"], "--jobs is 'x'"),
        (["--models", "lopgpn"], "try:      --models lop_gpn"),
        (["--datasets", "digits"], "--datasets contains 'digits'"),
        (["--protocol", "other"], "--protocol"),
        (["--protocol", "shifts", "--models", "gkde"], "--models contains 'gkde'"),
        (["--against", "missing.parquet"], "there is no file missing.parquet"),
        (["--config-dir", "missing", "--models", "mine"], "there is no folder missing"),
        (["--report"], "no run of the benchmark has finished"),
        (["--report", "--dry-run"], "--report is given together with --dry-run"),
        (["--add", "runs.parquet"], "try:      --report --add FILE"),
        (["--report", "--add", "missing.parquet"], "missing.parquet cannot be read"),
    ],
    ids=lambda arguments: " ".join(arguments) if isinstance(arguments, list) else "",
)
def test_a_wrong_option_is_one_message_before_anything_runs(command, tmp_path, arguments, message):
    code, _, err = command("benchmark", *arguments)
    assert code == 2
    assert message in err
    assert not (tmp_path / "outputs").exists()


def test_variables_of_make_reach_the_command():
    line = ["make", "-n", "benchmark", "PROTOCOL=shifts", "SPLITS=3", "DATASETS=cora_ml", "MODELS=gcn", "JOBS=2"]
    recipe = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    options = "--protocol 'shifts' --splits '3' --inits '1' --datasets 'cora_ml' --models 'gcn' --jobs '2'"
    assert options in recipe
    recipe = subprocess.run(["make", "-n", "benchmark-report"], cwd=ROOT, capture_output=True, text=True).stdout
    assert "benchmark --report" in recipe


def options_for(protocol: str, dataset: str, model: str, **changes) -> BenchmarkOptions:
    values = {"splits": 2, "inits": 2, "num_workers": 1, "output_dir": Path("outputs")} | changes
    return BenchmarkOptions(protocol, (model,), (dataset,), **values)


@pytest.mark.parametrize(
    ("protocol", "dataset", "model", "overrides"),
    [
        ("per_class_20", "cora_ml", "gpn_sym", ["ood=os_2"]),
        ("paper", "citeseer", "lop_gpn", ["ood=gaussian"]),
        ("shifts", "pubmed", "gcn", ["ood=dice", "ood.budget=0.1"]),
        ("shifts", "pubmed", "gcn", ["split=locality"]),
    ],
)
def test_configs_are_those_of_the_command_line(protocol, dataset, model, overrides):
    line = [f"protocol={protocol}", f"dataset={dataset}", f"model={model}", *overrides, "split.index=1", "init=1"]
    assert compose_config(line) in compose_protocol(options_for(protocol, dataset, model))


@pytest.mark.parametrize(
    ("protocol", "dataset", "count"),
    [("per_class_20", "cora_ml", 6), ("per_class_20", "pubmed", 4), ("paper", "cora_ml", 4), ("shifts", "cora_ml", 15)],
)
def test_scenarios_are_those_that_the_dataset_has(protocol, dataset, count):
    configs = compose_protocol(options_for(protocol, dataset, "gcn", splits=1, inits=1))
    assert len(configs) == count <= len(list_evaluations(protocol))


def test_a_deterministic_method_has_one_initialisation():
    configs = compose_protocol(options_for("per_class_20", "pubmed", "gkde", splits=3, inits=5))
    assert len(configs) == 3 * 4


def test_own_method_joins_stored_ones_and_runs_once(real_data, monkeypatch, command, tmp_path):
    monkeypatch.setenv("LOPGPN_DATA", str(real_data))
    (tmp_path / "conf" / "model").mkdir(parents=True)
    (tmp_path / "conf" / "model" / "mine.yaml").write_text("defaults: [gkde, _self_]\nname: mine\nmax_hops: 2\n")
    accuracy = benchmark_rows({"gcn": [0.8, 0.8]}, metric="test/accuracy")
    save_benchmark(tmp_path / "stored.parquet", accuracy)
    arguments = ["--config-dir", "conf", "--models", "mine", "--datasets", "cora_ml", "--splits", "1"]
    arguments += ["--against", "stored.parquet", "--jobs", "1", "--no-tracking"]
    code, out, err = command("benchmark", *arguments)
    assert code == 0, err
    assert "6 runs: 0 already done, 6 to do" in out
    board = pd.read_csv(tmp_path / "outputs/benchmark/leaderboard.csv")
    assert tuple(board.columns) == COLUMNS
    clean = board[(board["metric"] == "test/accuracy") & (board["scenario"] == "none")]
    assert set(clean["model"]) == {"gcn", "mine"}
    page = (tmp_path / "outputs/benchmark/leaderboard.html").read_text()
    assert '"mine":"Yours"' in page
    runs = load_benchmark(tmp_path / "outputs/benchmark/runs.parquet")
    assert len(runs) == 8
    assert (runs.loc[runs["model"] == "mine", "epistemic"] == "eu_so").all()
    code, out, err = command("benchmark", *arguments)
    assert code == 0, err
    assert "6 of 6 runs are stored, and not run again." in out
    assert (tmp_path / "outputs/benchmark/leaderboard.html").read_text() == page


def test_stored_leaderboard_and_audit_follow_from_the_stored_runs(tmp_path):
    write_benchmark_report(tmp_path / "benchmark", runs_file=STORED / "runs.parquet", figures=False)
    for name in ("leaderboard.csv", "leaderboard.md", "audit.csv", "audit.md", "audit.html"):
        assert (tmp_path / "benchmark" / name).read_text() == (STORED / name).read_text(), name


def test_stored_runs_survive_writing(tmp_path, stored_runs):
    save_benchmark(tmp_path / "runs.parquet", stored_runs.sample(frac=1, random_state=0))
    assert (tmp_path / "runs.parquet").read_bytes() == (STORED / "runs.parquet").read_bytes()


def test_damaged_runs_are_refused(tmp_path):
    content = bytearray((STORED / "runs.parquet").read_bytes())
    content[len(content) // 2] ^= 0xFF
    (tmp_path / "runs.parquet").write_bytes(content)
    with pytest.raises(InputError, match=r"runs\.parquet cannot be read"):
        load_benchmark(tmp_path / "runs.parquet")


def test_a_later_run_replaces_an_earlier_one():
    first = benchmark_rows({"gcn": [0.8, 0.7]}, metric="test/accuracy")
    second = benchmark_rows({"gcn": [0.9]}, metric="test/accuracy")
    assert sorted(merge_rows([first, second])["test/accuracy"]) == [0.7, 0.9]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "<img src=x onerror=alert(1)>"}, "model is '<img src=x"),
        ({"model": r"$\frac$"}, "model is "),
        ({"run_id": "../elsewhere"}, r"run_id is '\.\./elsewhere'"),
        ({"run_id": "x" * 5000}, "run_id is 'xxx"),
        ({"epistemic": "a b"}, "epistemic is 'a b'"),
        ({"protocol": "other"}, "there is no protocol 'other'"),
        ({"test/accuracy": float("inf")}, "infinite or too large"),
        ({"cpu_seconds/train": 1e300}, "infinite or too large"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_runs_of_someone_else_are_checked(tmp_path, changes, message):
    runs = benchmark_rows({"gcn": [0.8, 0.7]}, metric="test/accuracy")
    save_benchmark(tmp_path / "runs.parquet", runs.assign(**changes))
    with pytest.raises(InputError, match=message):
        load_benchmark(tmp_path / "runs.parquet")


def test_missing_values_and_undeclared_measures_are_allowed(tmp_path):
    runs = benchmark_rows({"gcn": [0.8, float("nan")]}, metric="test/accuracy").assign(epistemic="")
    save_benchmark(tmp_path / "runs.parquet", runs)
    assert load_benchmark(tmp_path / "runs.parquet")["test/accuracy"].isna().tolist() == [False, True]


def test_runs_without_a_metric_of_the_benchmark_are_one_message(tmp_path):
    save_benchmark(tmp_path / "runs.parquet", benchmark_rows({"gcn": [0.8]}, metric="val/accuracy"))
    with pytest.raises(InputError, match="no run has a metric of the benchmark"):
        write_benchmark_report(tmp_path, figures=False)


def test_a_report_says_if_the_chosen_protocol_has_no_runs(command, tmp_path):
    runs = benchmark_rows({"gcn": [0.8, 0.7]}, metric="test/accuracy", protocol="paper")
    save_benchmark(tmp_path / "outputs/benchmark/runs.parquet", runs)
    code, out, err = command("benchmark", "--report")
    assert code == 0, err
    assert "There are no runs of the protocol per_class_20, only of paper." in " ".join(out.split())


def test_an_interruption_before_the_first_run_is_not_hidden(real_data, monkeypatch, tmp_path):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setenv("LOPGPN_DATA", str(real_data))
    monkeypatch.setattr("lopgpn_exp.benchmark.run_benchmark.run_sweep", interrupt)
    options = options_for("per_class_20", "cora_ml", "gkde", splits=1, output_dir=tmp_path / "outputs")
    with pytest.raises(KeyboardInterrupt):
        run_missing_cells(options)
