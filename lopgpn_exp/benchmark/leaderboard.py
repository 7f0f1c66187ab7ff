"""The leaderboard: means with standard errors, ranks, and which methods cannot be told apart from the best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from lopgpn_exp.benchmark.tasks import TaskMetric, find_task_metric, find_tasks
from lopgpn_exp.errors import InputError
from lopgpn_exp.evaluation.statistics import CLEAN, TIED_ABOVE, adjust_holm, paired_t_test

CELL = ["protocol", "dataset", "scenario", "task", "metric"]  # where methods are compared with each other
COLUMNS = (
    *("model", "dataset", "protocol", "scenario", "metric", "measure"),
    *("mean", "se", "runs", "rank", "tied_with_best"),
)
MEAN_SCENARIO = "mean"  # the mean over all scenarios of a task
ALL_DATASETS = "all"  # the mean over datasets


def build_leaderboard(runs: pd.DataFrame) -> pd.DataFrame:
    """Return one row per model, dataset, protocol, scenario and metric.

    Columns: those of `COLUMNS`, the task, the number of splits, and the 95 % interval (`low`, `high`) over splits.
    Initialisations of a split share its data and are averaged first. Two kinds of rows are means of others: the
    scenario `mean` over the scenarios of a task on each split, and the dataset `all` over datasets. The interval of the
    latter is over datasets, and only methods with runs on all of them have it.
    """
    scored = score_tasks(runs.reset_index(drop=True))
    if scored.empty:
        raise InputError(
            "no run has a metric of the benchmark",
            expected="runs with test/accuracy, or with ood/auroc of the measure that their method declares",
        )
    by_split = scored.groupby([*CELL, "model", "split"])["value"].mean()
    by_split = pd.concat([by_split, _average_scenarios(by_split)])
    counts = _count_runs(scored, by_split.index)
    measures = scored.groupby(["task", "metric", "model"])["measure"].first()
    rows = []
    for keys, group in by_split.groupby(CELL):
        rows += _compare_methods(dict(zip(CELL, cast(tuple[str, ...], keys), strict=True)), group.unstack("model"))
    shared = [key for key in CELL if key != "dataset"]
    for keys, group in _average_splits(by_split).groupby(shared):
        place = dict(zip(shared, cast(tuple[str, ...], keys), strict=True)) | {"dataset": ALL_DATASETS}
        complete = group.unstack("model").dropna(axis="columns")
        if len(complete) > 1 and len(complete.columns):
            rows += _compare_methods(place, complete)
    table = pd.DataFrame(rows)
    table["runs"] = [counts[key] for key in table[[*CELL, "model"]].itertuples(index=False, name=None)]
    table["measure"] = measures.reindex(pd.MultiIndex.from_frame(table[["task", "metric", "model"]])).to_numpy()
    return table.sort_values([*CELL, "rank", "model"], ignore_index=True)


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


def _average_scenarios(by_split: pd.Series) -> pd.Series:
    """Return the mean over scenarios for each split on which a method has all of them, if there are several."""
    parts = []
    for _, group in by_split.groupby(["protocol", "dataset", "task", "metric"]):
        table = group.unstack("scenario")
        if len(table.columns) > 1:
            parts.append(table.dropna().mean(axis="columns"))
    if not parts:
        return by_split.iloc[:0]
    means = pd.concat(parts).rename("value").reset_index().assign(scenario=MEAN_SCENARIO)
    return means.set_index([*CELL, "model", "split"])["value"]


def _average_splits(by_split: pd.Series) -> pd.Series:
    """Return the mean over splits of each dataset; of several scenarios, only their mean."""
    means = by_split.groupby([*CELL, "model"]).mean().rename("value").reset_index()
    return select_summaries(means).assign(scenario=MEAN_SCENARIO).set_index([*CELL, "model"])["value"]


def select_summaries(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that stand for a dataset: the mean over scenarios, or the only scenario of a task."""
    scenarios = rows.groupby(["protocol", "dataset", "task", "metric"])["scenario"]
    return rows[(rows["scenario"] == MEAN_SCENARIO) | (scenarios.transform("nunique") == 1)]


def _compare_methods(keys: Mapping[str, str], table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return one row per method.

    Args:
        table: one column per method, and one row per split, or per dataset.
    """
    is_lower_better = find_task_metric(keys["metric"]).is_lower_better
    means, errors, splits = table.mean(), table.sem(), table.count()
    ranks = means.rank(ascending=is_lower_better, method="min")
    tied = find_tied(table, is_lower_better=is_lower_better)
    half = errors * stdtrit(np.maximum(splits - 1, 1), 0.975)
    return [
        {
            **keys,
            "model": model,
            "mean": means[model],
            "se": errors[model],
            "low": means[model] - half[model],
            "high": means[model] + half[model],
            "splits": splits[model],
            "rank": int(ranks[model]),
            "tied_with_best": model in tied,
        }
        for model in table.columns
    ]


def _count_runs(scored: pd.DataFrame, averaged: pd.Index) -> dict[Any, int]:
    """Return how many runs each row of the leaderboard is made from, by the keys of `CELL` and the model.

    Args:
        averaged: keys of all means on a split. A split without all scenarios has no mean over scenarios.
    """
    means = scored.assign(scenario=MEAN_SCENARIO)
    has_mean = pd.MultiIndex.from_frame(means[[*CELL, "model", "split"]]).isin(averaged)
    scenarios = scored.groupby(["protocol", "dataset", "task", "metric"])["scenario"]
    overall = means[has_mean | (scenarios.transform("nunique") == 1)].assign(dataset=ALL_DATASETS)
    counts: dict[Any, int] = {}
    for rows in (scored, means[has_mean], overall):
        counts |= rows.groupby([*CELL, "model"]).size().to_dict()
    return counts


def find_tied(by_split: pd.DataFrame, *, is_lower_better: bool) -> set[str]:
    """Return the best model and those that are not significantly worse, at a level of 5 %.

    Each model is compared with the best by a paired t-test over their common splits; Holm's correction accounts for the
    number of comparisons. The level is approximate: the best is chosen on the same splits, and splits share nodes. A
    model with fewer than two common splits cannot be tested, and is not in the set. The best is chosen among the models
    with the most splits.

    Args:
        by_split: one row per split, one column per model.
    """
    counts = by_split.count()
    means = by_split.mean()[counts == counts.max()]
    best = str(means.idxmin() if is_lower_better else means.idxmax())
    p_values = {}
    for model in by_split.columns.drop(best):
        difference = (by_split[model] - by_split[best]).dropna()
        if len(difference) > 1:
            p_values[model] = paired_t_test(difference)["p"]
    adjusted = adjust_holm(list(p_values.values()))
    return {best} | {model for model, p in zip(p_values, adjusted, strict=True) if p >= TIED_ABOVE}


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
        values = table.to_numpy() * (-1 if metric.is_lower_better else 1)
        differences = values[:, :, None] - values[:, None, :]
        wins = np.where(np.isnan(differences), np.nan, (np.sign(differences) + 1) / 2)
        wins[:, np.arange(len(table.columns)), np.arange(len(table.columns))] = np.nan  # not against itself
        with np.errstate(invalid="ignore"):
            by_opponent = _nanmean(wins, axis=0)
            columns[dataset] = pd.Series(_nanmean(by_opponent, axis=1), index=table.columns)
    return pd.DataFrame(columns)


def _nanmean(values: np.ndarray, axis: int) -> np.ndarray:
    """Return the mean of the values that are not NaN, and NaN where there are none."""
    counts = np.sum(~np.isnan(values), axis=axis)
    return np.where(counts > 0, np.nansum(values, axis=axis) / np.maximum(counts, 1), np.nan)


def summarise_method_costs(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the cost of each method: one row per protocol, dataset and model.

    Columns: processor seconds of one training and one prediction, and the peak memory of the process in MB, as medians
    over clean runs. Runs of earlier versions recorded no processor time. The dataset `all` is the mean over datasets; a
    cost is missing there if it is not known on all datasets on which that of other methods is.
    """
    columns = {"train": "cpu_seconds/train", "predict": "cpu_seconds/predict", "memory": "peak_rss_mb"}
    clean = runs[runs["scenario"] == CLEAN]
    known = clean.assign(**{column: np.nan for column in columns.values() if column not in clean})
    grouped = known.groupby(["protocol", "dataset", "model"])
    costs = grouped.agg(**{name: (column, "median") for name, column in columns.items()})
    means = pd.concat([_average_costs(costs[name]) for name in columns], axis="columns").reset_index()
    return pd.concat([costs.reset_index(), means.assign(dataset=ALL_DATASETS)], ignore_index=True)


def _average_costs(costs: pd.Series) -> pd.Series:
    """Return the mean over datasets for each protocol and model that has them all."""
    parts = []
    for protocol, group in costs.groupby("protocol"):
        table = group.droplevel("protocol").unstack("model").dropna(how="all")
        means = table.mean(skipna=False) if len(table) else pd.Series(np.nan, index=table.columns)
        parts.append(pd.concat({protocol: means}, names=["protocol"]))
    return pd.concat(parts).rename(costs.name) if parts else costs.droplevel("dataset")
