"""The text that is generated from the results of the benchmark."""

import pandas as pd
import pytest

from lopgpn_exp.benchmark.benchmark_audit import WITHIN_NOISE, audit_benchmark
from lopgpn_exp.benchmark.benchmark_report import BenchmarkReport
from lopgpn_exp.benchmark.benchmark_summary import print_leaderboard
from lopgpn_exp.benchmark.findings import describe_missing, describe_results
from lopgpn_exp.benchmark.leaderboard import average_runs, build_leaderboard
from lopgpn_exp.benchmark.literature import METHODS, load_literature
from lopgpn_exp.report.document import Bullets, Table, to_markdown
from tests.support.benchmark_runs import DECLARED, benchmark_rows

DATASETS = ("cora_ml", "citeseer", "pubmed")


def accuracies(gains: tuple[float, ...]) -> pd.DataFrame:
    """Return runs of a GCN with 80 % accuracy, of GAT with these gains, and of LOP-GPN with 70 %."""
    return pd.concat(
        benchmark_rows(
            {"gcn": [0.79, 0.81], "gat": [0.79 + gain, 0.81 + gain], "lop_gpn": [0.7, 0.7]},
            metric="test/accuracy",
            dataset=dataset,
        )
        for dataset, gain in zip(DATASETS, gains, strict=True)
    )


def describe(runs: pd.DataFrame) -> list:
    return describe_board(runs, audit_benchmark(runs))


def describe_board(runs: pd.DataFrame, audit: pd.DataFrame) -> list:
    return list(describe_results(build_leaderboard(runs), audit, average_runs(runs)))


@pytest.mark.parametrize(
    ("gains", "cell"),
    [
        ((0.03, 0.031, 0.029), "**+3.0 (+2.8 to +3.2)**"),  # t(2) = 4.303, standard error 0.1 / sqrt(3)
        ((0.03, -0.03, 0.0), "+0.0 (-7.5 to +7.5)"),
    ],
)
def test_a_choice_matters_if_its_interval_over_datasets_excludes_zero(gains, cell):
    (table,) = (block for block in describe(accuracies(gains)) if isinstance(block, Table))
    (row,) = (row for row in table.rows if row[0].startswith("GAT - GCN"))
    assert row[1:] == [cell, "-", "-"]


def test_winners_and_the_place_of_lop_gpn_are_named():
    text = to_markdown(describe(accuracies((0.03, 0.031, 0.029))))
    assert "GAT 83.0; GCN 80.0; LOP-GPN 70.0." in text
    assert "**Accuracy**, mean over CoraML (2 of 5 splits), CiteSeer (2 of 5 splits), PubMed (2 of 5 splits): " in text
    assert "Significantly worse than the best over datasets: 2 of the 2 other methods." in text
    assert "Best on each dataset: CoraML GAT (2 splits, not tested); CiteSeer GAT" in text
    assert "accuracy 3 of 3 (70.0)" in text


def test_with_two_datasets_no_test_is_claimed():
    runs = accuracies((0.03, 0.03, 0.03))
    text = to_markdown(describe(runs[runs["dataset"] != "pubmed"]))
    assert "Differences over 2 datasets are not tested." in text
    assert "significantly worse" not in text


def test_published_winners_are_compared_with_ours():
    """If our values are the published ones, the published winner is ours, and the rankings are the same."""
    values = load_literature()
    keys = {"backbone": "GCN", "dataset": "cora_ml", "scenario": "os_1", "metric": "ood/auroc"}
    chosen = values[(values[list(keys)] == pd.Series(keys)).all(axis=1)]
    parts = [
        benchmark_rows(
            {METHODS[name].model: [mean / 100, mean / 100]},
            metric=f"ood/auroc/{METHODS[name].ood_measure}",
            scenario="os_1",
            declared={**DECLARED, "epistemic": METHODS[name].ood_measure},
        )
        for name, mean in zip(chosen["name"], chosen["mean"], strict=True)
    ]
    runs = pd.concat(parts).groupby(["model", "split"], as_index=False).first()  # GCN has three scores
    claims = [line for block in describe(runs) if isinstance(block, Bullets) for line in block.items]
    (claim,) = (line for line in claims if line.startswith("**OOD detection**: in "))
    winner = chosen.loc[chosen["mean"].idxmax(), "name"]
    assert f"(most often {winner} in 1)" in claim
    assert "in 1 of 1 setting" in claim
    assert "is 1.00 (median" in claim
    assert any(line.startswith("100 % of the 14 published values of GCNs") for line in claims)


def audited(ours: list[float], errors: list[float]) -> pd.DataFrame:
    """Return compared values of one setting, in which the first method has the best published value."""
    rows = [
        {"published_as": name, "published": 90.0 - index, "ours": value, "se": error}
        for index, (name, value, error) in enumerate(zip(METHODS, ours, errors, strict=True))
    ]
    keys = {"backbone": "GCN", "dataset": "cora_ml", "scenario": "os_1", "metric": "ood/auroc"}
    return pd.DataFrame(rows).assign(verdict=WITHIN_NOISE, **keys)


@pytest.mark.parametrize(("error", "count"), [(2.2, 1), (2.0, 0)])  # 2 sqrt(2) error: 6.2 and 5.7 points
def test_only_the_errors_of_the_two_winners_count(error, count):
    ours = [80.0, 86.0, *(70.0 for _ in list(METHODS)[2:])]
    audit = audited(ours, [error, error, *(50.0 for _ in ours[2:])])  # the others are noisy
    text = to_markdown(describe_board(accuracies((0.0, 0.0, 0.0)), audit))
    assert f"in {count} of 1 setting" in text


def test_a_single_split_says_nothing_about_published_winners():
    audit = audited([80.0 for _ in METHODS], [float("nan") for _ in METHODS])
    text = to_markdown(describe_board(accuracies((0.0, 0.0, 0.0)), audit))
    assert "ettings" not in text


def test_methods_without_a_test_are_not_called_worse():
    runs = benchmark_rows({"gcn": [0.8, 0.81, 0.82], "gat": [0.7, 0.71, 0.72], "mlp": [0.1]}, metric="test/accuracy")
    text = to_markdown(describe(runs))
    assert "Significantly worse than the best over splits: 1 of the 1 other methods." in text


def test_methods_without_runs_on_a_dataset_are_named():
    runs = accuracies((0.03, 0.03, 0.03))
    text = to_markdown(describe(runs[(runs["model"] != "gat") | (runs["dataset"] != "pubmed")]))
    assert "GCN 80.0; LOP-GPN 70.0. Left out for lack of runs: GAT." in text
    assert "(rank by the mean over datasets): accuracy 2 of 2 (70.0)" in text


def test_fewer_splits_than_others_are_said():
    runs = accuracies((0.03, 0.03, 0.03))
    text = to_markdown(describe(runs[(runs["model"] != "gat") | (runs["split"] == 0)]))
    assert "GAT 82.0 (fewer splits); GCN 80.0; LOP-GPN 70.0." in text


def test_a_single_dataset_is_not_called_a_mean():
    text = to_markdown(describe(benchmark_rows({"gcn": [0.8] * 3, "lop_gpn": [0.7] * 3}, metric="test/accuracy")))
    assert "**Accuracy**, CoraML: GCN 80.0; LOP-GPN 70.0." in text
    assert "(rank on CoraML): accuracy 2 of 2 (70.0)" in text
    assert "over datasets" not in text


def test_the_terminal_names_methods_without_a_mean(capsys, tmp_path):
    runs = accuracies((0.03, 0.03, 0.03))
    runs = runs[(runs["model"] != "gat") | (runs["dataset"] != "pubmed")]
    report = BenchmarkReport(tmp_path, runs, build_leaderboard(runs), audit_benchmark(runs))
    print_leaderboard(report, "per_class_20")
    out = " ".join(capsys.readouterr().out.split())
    assert "20 per class, mean over 3 datasets" in out
    assert "left out for lack of runs: GAT" in out


def test_a_choice_is_compared_on_common_splits():
    """GAT has only the second split, which is the easier one by 2 points."""
    runs = accuracies((0.03, 0.031, 0.029))
    (table,) = (b for b in describe(runs[(runs["model"] != "gat") | (runs["split"] == 1)]) if isinstance(b, Table))
    assert next(row[1] for row in table.rows if row[0].startswith("GAT - GCN")) == "**+3.0 (+2.8 to +3.2)**"


def test_what_is_missing_is_said():
    runs = accuracies((0.0, 0.0, 0.0))
    lines = describe_missing(build_leaderboard(runs[(runs["model"] != "gat") | (runs["split"] == 0)]))
    assert lines[0] == "20 per class: no runs on Amazon Photos, Amazon Computers, Coauthor CS, Coauthor Physics."
    assert "20 per class, CoraML: 21 methods with no runs; LOP-GPN / GCN with 0 to 2 of 5 splits" in lines[1]
    assert lines[1].endswith("GAT with 0 to 1 of 5 splits, depending on the scenario.")
    assert lines[-2:] == ["LOP-GPN paper: no runs yet.", "Shifts: no runs yet."]
