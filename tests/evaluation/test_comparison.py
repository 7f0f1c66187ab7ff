"""Comparing groups of runs: over test nodes, over common splits, over different splits, and the notes on each."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from lopgpn_exp.errors import InputError
from lopgpn_exp.evaluation.comparison import compare_groups, select_metrics
from lopgpn_exp.evaluation.differences import _select_labelled_test_nodes
from tests.support.random_runs import RandomRun, compute_metrics, make_result, random_run, random_runs

SCENARIOS = ("none", "bernoulli")


def compare(reference, *others, **options):
    """All metrics of groups of runs, labelled a, b, c, ..."""
    groups = dict(zip("abcdef", (reference, *others), strict=False))
    return compare_groups(groups, select_metrics(groups, every=True), **options)


def by_metric(comparison):
    return comparison.table.set_index("metric")


# Over test nodes.


def test_the_standard_error_of_accuracy_is_the_analytic_one():
    """A mean of paired differences has the standard error sd / sqrt(n). With 1,000 samples, the bootstrap's is accurate
    to 1 / sqrt(2 x 1000) = 2.2 %: four times this is allowed."""
    runs = [random_run("gkde"), random_run("lop_gpn")]
    row = by_metric(compare(runs[:1], runs[1:])).loc["test/accuracy"]
    tables = [run.predictions for run in runs]
    hits = [(t["predicted"] == t["label"])[t["part"] == "test"].to_numpy().astype(float) for t in tables]
    paired = hits[1] - hits[0]
    assert row["difference"] == pytest.approx(paired.mean())
    error = (row["high"] - row["low"]) / (2 * stats.norm.ppf(0.975))
    assert error == pytest.approx(paired.std() / np.sqrt(len(paired)), rel=4 * 0.0224)
    assert row["p"] == pytest.approx(2 * stats.norm.sf(abs(row["difference"]) / error))
    assert (row["interval_over"], row["nodes"]) == ("test nodes", len(paired))


def test_a_run_does_not_differ_from_itself():
    run = [random_run("gkde", scenario="bernoulli")]
    table = compare(run, run).table
    assert (table["difference"] == 0).all()
    with_interval = table[table["interval_over"] == "test nodes"]
    assert set(table["metric"]) - set(with_interval["metric"]) == {"test/nll"}
    assert (with_interval[["low", "high"]] == 0).all(axis=None)
    assert (with_interval["p"] == 1).all()


@pytest.mark.parametrize(
    ("scenarios", "first_splits", "second_splits"),
    [(["bernoulli"], [0], [0]), (SCENARIOS, [0, 1, 2, 3], [0, 1, 2, 3]), (SCENARIOS, [0, 1], [2, 3])],
    ids=["nodes", "paired", "unpaired"],
)
def test_swapping_the_groups_changes_the_signs(scenarios, first_splits, second_splits):
    groups = [
        random_runs("gkde", scenarios=scenarios, splits=first_splits),
        random_runs("lop_gpn", scenarios=scenarios, splits=second_splits),
    ]
    forward, backward = compare(*groups).table, compare(*reversed(groups)).table
    both = forward.merge(backward, on=["dataset", "scenario", "metric"], suffixes=("", "_back"))
    assert len(both) == len(forward)
    assert both["difference"].tolist() == pytest.approx((-both["difference_back"]).tolist())
    with_interval = both[both["low"].notna()]
    assert with_interval["low"].tolist() == pytest.approx((-with_interval["high_back"]).tolist())
    assert with_interval["p"].tolist() == pytest.approx(with_interval["p_back"].tolist())
    assert both["value"].tolist() == both["reference_value_back"].tolist()


def test_runs_with_different_test_nodes_are_not_subtracted():
    reference, run = (random_run(model, scenario="bernoulli") for model in ("gkde", "lop_gpn"))
    table = run.predictions
    test = table.index[table["part"] == "test"]

    def compare_changed(column, index, value):
        changed = table.copy()
        changed.loc[index, column] = value
        metrics = compute_metrics(changed, "bernoulli")
        return compare([reference], [RandomRun(replace(run.result, metrics=metrics), changed)])

    for column, value in (("label", (table.loc[test[0], "label"] + 1) % 3), ("part", "none")):
        comparison = compare_changed(column, test[0], value)
        assert comparison.table["difference"].isna().all()
        assert comparison.table["value"].notna().all()
        assert comparison.sections[0].notes == ["no difference: the two runs have different test nodes or labels"]
    comparison = compare_changed("is_ood", test[:5], ~table.loc[test[:5], "is_ood"])
    rows = by_metric(comparison)
    assert rows.loc[["id/accuracy", "ood/auroc/tu"], "difference"].isna().all()
    assert rows.loc[["test/accuracy", "test/auarc/tu"], "low"].notna().all()
    assert "the two runs differ in which nodes are out-of-distribution" in comparison.sections[0].notes[0]


def test_a_known_class_may_be_out_of_distribution_as_a_whole():
    """All neighbourhoods of a class can change; only nodes of left-out classes are never used for training."""
    table = random_run("gkde").predictions
    table = table.assign(is_ood=table["label"] == table["label"].max())
    assert _select_labelled_test_nodes(table)["has_known_class"].all()
    is_test = table["part"] == "test"
    left_out = table.assign(part=table["part"].mask(table["is_ood"] & ~is_test, "none"))
    nodes = _select_labelled_test_nodes(left_out)
    assert (nodes["has_known_class"] == ~nodes["is_ood"]).all()


def test_predictions_that_contradict_the_result_are_refused():
    run = random_run("gkde")
    metrics = run.result.metrics | {"test/accuracy": run.result.metrics["test/accuracy"] + 1e-3}
    wrong = RandomRun(replace(run.result, metrics=metrics), run.predictions)
    with pytest.raises(InputError, match=r"test/accuracy is .* in predictions.parquet, .* in result.json"):
        compare([wrong], [random_run("lop_gpn")])


@pytest.mark.parametrize("swapped", [False, True])
def test_a_measure_that_one_group_lacks_is_shown_without_a_difference(swapped):
    run = random_run("lop_gpn")
    metrics = {name: value for name, value in run.result.metrics.items() if name != "test/auarc/eu"}
    groups = [[random_run("gkde")], [RandomRun(replace(run.result, metrics=metrics), run.predictions)]]
    rows = by_metric(compare(*(reversed(groups) if swapped else groups)))
    assert pd.isna(rows.loc["test/auarc/eu", "difference"])
    assert rows.loc["test/auarc/eu", ["reference_value", "value"]].isna().sum() == 1
    assert rows.loc["test/auarc/tu", "interval_over"] == "test nodes"


def test_the_nodes_of_a_graph_with_names_are_compared_too():
    runs = [random_run(model) for model in ("gkde", "lop_gpn")]
    names = {"id": "x", "label_name": "y", "predicted_name": "z"}
    named = [RandomRun(run.result, run.predictions.assign(**names)) for run in runs]
    pd.testing.assert_frame_equal(compare(named[:1], named[1:]).table, compare(runs[:1], runs[1:]).table)


# Over splits.


def split_means(runs, metric="test/ece"):
    """The mean over the initialisations of each split, from the results themselves."""
    values = {}
    for run in runs:
        values.setdefault(run.result.split, []).append(run.result.metrics[metric])
    return np.array([np.mean(values[split]) for split in sorted(values)])


def test_common_splits_are_compared_by_the_paired_t_test():
    reference = random_runs("gkde", splits=range(4))
    other = [*random_runs("lop_gpn", splits=range(4)), random_run("lop_gpn", init=1)]
    comparison = compare(reference, other)
    row = by_metric(comparison).loc["test/ece"]
    expected = stats.ttest_rel(split_means(other), split_means(reference))
    interval = expected.confidence_interval(0.95)
    assert (row["low"], row["high"], row["p"]) == pytest.approx((interval.low, interval.high, expected.pvalue))
    assert (row["interval_over"], row["matched_splits"]) == ("splits", 4)
    assert "4 common splits" in comparison.sections[0].notes[0]


def test_different_splits_are_compared_by_welchs_test():
    reference, other = random_runs("gkde", splits=[0, 1]), random_runs("lop_gpn", splits=[2, 3])
    comparison = compare(reference, other, names=("A", "B"))
    row = by_metric(comparison).loc["test/ece"]
    expected = stats.ttest_ind(split_means(other), split_means(reference), equal_var=False)
    interval = expected.confidence_interval(0.95)
    assert (row["low"], row["high"], row["p"]) == pytest.approx((interval.low, interval.high, expected.pvalue))
    assert row["interval_over"] == "unpaired splits"
    assert "unpaired, Welch's 95 % interval over 2 splits of A and 2 of B" in comparison.sections[0].notes[0]


def test_one_split_against_other_splits_has_no_difference():
    groups = {"long label": random_runs("gkde", splits=[0]), "another": random_runs("lop_gpn", splits=[1, 2, 3])}
    comparison = compare_groups(groups, ["test/ece"], names=["A", "B"])
    assert comparison.table["difference"].isna().all()
    assert "no difference: A has split 0, B has splits 1, 2, 3" in comparison.sections[0].notes[0]
    assert comparison.labels == ["long label", "another"]
    assert "long label has split 0" in compare_groups(groups, ["test/ece"]).sections[0].notes[0]


def test_one_common_split_has_no_interval():
    reference, other = random_runs("gkde", splits=[0, 1]), random_runs("lop_gpn", splits=[1, 2])
    comparison = compare(reference, other)
    row = by_metric(comparison).loc["test/ece"]
    assert row["difference"] == pytest.approx(split_means(other)[0] - split_means(reference)[1])
    assert pd.isna(row["low"])
    assert comparison.sections[0].notes == [
        "one common split (1): a difference without an interval",
        "not common: split 0 of a and split 2 of b; they count in the values, not in the difference",
    ]


@settings(max_examples=40, deadline=None)
@given(
    first=st.sets(st.integers(0, 4), min_size=1),
    second=st.sets(st.integers(0, 4), min_size=1),
    inits=st.integers(1, 2),
    random=st.randoms(use_true_random=False),
)
def test_every_split_is_common_or_named_in_a_note(first, second, inits, random):
    """An interval needs two differences."""
    if len(first) == len(second) == inits == 1 and first == second:
        return  # two runs: over nodes

    def runs(model, splits):
        return [
            RandomRun(make_result(model, "d", "none", s, i, {"test/accuracy": random.random()}), pd.DataFrame())
            for s in splits
            for i in range(inits)
        ]

    comparison = compare(runs("m", first), runs("n", second))
    row, notes = comparison.table.iloc[0], " ".join(comparison.sections[0].notes)
    common = first & second
    assert row["matched_splits"] == len(common)
    assert pd.notna(row["difference"]) == bool(common or min(len(first), len(second)) > 1)
    assert pd.notna(row["low"]) == (len(common) > 1 or (not common and min(len(first), len(second)) > 1))
    if common:
        unmatched = {int(n) for part in re.findall(r"splits? ([\d, ]+) of", notes) for n in part.split(", ")}
        assert unmatched == first ^ second
    else:
        assert "unpaired" in notes or "no difference" in notes


# Datasets, scenarios and models.


def test_groups_of_several_models_are_compared_per_model():
    reference = [run for model in ("gkde", "lop_gpn") for run in random_runs(model, splits=range(4))]
    other = [run for m in ("gkde", "lop_gpn") for run in random_runs(m, scenarios=SCENARIOS, splits=range(3))]
    comparison = compare(reference, other)
    assert [section.title for section in comparison.sections] == ["cora · none · gkde", "cora · none · lop_gpn"]
    assert (comparison.table["reference_model"] == comparison.table["model"]).all()
    assert comparison.notes == [
        "not compared, because a group has no runs there: cora · bernoulli · gkde, cora · bernoulli · lop_gpn"
    ]


def test_groups_with_nothing_in_common_are_refused():
    clean, noisy = ([random_run("gkde", scenario=scenario)] for scenario in SCENARIOS)
    with pytest.raises(InputError, match=r"no dataset and scenario in common \(a: cora · none; b: cora · bernoulli\)"):
        compare(clean, noisy)
    clean, noisy = ([*group, random_run("gpn", scenario=group[0].result.scenario)] for group in (clean, noisy))
    with pytest.raises(InputError, match=r"no dataset, scenario and model in common(.|\n)*one model per group"):
        compare(clean, noisy)


def test_a_group_without_runs_in_a_section_is_named():
    gkde, lop_gpn = (random_runs(model, scenarios=SCENARIOS, splits=[0, 1]) for model in ("gkde", "lop_gpn"))
    comparison = compare(gkde, lop_gpn, random_runs("gpn", splits=[0, 1]))
    bernoulli, clean = comparison.sections
    assert "c has no runs here" in bernoulli.notes
    assert set(clean.rows["group"]) == {"b", "c"}
    assert clean.notes[0] == "b: 2 common splits: 95 % interval and p of the paired t-test over them"


def test_averaging_runs_with_different_settings_is_noted():
    other = [random_run("lop_gpn", digest=digest, seed=seed) for digest, seed in (("aaaa", 1), ("bbbb", 2))]
    notes = compare([random_run("gkde")], other).sections[0].notes
    assert "b: 2 runs have the same model, split and init but different settings; they are averaged" in notes


# Metrics.


def test_metrics_are_the_important_ones_all_or_the_named_ones():
    groups = {"a": random_runs("gkde", scenarios=SCENARIOS, splits=[0]), "b": [random_run("lop_gpn")]}
    assert select_metrics(groups, names=["ood/auroc", "test/nll"]) == ["test/nll", "ood/auroc/tu", "ood/auroc/eu"]
    important = ["test/accuracy", "id/accuracy", "test/ece", "test/auarc/tu", "test/auarc/eu"]
    assert select_metrics(groups) == [*important, "ood/auroc/tu", "ood/auroc/eu"]
    assert set(select_metrics(groups, every=True)) - set(select_metrics(groups)) == {"ood/accuracy", "test/nll"}
    with pytest.raises(InputError, match=r"no metric 'test/acuracy'") as info:
        select_metrics(groups, names=["test/acuracy"])
    assert (info.value.parameter, info.value.suggestion) == ("metric", "test/accuracy")


def test_an_extra_measure_is_compared_after_the_others():
    def with_extra(model):
        run = random_run(model, scenario="bernoulli")
        metrics = run.result.metrics | {
            f"{path}/{new}": run.result.metrics[f"{path}/tu"]
            for path in ("test/auarc", "ood/auroc")
            for new in ("mine", "lconf")
        }
        return RandomRun(replace(run.result, metrics=metrics), run.predictions.assign(mine=run.predictions["tu"]))

    groups = {"a": [with_extra("gkde")], "b": [with_extra("lop_gpn")]}
    metrics = select_metrics(groups)
    assert [m for m in metrics if m.startswith("test/auarc")] == [f"test/auarc/{m}" for m in ("tu", "eu", "mine")]
    rows = by_metric(compare_groups(groups, metrics))
    for path in ("test/auarc", "ood/auroc"):
        columns = ["value", "difference", "low", "high", "p"]
        assert rows.loc[f"{path}/mine", columns].tolist() == rows.loc[f"{path}/tu", columns].tolist()


def test_a_section_without_the_metrics_is_named():
    gkde, lop_gpn = (random_runs(model, scenarios=SCENARIOS, splits=[0, 1]) for model in ("gkde", "lop_gpn"))
    comparison = compare_groups({"a": gkde, "b": lop_gpn}, ["ood/auroc/tu"])
    assert [section.title for section in comparison.sections] == ["cora · bernoulli"]
    assert comparison.notes == ["no values of these metrics: cora · none"]
    with pytest.raises(InputError, match="no values of these metrics: cora · none") as info:
        compare_groups({"a": gkde, "b": random_runs("lop_gpn", splits=[0, 1])}, ["ood/auroc/tu"])
    assert info.value.parameter == "metric"
