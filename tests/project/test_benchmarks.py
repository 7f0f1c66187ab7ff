"""The arithmetic of the benchmark; CI runs the benchmark itself."""

import json
import sys

import pytest

from benchmarks.__main__ import available_datasets
from benchmarks.compare import SINGLE_SPREAD, format_comparison, read_benchmark
from benchmarks.epochs import plan_training, summarise
from benchmarks.processes import COMMANDS, measure_runs, measure_startup, time_process
from benchmarks.report import draw_epochs, draw_scaling, format_epochs, format_runs, format_scaling, format_startup
from benchmarks.scaling import QUANTITIES, fit_exponents
from lopgpn_exp.errors import InputError


@pytest.fixture
def epochs():
    seconds = {"baseline": [8.0, 10.0, 30.0], "project": [0.5, 0.5, 0.5], "floor": [0.1, 0.25, 0.25]}
    return list(summarise("lop_gpn", "digits", seconds, threads=1))


@pytest.fixture
def scaling():
    return [
        {"what": what, "num_nodes": size, "value": factor * size**1.25, "threads": 1}
        for factor, what in enumerate(QUANTITIES, start=1)
        for size in (1000, 3000, 50_000)
    ]


def test_ratios_are_between_medians_and_relative_to_the_project(epochs):
    medians = {record["what"]: (record["seconds"], record["ratio"]) for record in epochs}
    assert medians == {"baseline": (10.0, 20.0), "project": (0.5, 1.0), "floor": (0.25, 0.5)}
    spread = {record["what"]: record["spread"] for record in epochs}
    assert spread["project"] == 0
    assert spread["baseline"] == pytest.approx((30 - 8) / 2 / 10)  # quartiles of three values: the outer two


def test_exponent_of_a_power_law_is_recovered(scaling):
    assert fit_exponents(scaling) == pytest.approx(dict.fromkeys(QUANTITIES, 1.25))


def test_tables_and_figures_show_the_ratios(epochs, scaling, tmp_path):
    assert "20.0x" in format_epochs(epochs)
    assert "2.0x" in format_epochs(epochs)
    assert format_scaling(scaling).count("1.25") == len(QUANTITIES)
    draw_epochs(epochs, tmp_path / "epochs.png")
    draw_scaling(scaling, tmp_path / "scaling.png")
    assert all((tmp_path / name).stat().st_size > 10_000 for name in ("epochs.png", "scaling.png"))


@pytest.mark.parametrize("model", ["lop_gpn", "gpn_sym", "appnp"])
def test_measured_training_has_the_given_number_of_epochs_and_a_validation_in_each(model):
    plan = plan_training(f"model={model}", "dataset=ogbn_arxiv", num_epochs=7)
    assert (plan.trainer.max_epochs, plan.trainer.validate_every) == (7, 1)
    assert plan.trainer.patience > 7
    assert plan.optimizer.options()["warmup_epochs"] == 0


def fake_program(tmp_path, monkeypatch):
    """Replace the program by one that writes the result of a run; return a function that lists the calls of it."""
    log, script = tmp_path / "log", tmp_path / "program.py"
    script.write_text(
        "import json, pathlib, sys\n"
        f"with open({str(log)!r}, 'a') as file: file.write(json.dumps(sys.argv[1:]) + '\\n')\n"
        "if '=' in sys.argv[1]:\n"
        "    folder = pathlib.Path('outputs/runs/a-run')\n"
        "    folder.mkdir(parents=True, exist_ok=True)\n"
        "    seconds = {'load': 1.0, 'prepare': 2.0, 'train': 3.0, 'evaluate': 4.0}\n"
        "    (folder / 'result.json').write_text(json.dumps({'seconds': seconds}))\n"
    )
    monkeypatch.setattr("benchmarks.processes.PROGRAM", (sys.executable, "-S", str(script)))
    monkeypatch.setattr("benchmarks.processes.REFERENCE", "import json")
    return lambda: [json.loads(line) for line in log.read_text().splitlines()]


def test_whole_runs_start_in_empty_folders_and_training_is_counted(tmp_path, monkeypatch):
    calls = fake_program(tmp_path, monkeypatch)
    records = list(measure_runs(["gkde", "appnp"], repeats=2))
    assert [(record["model"], record["dataset"], record["training"]) for record in records] == [
        ("gkde", "digits", 5.0),
        ("appnp", "digits", 5.0),
    ]
    assert all(record["repeats"] == 2 and record["cpu"] > 0 and record["seconds"] > 0 for record in records)
    assert [words[0] for words in calls()] == ["model=gkde", *["model=gkde", "model=appnp"] * 2]  # a warm-up, 2 repeats
    assert "5.00" in format_runs(records)
    assert list(measure_runs([], repeats=2)) == []


def test_startup_is_relative_to_importing_torch(tmp_path, monkeypatch):
    calls = fake_program(tmp_path, monkeypatch)
    records = {record["what"]: record for record in measure_startup(COMMANDS, repeats=1)}
    reference, *others = records
    assert others == ["help", "score", "predict", "explain", "finished run"]
    assert records[reference]["ratio"] == 1
    for name in others:
        assert records[name]["ratio"] == pytest.approx(records[name]["seconds"] / records[reference]["seconds"])
    assert calls()[1:] == [["--help"], ["score", "a-run"], ["predict", "a-run"], ["explain", "a-run", "5"], calls()[0]]
    assert "1.00x" in format_startup(list(records.values()))


def test_command_that_fails_is_not_measured(tmp_path):
    with pytest.raises(RuntimeError, match="on purpose"):
        time_process([sys.executable, "-S", "-c", "raise SystemExit('on purpose')"], tmp_path)


def test_comparison_marks_what_changed_by_more_than_both_spreads(epochs, scaling):
    def change(records, factor):
        return [
            {**record, **{key: factor * record[key] for key in ("seconds", "value") if key in record}}
            for record in records
        ]

    old = {"machine": 1, "epochs": epochs, "scaling": scaling[:1]}  # an earlier version had no runs and no start-up
    new = {"machine": 1, "epochs": change(epochs, 1.5), "scaling": change(scaling[:1], 1 + 0.9 * 2 * SINGLE_SPREAD)}
    new |= {"runs": [{"model": "appnp", "dataset": "digits", "seconds": 1.0}], "startup": []}
    _, *lines, summary = format_comparison(old, new).splitlines()
    verdicts = {line.split()[3] if line.startswith("epochs") else "scaling": line.split()[-1] for line in lines}
    # Spreads: 1.1 of the baseline, 0 of the project, and (0.25 - 0.1) / 2 / 0.25 = 0.3 of the floor, each twice.
    assert verdicts == {"baseline": "1.50", "project": "slower", "floor": "1.50", "scaling": "1.18"}
    assert summary == "1 of 4 measurements are slower by more than their spread."
    assert "faster" in format_comparison(new, old)
    assert "machines differ" in format_comparison(old, new | {"machine": 2})


def test_comparison_needs_a_file_of_a_benchmark(tmp_path, epochs):
    path = tmp_path / "bench.json"
    path.write_text(json.dumps({"epochs": epochs}))
    assert read_benchmark(path) == {"epochs": epochs}
    for text in ("[]", "{", '{"epochs": [{}]}'):
        path.write_text(text)
        with pytest.raises(InputError, match=r"bench\.json cannot be read"):
            read_benchmark(path)


def test_default_datasets_are_digits_and_what_the_data_root_has(tmp_path, monkeypatch):
    monkeypatch.setenv("LOPGPN_DATA", str(tmp_path))
    assert [overrides[0] for overrides in available_datasets()] == ["dataset=digits", "dataset=synthetic"]
    for folder in ("citation_full/cora_ml", "citation_full/citeseer"):
        (tmp_path / folder).mkdir(parents=True)
    assert available_datasets() == [["dataset=digits"], ["dataset=cora_ml"], ["dataset=citeseer"]]
