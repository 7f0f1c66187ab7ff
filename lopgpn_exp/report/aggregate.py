"""Statistics over runs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy.special import stdtr, stdtrit  # Student's distribution, without the second that scipy.stats takes

GROUP = ["dataset", "model", "scenario"]
RUN = ["split", "init"]


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
                mean, se, n = difference.mean(), difference.sem(), len(difference)
                half = se * stdtrit(n - 1, 0.975)
                p = 2 * stdtr(n - 1, -abs(mean) / se) if se > 0 else float(mean == 0)
                row = {"dataset": dataset, "scenario": scenario, "metric": metric, "first": first, "second": second}
                rows.append(row | {"splits": n, "mean": mean, "low": mean - half, "high": mean + half, "p": p})
    columns = ["dataset", "scenario", "metric", "first", "second", "splits", "mean", "low", "high", "p"]
    return pd.DataFrame(rows, columns=columns)


def sweep_metrics(results: pd.DataFrame, curves: pd.DataFrame) -> Iterator[tuple[str, float, int]]:
    """Aggregates by path, value and step: `<dataset>/<model>/<scenario>/<metric>/mean` and so on; curves by percent."""
    for row in aggregate(results).itertuples():
        path = f"{row.dataset}/{row.model}/{row.scenario}/{row.metric}"
        for name in ("mean", "se", "low", "high"):
            if not pd.isna(value := getattr(row, name)):
                yield f"{path}/{name}", value, 0
    for row in aggregate_curves(curves).itertuples():
        path = f"{row.dataset}/{row.model}/{row.scenario}/arc/{row.measure}"
        yield f"{path}/mean", row.mean, row.percent
        if not pd.isna(row.se):
            yield f"{path}/se", row.se, row.percent


def sweep_tables(results: pd.DataFrame, curves: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """All tables of a sweep by the file they are kept in."""
    comparisons = [compare(results, metric) for metric in metric_columns(results)]
    return {
        "runs.csv": results,
        "aggregate.csv": aggregate(results),
        "curves.csv": aggregate_curves(curves),
        "comparison.csv": pd.concat(comparisons, ignore_index=True),
    }
