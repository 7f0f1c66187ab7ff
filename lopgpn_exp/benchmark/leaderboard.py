"""The leaderboard: means with standard errors, ranks, and which methods cannot be told apart from the best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from lopgpn_exp.benchmark.tasks import Task, TaskMetric, find_task_metric, find_tasks
from lopgpn_exp.errors import InputError
from lopgpn_exp.evaluation.statistics import TIED_ABOVE, adjust_holm, paired_t_test

CELL = ["protocol", "dataset", "scenario", "task", "metric"]  # where methods are compared with each other
COLUMNS = (
    *("model", "dataset", "protocol", "scenario", "metric", "measure"),
    *("mean", "se", "runs", "rank", "tied_with_best"),
)
MEAN_SCENARIO = "mean"  # the mean over the scenarios of a task
ALL_DATASETS = "all"  # the mean over datasets
MIN_COMMON = 3  # splits (or datasets) that two methods share; with fewer, they are not tested
MIN_SHARE = 0.5  # of the methods: a scenario (or dataset) that fewer methods have is in no mean
EQUAL = 1e-12  # means that differ by less are equal


def build_leaderboard(runs: pd.DataFrame) -> pd.DataFrame:
    """Return one row per model, dataset, protocol, scenario and metric.

    Columns: those of `COLUMNS`, the task, the 95 % interval (`low`, `high`) over splits, the splits of the method
    (`units`), their number (`splits`), that of the method with most of them (`most_splits`), whether the method has
    fewer splits than others (`is_partial`), and whether no method is better (`is_best`). `tied_with_best` is missing if
    there are too few common splits for a test. Two kinds of rows are means of others: the scenario `mean` over the
    scenarios of a task on each split, and the dataset `all` over datasets. Intervals and tests of the latter are over
    datasets, and only methods with runs on all of them have it.
    """
    rows, leads = [], {}
    for keys, group in average_runs(runs).groupby(CELL):
        place = dict(zip(CELL, cast(tuple[str, ...], keys), strict=True))
        table = group.pivot(index="split", columns="model", values="value")
        by_split = compute_leads(table, is_lower_better=find_task_metric(place["metric"]).is_lower_better)
        leads[keys] = pd.DataFrame(_nanmean(by_split, axis=0), index=table.columns, columns=table.columns)
        rows += _compare_methods(place, table, by_split, group.assign(is_partial=False))
    shared = [key for key in CELL if key not in ("dataset", "scenario")]
    for keys, group in select_averaged(pd.DataFrame(rows)).groupby(shared):
        place = dict(zip(shared, cast(tuple[str, ...], keys), strict=True))
        table = group.pivot(index="dataset", columns="model", values="mean").dropna(axis="columns")
        if len(table) > 1 and len(table.columns):
            cells = group.sort_values("dataset").drop_duplicates("dataset")[CELL].itertuples(index=False, name=None)
            by_dataset = [leads[cell].loc[table.columns, table.columns] for cell in cells]
            place |= {"dataset": ALL_DATASETS, "scenario": MEAN_SCENARIO}
            rows += _compare_methods(place, table, np.stack(by_dataset), group)
    return pd.DataFrame(rows).sort_values([*CELL, "rank", "model"], ignore_index=True)


def average_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the `value` of each model on each split, and how many runs it is the mean of.

    Initialisations of a split share its data and are averaged. The scenario `mean` is the mean over scenarios, for the
    splits on which a method has all of them.
    """
    scored = score_tasks(runs.reset_index(drop=True))
    if scored.empty:
        raise InputError(
            "no run has a metric of the benchmark",
            expected="runs with test/accuracy, or with ood/auroc of the measure that their method declares",
        )
    groups = scored.groupby([*CELL, "model", "split"], as_index=False)
    by_split = groups.agg(value=("value", "mean"), runs=("value", "size"), measure=("measure", "first"))
    return pd.concat([by_split, _average_scenarios(by_split)], ignore_index=True)


def score_tasks(runs: pd.DataFrame) -> pd.DataFrame:
    """Return one row per run and metric of its tasks: keys of `CELL`, `model`, `split`, `init`, `measure`, `value`."""
    parts = []
    for scenario, group in runs.groupby("scenario"):
        for task in find_tasks(str(scenario)):
            parts += [score_runs(group, metric).assign(task=task.name, metric=metric.path) for metric in task.metrics]
    return pd.concat(parts, ignore_index=True)


def score_runs(runs: pd.DataFrame, metric: TaskMetric) -> pd.DataFrame:
    """Return the runs that have a metric, with its `value`, and the `measure` that the method declares for it."""
    measures = runs[metric.role] if metric.role else pd.Series("", index=runs.index)
    values = pd.Series(np.nan, index=runs.index)
    for measure, group in runs.groupby(measures):
        path = f"{metric.path}/{measure}" if metric.role else metric.path
        if path in runs:
            values[group.index] = group[path]
    keys = ["protocol", "dataset", "scenario", "model", "split", "init"]
    return runs[keys].assign(measure=measures, value=values).dropna(subset="value")


def _average_scenarios(by_split: pd.DataFrame) -> pd.DataFrame:
    place = [key for key in CELL if key != "scenario"]
    several = by_split[by_split.groupby(place)["scenario"].transform("nunique") > 1]
    common = _select_common(several, "scenario")
    counts = common.groupby([*place, "model", "split"])["scenario"].transform("nunique")
    complete = common[counts == common.groupby(place)["scenario"].transform("nunique")]
    groups = complete.groupby([*place, "model", "split"], as_index=False)
    means = groups.agg(value=("value", "mean"), runs=("runs", "sum"), measure=("measure", "first"))
    return means.assign(scenario=MEAN_SCENARIO)


def _select_common(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return the rows of those scenarios (or datasets) that enough methods have for a mean over them."""
    place = [key for key in CELL if key not in (column, "scenario")]
    methods = rows.groupby(place)["model"].transform("nunique")
    return rows[rows.groupby([*place, column])["model"].transform("nunique") >= MIN_SHARE * methods]


def select_common_datasets(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs on those datasets that enough methods have."""
    methods = runs.groupby(["protocol", "dataset"])["model"].transform("nunique")
    return runs[methods >= MIN_SHARE * runs.groupby("protocol")["model"].transform("nunique")]


def select_summaries(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that stand for a dataset: the mean over scenarios, or the only scenario of a task."""
    scenarios = rows.groupby(["protocol", "dataset", "task", "metric"])["scenario"]
    return rows[(rows["scenario"] == MEAN_SCENARIO) | (scenarios.transform("nunique") == 1)]


def select_averaged(board: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of single datasets from which the mean over datasets is made."""
    return _select_common(select_summaries(board[board["dataset"] != ALL_DATASETS]), "dataset")


def select_overall(board: pd.DataFrame, task: Task) -> pd.DataFrame:
    """Return the means over datasets, or those of the only dataset, best first; empty if there is no such mean."""
    rows = board[(board["task"] == task.name) & (board["metric"] == task.metrics[0].path)]
    overall = rows[rows["dataset"] == ALL_DATASETS]
    if overall.empty and rows["dataset"].nunique() == 1:
        overall = select_summaries(rows)
    return overall.sort_values(["rank", "model"])


def _compare_methods(
    keys: Mapping[str, str], table: pd.DataFrame, leads: np.ndarray, sources: pd.DataFrame
) -> list[dict[str, Any]]:
    """Return one row per method.

    Args:
        table: one column per method, and one row per split, or per dataset.
        leads: the same as differences between methods, from `compute_leads`.
        sources: rows with `model`, `measure`, `runs` and `is_partial`, from which the table was made.
    """
    groups = sources.groupby("model")
    runs, measures = groups["runs"].sum(), groups["measure"].first()
    means, errors, splits = table.mean(), table.sem(), table.count()
    half = errors * stdtrit(np.maximum(splits - 1, 1), 0.975)
    is_partial = (splits < splits.max()) | groups["is_partial"].any()
    ranks = dict(zip(table.columns, rank_methods(leads).tolist(), strict=True))
    tied = find_tied(leads, list(table.columns))
    return [
        {
            **keys,
            "model": model,
            "measure": measures[model],
            "runs": int(runs[model]),
            "mean": means[model],
            "se": errors[model],
            "low": means[model] - half[model],
            "high": means[model] + half[model],
            "units": table[model].dropna().index.tolist(),
            "splits": int(splits[model]),
            "most_splits": int(splits.max()),
            "is_partial": bool(is_partial[model]),
            "rank": ranks[model],
            "is_best": ranks[model] == 1 and 2 * splits[model] >= splits.max(),
            "tied_with_best": tied.get(model),
        }
        for model in table.columns
    ]


def compute_leads(table: pd.DataFrame, *, is_lower_better: bool) -> np.ndarray:
    """Return by how much each model is better than each other one: an array of shape (splits, models, models).

    Differences are NaN where one of the two has no value.

    Args:
        table: one row per split, one column per model.
    """
    values = table.to_numpy() * (-1 if is_lower_better else 1)
    return values[:, :, None] - values[:, None, :]


def rank_methods(leads: np.ndarray) -> np.ndarray:
    """Return for each model one more than the number of models that are better on their common splits.

    A model with few splits is ranked on those alone, so that easy or hard ones make no difference. With less than half
    of the splits, it does not count in the ranks of others.
    """
    is_better = _nanmean(leads, axis=0) > EQUAL
    return 1 + is_better[_has_enough_splits(leads)].sum(axis=0)


def _has_enough_splits(leads: np.ndarray) -> np.ndarray:
    counts = _count_splits(leads)
    return 2 * counts >= counts.max()


def _count_splits(leads: np.ndarray) -> np.ndarray:
    return (~np.isnan(np.diagonal(leads, axis1=1, axis2=2))).sum(axis=0)


def find_tied(leads: np.ndarray, models: Sequence[str]) -> dict[str, bool]:
    """Return for each model whether it is the best or not significantly worse, at a level of 5 %.

    Each model is compared with the best by a paired t-test over their common splits; Holm's correction accounts for the
    number of comparisons. The level is approximate: the best is chosen on the same splits, and splits share nodes. A
    model with fewer than `MIN_COMMON` common splits is not tested, and not in the result.
    """
    order = np.lexsort((-_count_splits(leads), rank_methods(leads), ~_has_enough_splits(leads)))
    best = int(order[0])
    p_values = {}
    for index, model in enumerate(models):
        lead = pd.Series(leads[:, best, index]).dropna()
        if index != best and len(lead) >= MIN_COMMON:
            p_values[model] = paired_t_test(lead)["p"] if lead.mean() > EQUAL else 1.0
    adjusted = adjust_holm(list(p_values.values()))
    return {models[best]: True} | {model: p >= TIED_ABOVE for model, p in zip(p_values, adjusted, strict=True)}


def compute_win_rates(
    runs: pd.DataFrame, metric: TaskMetric, *, protocol: str, scenarios: Sequence[str]
) -> pd.DataFrame:
    """Return how often each method beats another one: one row per model, one column per dataset, values from 0 to 1.

    Methods are compared on every split and scenario that both have, and a tie counts half. Opponents, splits and
    scenarios of a dataset have equal weight.
    """
    chosen = runs[(runs["protocol"] == protocol) & runs["scenario"].isin(list(scenarios))]
    columns = {}
    for dataset, group in chosen.groupby("dataset"):
        scored = score_runs(group, metric)
        table = scored.groupby(["scenario", "split", "model"])["value"].mean().unstack()
        leads = compute_leads(table, is_lower_better=metric.is_lower_better)
        wins = np.where(np.isnan(leads), np.nan, (np.sign(leads) + 1) / 2)
        wins[:, np.arange(len(table.columns)), np.arange(len(table.columns))] = np.nan  # not against itself
        with np.errstate(invalid="ignore"):
            by_opponent = _nanmean(wins, axis=0)
            columns[dataset] = pd.Series(_nanmean(by_opponent, axis=1), index=table.columns)
    return pd.DataFrame(columns)


def _nanmean(values: np.ndarray, axis: int) -> np.ndarray:
    """Return the mean of the values that are not NaN, and NaN where there are none."""
    counts = np.sum(~np.isnan(values), axis=axis)
    return np.where(counts > 0, np.nansum(values, axis=axis) / np.maximum(counts, 1), np.nan)
