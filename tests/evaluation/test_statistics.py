"""Means, intervals and t-tests over runs against scipy, and the tables of a sweep."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from lopgpn_exp.evaluation.statistics import (
    aggregate,
    aggregate_curves,
    compare_models,
    find_first_clean_runs,
    mark_best,
    summarise_models,
    welch_t_test,
)


def make_results() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = [
        {"dataset": "d", "model": m, "scenario": "none", "split": s, "init": i, "test/accuracy": rng.random()}
        for m in ("a", "b")
        for s in range(5)
        for i in range(2)
    ]
    return pd.DataFrame(rows)


def make_curves() -> pd.DataFrame:
    return pd.DataFrame(
        {"percent": [0, 0], "accuracy": [0.5, 0.7], "measure": "tu", "dataset": "d", "model": "a", "scenario": "none"}
        | {"split": [0, 1], "init": 0, "run_id": ["x", "y"]}
    )


def test_means_are_over_splits_with_students_interval():
    results = make_results()
    row = aggregate(results).query("model == 'a'").iloc[0]
    by_split = results.query("model == 'a'").groupby("split")["test/accuracy"].mean()
    low, high = stats.t.interval(0.95, 4, loc=by_split.mean(), scale=stats.sem(by_split))
    assert (row["runs"], row["splits"]) == (10, 5)
    assert (row["mean"], row["se"]) == pytest.approx((by_split.mean(), stats.sem(by_split)))
    assert (row["low"], row["high"]) == pytest.approx((low, high))


def test_one_split_has_no_standard_error():
    row = aggregate(make_results().query("split == 0")).iloc[0]
    assert pd.isna(row["se"])
    assert pd.isna(row["low"])


def test_models_are_compared_by_the_paired_t_test():
    results = make_results()
    row = compare_models(results, "test/accuracy").iloc[0]
    table = results.groupby(["split", "model"])["test/accuracy"].mean().unstack()
    expected = stats.ttest_rel(table["a"], table["b"])
    assert row["p"] == pytest.approx(expected.pvalue)
    interval = expected.confidence_interval(0.95)
    assert (row["low"], row["high"]) == pytest.approx((interval.low, interval.high))


def test_the_best_model_is_marked_and_models_that_do_not_differ_from_it():
    """a is better than c on every split; b is as good as a on average. A lower ECE is better."""
    rows = [
        {"dataset": "d", "scenario": "none", "model": model, "split": split, "init": 0}
        | {"test/accuracy": value, "test/ece": value}
        for model, values in {"a": [0.80, 0.81, 0.82], "b": [0.70, 0.91, 0.80], "c": [0.50, 0.50, 0.53]}.items()
        for split, value in enumerate(values)
    ]
    marks = mark_best(pd.DataFrame(rows), ["test/accuracy", "test/ece"])
    assert {key[1]: mark for key, mark in marks.items() if key[3] == "test/accuracy"} == {"a": "best", "b": "tied"}
    assert marks["d", "c", "none", "test/ece"] == "best"
    assert ("d", "a", "none", "test/ece") not in marks
    single = pd.DataFrame(rows).query("split == 0")
    assert mark_best(single, ["test/accuracy"]) == {("d", "a", "none", "test/accuracy"): "best"}


def test_welchs_test_is_that_of_scipy():
    first, second = pd.Series([0.1, 0.4, 0.2]), pd.Series([0.5, 0.9])
    expected = stats.ttest_ind(second, first, equal_var=False)
    interval = expected.confidence_interval(0.95)
    values = welch_t_test(first, second)
    assert (values["low"], values["high"], values["p"]) == pytest.approx((interval.low, interval.high, expected.pvalue))


def test_welchs_test_of_constant_samples():
    """Without variance the interval is a point: p is 1 for equal means, else 0."""
    zeros, ones = pd.Series([0.0, 0.0]), pd.Series([1.0, 1.0])
    assert welch_t_test(zeros, ones) == {"low": 1.0, "high": 1.0, "p": 0.0}
    assert welch_t_test(ones, ones) == {"low": 0.0, "high": 0.0, "p": 1.0}


def test_mean_curves_have_a_standard_error_over_splits():
    row = aggregate_curves(make_curves()).iloc[0]
    assert (row["mean"], row["se"]) == pytest.approx((0.6, 0.1))


def test_a_summary_has_clean_metrics_scenario_metrics_curves_and_costs():
    clean = make_results().assign(epochs=7, **{"seconds/train": 2.0})
    noisy = clean.assign(scenario="gaussian", epochs=9, **{"ood/accuracy": 0.25})
    summary = list(summarise_models(pd.concat([clean, noisy]), make_curves())[("d", "a")])
    mean = clean.query("model == 'a'").groupby("split")["test/accuracy"].mean().mean()
    assert summary == [
        ("gaussian/ood/accuracy", 0.25, 0),
        ("test/accuracy", pytest.approx(mean), 0),
        ("arc/tu", pytest.approx(0.6), 0),
        ("epochs", 7.0, 0),
        ("seconds/train", 2.0, 0),
    ]


def test_the_example_of_a_model_is_its_first_clean_run():
    results = make_results().assign(run_id=lambda t: t["model"] + t["split"].astype(str) + t["init"].astype(str))
    shuffled = results.sample(frac=1, random_state=0)
    corrupted = results.assign(scenario="gaussian", split=-1, run_id="other")
    assert find_first_clean_runs(pd.concat([corrupted, shuffled])) == {("d", "a"): "a00", ("d", "b"): "b00"}
