"""The leaderboard: means, ranks, ties, and how often methods win."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel

from lopgpn_exp.benchmark.leaderboard import (
    ALL_DATASETS,
    MEAN_SCENARIO,
    build_leaderboard,
    compute_leads,
    compute_win_rates,
    find_tied,
    rank_methods,
    select_summaries,
)
from lopgpn_exp.benchmark.method_costs import summarise_method_costs
from lopgpn_exp.benchmark.tasks import TASKS, find_task_metric, find_tasks
from lopgpn_exp.evaluation.metrics import LOWER_IS_BETTER
from tests.support.benchmark_runs import benchmark_rows

ACCURACY = {"gcn": [0.8, 0.82, 0.84], "gat": [0.7, 0.71, 0.75], "mlp": [0.6, 0.5, 0.4]}


def select(board: pd.DataFrame, **keys: str) -> pd.DataFrame:
    return board[(board[list(keys)] == pd.Series(keys)).all(axis=1)].set_index("model")


def test_means_errors_and_ranks_are_those_of_the_splits():
    rows = select(build_leaderboard(benchmark_rows(ACCURACY, metric="test/accuracy")), task="accuracy")
    assert rows["mean"].to_dict() == pytest.approx({"gcn": 0.82, "gat": 0.72, "mlp": 0.5})
    assert rows.at["gcn", "se"] == pytest.approx(np.std(ACCURACY["gcn"], ddof=1) / 3**0.5)
    assert rows["rank"].to_dict() == {"gcn": 1, "gat": 2, "mlp": 3}
    assert (rows["runs"] == 3).all()
    assert rows.at["gcn", "high"] - rows.at["gcn", "mean"] == pytest.approx(4.302653 * rows.at["gcn", "se"])  # t(2)


def test_small_errors_are_good():
    rows = select(build_leaderboard(benchmark_rows(ACCURACY, metric="test/ece")), metric="test/ece")
    assert rows["rank"].to_dict() == {"mlp": 1, "gat": 2, "gcn": 3}


def test_directions_agree_with_those_of_all_other_tables():
    for task in TASKS:
        for metric in task.metrics:
            assert metric.is_lower_better == (metric.path in LOWER_IS_BETTER), metric.path


def test_initialisations_of_a_split_are_averaged_first():
    runs = benchmark_rows({"gcn": [0.8, 0.6]}, metric="test/accuracy")
    again = runs[runs["split"] == 0].assign(init=1, **{"test/accuracy": 0.4})
    row = select(build_leaderboard(pd.concat([runs, again])), task="accuracy").loc["gcn"]
    assert (row["mean"], row["runs"], row["splits"]) == (pytest.approx(0.6), 3, 2)


def test_a_method_is_scored_by_the_measure_that_it_declares():
    first = benchmark_rows({"gcn": [0.9, 0.9]}, metric="ood/auroc/eu", scenario="os_1")
    second = benchmark_rows(
        {"gat": [0.7, 0.7]}, metric="ood/auroc/tu", scenario="os_1", declared={"epistemic": "tu", "total": "tu"}
    ).assign(**{"ood/auroc/eu": 1.0}, aleatoric="")
    rows = select(build_leaderboard(pd.concat([first, second])), metric="ood/auroc", scenario="os_1")
    assert rows["measure"].to_dict() == {"gcn": "eu", "gat": "tu"}
    assert rows.at["gat", "mean"] == pytest.approx(0.7)  # its other measure would have won
    assert rows["rank"].to_dict() == {"gcn": 1, "gat": 2}


def test_ties_follow_from_paired_t_tests_with_holms_correction():
    rng = np.random.default_rng(3)
    table = pd.DataFrame({f"m{k}": rng.normal(0.8 - 0.01 * k, 0.015, 8) for k in range(9)})
    best = str(table.mean().idxmax())
    p_values = {name: ttest_rel(table[name], table[best]).pvalue for name in table.columns.drop(best)}
    expected = {best}
    for rank, name in enumerate(sorted(p_values, key=p_values.__getitem__)):  # Holm's procedure, as in a textbook
        if p_values[name] * (len(p_values) - rank) >= 0.05:
            expected |= set(sorted(p_values, key=p_values.__getitem__)[rank:])
            break
    tied = find_tied(compute_leads(table, is_lower_better=False), list(table.columns))
    assert {name for name in table.columns if tied[name]} == expected
    assert 1 < len(expected) < 9


@pytest.mark.parametrize("splits", [1, 2])
def test_with_few_splits_nothing_is_tested(splits):
    rows = select(build_leaderboard(benchmark_rows({"gcn": [0.8] * splits, "gat": [0.79] * splits}, metric="test/ece")))
    assert rows["tied_with_best"].to_dict() == {"gat": True, "gcn": None}


INCOMPLETE = {  # split 2 is easy
    "gcn": [0.80, 0.81, 0.90],
    "gat": [0.70, 0.71, 0.80],
    "mlp": [np.nan, np.nan, 0.85],
    "egnn": [0.75, 0.77, np.nan],
}


def test_methods_are_ranked_on_common_splits():
    """The MLP has the best mean because it has the easy split; on that split, only the GCN is better."""
    rows = select(build_leaderboard(benchmark_rows(INCOMPLETE, metric="test/accuracy")), task="accuracy")
    assert rows.at["mlp", "mean"] > rows.at["gcn", "mean"]
    assert rows["rank"].to_dict() == {"gcn": 1, "egnn": 2, "mlp": 2, "gat": 3}
    assert rows["is_best"].to_dict() == {"gcn": True, "egnn": False, "mlp": False, "gat": False}
    assert rows["is_partial"].to_dict() == {"gcn": False, "egnn": True, "mlp": True, "gat": False}
    assert rows["tied_with_best"].to_dict() == {"gcn": True, "egnn": None, "mlp": None, "gat": False}


def test_more_splits_than_others_do_not_make_a_method_the_best():
    """One's own method may have more splits than the stored ones."""
    values = {"gcn": [0.8, 0.82, 0.81], "gat": [0.7, 0.73, 0.7], "mine": [0.5, 0.51, 0.53, 0.9, 0.9, 0.9]}
    rows = select(build_leaderboard(benchmark_rows(values, metric="test/accuracy")), task="accuracy")
    assert rows["rank"].to_dict() == {"gcn": 1, "gat": 2, "mine": 3}
    assert rows["tied_with_best"].to_dict() == {"gcn": True, "gat": False, "mine": False}


def test_equal_means_have_equal_ranks():
    table = pd.DataFrame({"a": [0.1, 0.2, 0.3], "b": [0.3, 0.2, 0.1]})  # sums differ in the last bit
    assert rank_methods(compute_leads(table, is_lower_better=False)).tolist() == [1, 1]


def test_the_mean_over_datasets_is_ranked_on_common_splits():
    """Without it, GAT would win by having only the easy split of CiteSeer."""
    parts = [
        benchmark_rows({"gcn": [0.8, 0.8], "gat": [0.79, 0.79]}, metric="test/accuracy"),
        benchmark_rows({"gcn": [0.5, 0.9], "gat": [np.nan, 0.89]}, metric="test/accuracy", dataset="citeseer"),
    ]
    rows = select(build_leaderboard(pd.concat(parts)), dataset=ALL_DATASETS)
    assert rows.at["gat", "mean"] > rows.at["gcn", "mean"]
    assert rows["rank"].to_dict() == {"gcn": 1, "gat": 2}
    assert rows["is_partial"].to_dict() == {"gcn": False, "gat": True}


def test_scenarios_and_datasets_that_few_methods_have_are_in_no_mean():
    """A first run on another dataset, or with another scenario, leaves the means of all other methods as they are."""
    values = {"gcn": [0.8, 0.82], "gat": [0.7, 0.71], "mlp": [0.6, 0.5]}
    usual = [
        benchmark_rows(values, metric="ood/auroc/eu", scenario=scenario, dataset=dataset)
        for scenario in ("os_1", "os_2")
        for dataset in ("cora_ml", "citeseer")
    ]
    rare = [
        benchmark_rows({"gcn": [0.1]}, metric="ood/auroc/eu", scenario="os_3"),
        benchmark_rows({"gcn": [0.1]}, metric="ood/auroc/eu", scenario="os_1", dataset="pubmed"),
    ]
    before, after = (build_leaderboard(pd.concat(parts)) for parts in (usual, usual + rare))
    for dataset in ("cora_ml", ALL_DATASETS):
        first, second = (select(board, dataset=dataset, scenario=MEAN_SCENARIO) for board in (before, after))
        assert first["mean"].to_dict() == pytest.approx(second["mean"].to_dict())
        assert first["runs"].to_dict() == second["runs"].to_dict()


def test_scenarios_are_averaged_on_splits_that_have_all_of_them():
    parts = [
        benchmark_rows({"gcn": [0.9, 0.7]}, metric="ood/auroc/eu", scenario="os_1"),
        benchmark_rows({"gcn": [0.5]}, metric="ood/auroc/eu", scenario="os_2"),
    ]
    row = select(build_leaderboard(pd.concat(parts)), scenario=MEAN_SCENARIO, metric="ood/auroc").loc["gcn"]
    assert (row["mean"], row["splits"], row["runs"]) == (pytest.approx(0.7), 1, 2)


def test_runs_of_the_mean_over_datasets_are_those_that_are_averaged():
    parts = [
        benchmark_rows({"gcn": [0.9, 0.7]}, metric="ood/auroc/eu", scenario="os_1"),
        benchmark_rows({"gcn": [0.5]}, metric="ood/auroc/eu", scenario="os_2"),
        benchmark_rows({"gcn": [0.5, 0.6, 0.7]}, metric="ood/auroc/eu", scenario="os_1", dataset="citeseer"),
    ]
    row = select(build_leaderboard(pd.concat(parts)), dataset=ALL_DATASETS, metric="ood/auroc").loc["gcn"]
    assert (row["mean"], row["runs"]) == (pytest.approx(0.65), 2 + 3)


def test_a_scenario_does_not_stand_for_several():
    """If no split has all scenarios, there is no mean over them, and none of them takes its place."""
    parts = [
        benchmark_rows({"gcn": [0.9]}, metric="ood/auroc/eu", scenario="os_1"),
        benchmark_rows({"gat": [0.5]}, metric="ood/auroc/eu", scenario="os_2"),
    ]
    assert select_summaries(build_leaderboard(pd.concat(parts))).empty


def test_the_mean_over_datasets_needs_all_of_them():
    parts = [
        benchmark_rows({"gcn": [0.8, 0.6], "gat": [0.9, 0.9]}, metric="test/accuracy", dataset="cora_ml"),
        benchmark_rows({"gcn": [0.6, 0.6]}, metric="test/accuracy", dataset="citeseer"),
    ]
    rows = select(build_leaderboard(pd.concat(parts)), dataset=ALL_DATASETS, task="accuracy")
    assert list(rows.index) == ["gcn"]
    assert rows.at["gcn", "mean"] == pytest.approx(0.65)
    assert rows.at["gcn", "se"] == pytest.approx(0.05)  # over datasets


def test_win_rates_count_splits_and_half_of_the_ties():
    runs = benchmark_rows({"a": [0.9, 0.5], "b": [0.8, 0.5], "c": [0.1, 0.9]}, metric="test/accuracy")
    metric = find_task_metric("test/accuracy")
    rates = compute_win_rates(runs, metric, protocol="per_class_20", scenarios=["none"])["cora_ml"]
    # a beats b once and ties once (0.75), and beats c once (0.5).
    assert rates.to_dict() == pytest.approx({"a": 0.625, "b": 0.375, "c": 0.5})


def test_costs_are_medians_of_clean_runs():
    runs = benchmark_rows({"gcn": [0.8, 0.8, 0.8]}, metric="test/accuracy")
    runs["cpu_seconds/train"] = [1.0, 2.0, 30.0]
    costs = summarise_method_costs(runs).set_index(["dataset", "model"]).loc[("cora_ml", "gcn")]
    assert (costs["train"], costs["predict"], costs["memory"]) == (2.0, 0.1, 500.0)


def test_mean_costs_are_over_the_same_datasets():
    runs = pd.concat(
        benchmark_rows({"gcn": [0.8], "gat": [0.8]}, metric="test/accuracy", dataset=dataset).assign(
            **{"cpu_seconds/train": seconds}
        )
        for dataset, seconds in (("cora_ml", 1.0), ("pubmed", 9.0))
    )
    runs.loc[(runs["model"] == "gat") & (runs["dataset"] == "pubmed"), "cpu_seconds/train"] = np.nan
    costs = summarise_method_costs(runs).set_index(["dataset", "model"])
    assert costs.at[(ALL_DATASETS, "gcn"), "train"] == 5.0
    assert np.isnan(costs.at[(ALL_DATASETS, "gat"), "train"])  # 1.0 would be cheaper than GCN
    assert costs.at[(ALL_DATASETS, "gat"), "memory"] == 500.0


def test_a_dataset_that_few_methods_have_is_not_in_mean_costs():
    runs = pd.concat(
        [
            benchmark_rows({"gcn": [0.8], "gat": [0.8], "mlp": [0.8]}, metric="test/accuracy"),
            benchmark_rows({"gcn": [0.8]}, metric="test/accuracy", dataset="pubmed"),
        ]
    )
    costs = summarise_method_costs(runs).set_index(["dataset", "model"])
    assert costs.at[(ALL_DATASETS, "gat"), "train"] == 2.0


@pytest.mark.parametrize(
    ("scenario", "tasks"),
    [
        ("none", ["accuracy", "calibration", "misclassification", "rejection"]),
        ("os_3", ["ood"]),
        ("near_features", ["ood"]),
        ("dice-0.1", ["shift"]),
        ("popularity", ["shift"]),
    ],
)
def test_tasks_of_scenarios(scenario, tasks):
    assert [task.name for task in find_tasks(scenario)] == tasks
