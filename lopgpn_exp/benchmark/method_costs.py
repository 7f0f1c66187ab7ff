"""What training and prediction cost, for each method of the benchmark."""

from __future__ import annotations

import numpy as np
import pandas as pd

from lopgpn_exp.benchmark.leaderboard import ALL_DATASETS, MIN_SHARE
from lopgpn_exp.evaluation.statistics import CLEAN


def summarise_method_costs(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the cost of each method: one row per protocol, dataset and model.

    Columns: processor seconds of one training and one prediction, and the peak memory of the process in MB, as medians
    over clean runs. Runs of earlier versions recorded no processor time. The dataset `all` is the mean over the
    datasets for which the cost of enough methods is known; it is missing for methods whose cost is not known on each.
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
        table = group.droplevel("protocol").unstack("model")
        is_common = table.notna().sum(axis="columns") >= MIN_SHARE * max(table.notna().any().sum(), 1)
        means = table[is_common].mean(skipna=False) if is_common.any() else pd.Series(np.nan, index=table.columns)
        parts.append(pd.concat({protocol: means}, names=["protocol"]))
    return pd.concat(parts).rename(costs.name) if parts else costs.droplevel("dataset")
