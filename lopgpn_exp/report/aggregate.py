"""Statistics over runs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy.special import stdtr, stdtrit  # Student's distribution, without the second that scipy.stats takes

GROUP = ["dataset", "model", "scenario"]
RUN = ["split", "init"]
CLEAN = "none"  # the scenario in which nothing is changed


def metric_columns(results: pd.DataFrame) -> list[str]:
    return [column for column in results.columns if "/" in column and not column.startswith("seconds/")]


def aggregate(results: pd.DataFrame) -> pd.DataFrame:
    """One row a dataset, model, scenario and metric: runs, mean, standard error, 95 % interval.

    Initialisations of one split share its data, so they are averaged first; the interval is Student's over splits. With
    one split there is no error to speak of, and none is given.
    """
    long = results.melt(id_vars=[*GROUP, *RUN], value_vars=metric_columns(results), var_name="metric").dropna(
        subset="value"
    )
    by_split = long.groupby([*GROUP, "metric", "split"], sort=True)["value"].mean()
    groups = by_split.groupby([*GROUP, "metric"], sort=True)
    table = groups.agg(splits="count", mean="mean", se="sem").reset_index()
    table["runs"] = long.groupby([*GROUP, "metric"], sort=True)["value"].count().to_numpy()
    half = table["se"] * stdtrit(np.maximum(table["splits"] - 1, 1), 0.975)
    return table.assign(low=table["mean"] - half, high=table["mean"] + half)


def aggregate_curves(curves: pd.DataFrame) -> pd.DataFrame:
    """Mean curves with their standard error over splits."""
    keys = [*GROUP, "measure", "percent"]
    by_split = curves.groupby([*keys, "split"], sort=True)["accuracy"].mean()
    return by_split.groupby(keys, sort=True).agg(mean="mean", se="sem").reset_index()


def student(mean: float, se: float, df: float) -> dict[str, float]:
    """95 % interval of a mean and p of the t-test that it is 0; the normal distribution's if `df` is infinite."""
    half = se * stdtrit(df, 0.975)
    p = 2 * stdtr(df, -abs(mean) / se) if se > 0 else float(mean == 0)
    return {"low": mean - half, "high": mean + half, "p": p}


def paired(difference: pd.Series) -> dict[str, float]:
    """The paired t-test, of differences on the same splits."""
    return student(difference.mean(), difference.sem(), len(difference) - 1)


def compare(results: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Each pair of models on the splits that both have: mean difference, 95 % interval and p of the paired t-test."""
    rows = []
    for (dataset, scenario), group in results.dropna(subset=metric).groupby(["dataset", "scenario"]):
        table = group.groupby(["split", "model"])[metric].mean().unstack()
        for i, first in enumerate(table.columns):
            for second in table.columns[i + 1 :]:
                difference = (table[first] - table[second]).dropna()
                if len(difference) < 2:
                    continue
                row = {"dataset": dataset, "scenario": scenario, "metric": metric, "first": first, "second": second}
                rows.append(row | {"splits": len(difference), "mean": difference.mean()} | paired(difference))
    columns = ["dataset", "scenario", "metric", "first", "second", "splits", "mean", "low", "high", "p"]
    return pd.DataFrame(rows, columns=columns)


def summaries(results: pd.DataFrame, curves: pd.DataFrame) -> dict[tuple[str, str], Iterator[tuple[str, float, int]]]:
    """By dataset and model, means as metrics of one run: clean ones by their own path, a scenario's after its name.

    Mean curves have the percent rejected as their step. What a run took is that of clean runs.
    """
    means = aggregate(results)
    lines = aggregate_curves(curves)
    costs = results[results["scenario"] == CLEAN].groupby(["dataset", "model"])[cost_columns(results)].mean()
    return {
        key: _summary(group, lines.query("dataset == @key[0] and model == @key[1]"), costs, key)
        for key, group in means.groupby(["dataset", "model"])
    }


def _summary(
    means: pd.DataFrame, lines: pd.DataFrame, costs: pd.DataFrame, key: tuple[str, str]
) -> Iterator[tuple[str, float, int]]:
    for row in means.itertuples():
        if row.scenario == CLEAN:
            yield row.metric, row.mean, 0
        elif row.metric.startswith(("id/", "ood/", "change/")):
            yield f"{row.scenario}/{row.metric}", row.mean, 0
    for row in lines[lines["scenario"] == CLEAN].itertuples():
        yield f"arc/{row.measure}", row.mean, row.percent
    if key in costs.index:
        for name, value in costs.loc[key].items():
            yield str(name), value, 0


def first_clean_runs(results: pd.DataFrame) -> dict[tuple[str, str], str]:
    """By dataset and model, the run to show how training went: of the first split and initialisation."""
    clean = results[results["scenario"] == CLEAN].sort_values(RUN)
    return clean.groupby(["dataset", "model"])["run_id"].first().to_dict()


def cost_columns(results: pd.DataFrame) -> list[str]:
    return [column for column in results if column.startswith("seconds/") or column in ("epochs", "peak_rss_mb")]


def sweep_tables(results: pd.DataFrame, curves: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """All tables of a sweep by the file they are kept in."""
    comparisons = [compare(results, metric) for metric in metric_columns(results)]
    return {
        "runs.csv": results,
        "aggregate.csv": aggregate(results),
        "curves.csv": aggregate_curves(curves),
        "comparison.csv": pd.concat(comparisons, ignore_index=True),
    }
