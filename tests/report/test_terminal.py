"""Terminal output of runs and sweeps."""

import re
from pathlib import Path

import pytest

from lopgpn_exp.records import Attempt, Job
from lopgpn_exp.report.run_summary import print_links, print_run
from lopgpn_exp.report.terminal import describe_duration, print_means, print_plan, print_summary
from tests.support.report_data import example_run, example_sweep


def make_job(model: str, *, is_finished: bool = False) -> Job:
    return Job({}, f"{model} title", model, "own", f"{model}-id", f"{model}-training", Path("runs"), is_finished)


@pytest.mark.parametrize("scenario", ["none", "bernoulli"])
def test_run_is_printed_with_one_row_per_measure(capsys, tmp_path, scenario):
    """Also for a measure that the user's own posterior adds."""
    result = example_run(scenario, "vacuity").result
    print_run(result, folder=tmp_path, cached=False)
    out = capsys.readouterr().out
    assert result.title in out
    assert f"accuracy {result.metrics['test/accuracy']:.4f}" in out
    rows = {
        line.split()[0]: line.split()[1:] for line in out.splitlines() if re.fullmatch(r" +\w+( +-?\d\S*)+ *", line)
    }
    assert list(rows) == ["TU", "AU", "EU", "EU_PC", "EU_SO", "LConf", "vacuity"]
    assert rows["vacuity"][0] == f"{result.metrics['test/auarc/vacuity']:.4f}"
    assert len(rows["vacuity"]) == (5 if scenario == "bernoulli" else 1)
    assert ("OOD AUC-ROC" in out) == (scenario == "bernoulli")
    assert "finished before" not in out
    print_run(result, folder=tmp_path, cached=True)
    assert "finished before" in capsys.readouterr().out


def test_means_are_printed_whole_in_a_narrow_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    results, _ = example_sweep()
    results["ood/auroc/vacuity"] = 0.5
    print_means(results)
    out = capsys.readouterr().out
    assert "…" not in out
    head, *rows = [line.split() for line in out.splitlines() if line.strip()][1:]
    assert head == ["model", "scenario", "runs", "accuracy", "TU", "EU", "vacuity"]
    assert [row[1:4] for row in rows if row[2] == "none"] == [[m, "none", "4"] for m in ("gpn_rw", "lop_gpn", "mine")]
    assert all(row[-1] == "50.0" for row in rows)


def test_plan_counts_runs_and_names_the_first_error(capsys):
    jobs = [make_job("a", is_finished=True), make_job("b")]
    invalid = [Attempt(make_job("c"), 0.0, "teleport is 7\n  expected: at most 1")]
    print_plan(jobs, invalid, [1, 2, 3], training_seconds={"b-training": None})
    lines = capsys.readouterr().out.split("\n")
    assert lines[1:] == [
        "3 runs: 1 already done, 1 to do",
        "1 training for 1 run; no past runs of this kind to estimate the time from",
        "Further splits are left out (3 runs): the dataset ships no more",
        "1 cannot be run: teleport is 7",
        "",
    ]


def test_duration_is_the_sum_of_what_is_known():
    assert describe_duration([15.0] * 3) == "about 45 s of training (judging by past runs)"
    assert "about 45 s of training for 3 of them, and the others unknown" in describe_duration([None, *[15.0] * 3])
    assert describe_duration([None]) == "no past runs of this kind to estimate the time from"
    assert describe_duration([36_000.0] * 3) == "about 1 day, 6:00:00 of training (judging by past runs)"


def test_summary_prints_the_advice_for_an_error_once(capsys):
    error = "teleport is 7\n  expected: at most 1"
    attempts = [Attempt(make_job("a"), 1.0), Attempt(make_job("b"), 1.0, error), Attempt(make_job("c"), 1.0, error)]
    results, _ = example_sweep()
    print_summary(results[:0], attempts)
    out = capsys.readouterr().out
    assert "2 failed:" in out
    assert "a title" not in out
    assert out.count("teleport is 7") == 2
    assert out.count("expected: at most 1") == 1


def test_links_name_the_page_and_the_command_that_serves_the_dashboards(capsys):
    print_links({}, ui=None)
    assert capsys.readouterr().out == ""
    print_links({"single runs": "http://x/1", "models": "http://x/2"}, ui="lopgpn_exp ui", page=Path("page.html"))
    assert capsys.readouterr().out.splitlines() == [
        "",
        "page     page.html",
        "browse   lopgpn_exp ui, then",
        "  single runs  http://x/1",
        "  models       http://x/2",
    ]
