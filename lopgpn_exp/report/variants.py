"""Runs that are not of the default config, if there are any: other readings of the paper, and tests of scale."""

from __future__ import annotations

import pandas as pd

from lopgpn_exp.report.names import NO_VALUE
from lopgpn_exp.report.table1 import percent_means

SHOWN = (
    "test/accuracy",
    "id/accuracy",
    "ood/auroc/tu",
    "ood/auroc/au",
    "ood/auroc/eu",
    "ood/auroc/eu_pc",
    "ood/auroc/eu_so",
)
MEAN_OF = ["variant", "model", "dataset", "scenario"]


def alternatives(results: pd.DataFrame, datasets: list[str]) -> pd.DataFrame:
    """Each variant on the paper's datasets against the default on the same splits: mean paired differences in points.

    A pair is of one split and one initialisation, whose seed both share; the pairs of a split count as their mean.
    One row a variant, model, dataset and scenario; a column a metric holds `default, difference ± standard error`.
    """
    chosen = results[results["dataset"].isin(datasets)]
    shown = [m for m in SHOWN if m in chosen]
    runs = chosen.set_index([*MEAN_OF, "split", "init"]).sort_index()[shown] * 100
    rows = []
    for keys, group in runs[runs.index.get_level_values("variant") != ""].groupby(MEAN_OF):
        try:
            default = runs.loc[("", *keys[1:])]
        except KeyError:
            continue
        pairs = (group.droplevel(MEAN_OF) - default).dropna(how="all")
        if len(pairs):
            difference, beside = (each.groupby("split").mean() for each in (pairs, default.loc[pairs.index]))
            row = dict(zip(MEAN_OF, keys, strict=True)) | {"splits": len(difference)}
            rows.append(row | {m: _pair(beside[m], difference[m]) for m in shown})
    return pd.DataFrame(rows, columns=[*MEAN_OF, "splits", *SHOWN])


def _pair(default: pd.Series, difference: pd.Series) -> str:
    if difference.isna().all():
        return NO_VALUE
    error = f" ± {difference.sem():.1f}" if len(difference) > 1 else ""
    return f"{default.mean():.1f}, {difference.mean():+.1f}{error}"


def scale(results: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """By graph and training, means of the runs on synthetic graphs and what they took. Never part of the paper's table.

    What one model alone was given (`model.*`) is its row's `settings`.
    """
    chosen = results[results["dataset"] == "synthetic"]
    words = chosen["variant"].str.split()
    chosen = chosen.assign(
        shared=[" ".join(word for word in each if not word.startswith("model.")) for each in words],
        settings=[" ".join(word for word in each if word.startswith("model.")) for each in words],
    )
    tables = {}
    keys = ["dataset", "model", "scenario"]
    for shared, runs in chosen.groupby("shared"):
        means = percent_means(runs)["mean"].unstack("metric").reset_index()
        cost = runs.groupby(keys).agg(
            runs=("run_id", "count"),
            train=("seconds/train", "mean"),
            mb=("peak_rss_mb", "max"),
            settings=("settings", "first"),
        )
        tables[str(shared)] = means.merge(cost.reset_index(), on=keys)
    return tables
