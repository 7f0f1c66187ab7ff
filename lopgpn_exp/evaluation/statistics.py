"""Statistics over runs: means with standard errors, t-tests, and the tables of a sweep."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import cast

import numpy as np
import pandas as pd
from scipy.special import stdtr, stdtrit  # Student's distribution; scipy.stats is slow to import

from lopgpn_exp.evaluation.metrics import is_lower_better

GROUP = ["dataset", "model", "scenario"]
RUN = ["split", "init"]
COSTS = ("seconds/", "cpu_seconds/")
CLEAN = "none"  # the scenario that changes nothing
TIED_ABOVE = 0.05  # p-value of the paired t-test above which a model counts as tied with the best


def find_metric_columns(results: pd.DataFrame) -> list[str]:
    return [name for name in results.columns if "/" in name and not name.startswith(COSTS)]


def find_cost_columns(results: pd.DataFrame) -> list[str]:
    return [name for name in results.columns if name.startswith(COSTS) or name in ("epochs", "peak_rss_mb")]


def aggregate(results: pd.DataFrame) -> pd.DataFrame:
    """Return one row per dataset, model, scenario and metric: runs, mean, standard error, 95 % interval.

    Initialisations of a split share its data and are averaged first; the interval is Student's over splits. With a
    single split, standard error and interval are missing.
    """
    long = results.melt(id_vars=[*GROUP, *RUN], value_vars=find_metric_columns(results), var_name="metric").dropna(
        subset="value"
    )
    by_split = long.groupby([*GROUP, "metric", "split"], sort=True)["value"].mean()
    groups = by_split.groupby([*GROUP, "metric"], sort=True)
    table = groups.agg(splits="count", mean="mean", se="sem").reset_index()
    table["runs"] = long.groupby([*GROUP, "metric"], sort=True)["value"].count().to_numpy()
    half = table["se"] * stdtrit(np.maximum(table["splits"] - 1, 1), 0.975)
    return table.assign(low=table["mean"] - half, high=table["mean"] + half)


def aggregate_curves(curves: pd.DataFrame) -> pd.DataFrame:
    """Return mean curves with their standard errors over splits."""
    keys = [*GROUP, "measure", "percent"]
    by_split = curves.groupby([*keys, "split"], sort=True)["accuracy"].mean()
    return by_split.groupby(keys, sort=True).agg(mean="mean", se="sem").reset_index()


def t_test(mean: float, se: float, df: float) -> dict[str, float]:
    """Return the 95 % interval of a mean and the p-value of the hypothesis that it is 0; infinite `df`: normal."""
    half = se * stdtrit(df, 0.975)
    p = 2 * stdtr(df, -abs(mean) / se) if se > 0 else float(mean == 0)
    return {"low": mean - half, "high": mean + half, "p": p}


def adjust_holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values that are adjusted for their number, such that the chance of any false rejection is limited.

    Source: Holm (1979).
    """
    order = np.argsort(p_values, kind="stable")
    factors = len(p_values) - np.arange(len(p_values))
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(np.maximum.accumulate(factors * np.asarray(p_values, dtype=float)[order]), 1.0)
    return adjusted.tolist()


def paired_t_test(difference: pd.Series) -> dict[str, float]:
    """Test the differences of two groups on the same splits."""
    return t_test(difference.mean(), cast(float, difference.sem()), len(difference) - 1)


def welch_t_test(first: pd.Series, second: pd.Series) -> dict[str, float]:
    """Test the difference of the means of two independent samples (at least two values each) of unequal variance."""
    counts = np.array([len(first), len(second)])
    variances = np.array([first.var(), second.var()]) / counts
    se = float(np.sqrt(variances.sum()))
    df = variances.sum() ** 2 / (variances**2 / (counts - 1)).sum() if se > 0 else counts.sum() - 2
    return t_test(second.mean() - first.mean(), se, float(df))


def compare_models(results: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Compare each pair of models on their common splits: mean difference, 95 % interval and p of the paired t-test."""
    rows = []
    for (dataset, scenario), group in results.dropna(subset=metric).groupby(["dataset", "scenario"]):
        table = group.groupby(["split", "model"])[metric].mean().unstack()
        for i, first in enumerate(table.columns):
            for second in table.columns[i + 1 :]:
                difference = (table[first] - table[second]).dropna()
                if len(difference) < 2:
                    continue
                row = {"dataset": dataset, "scenario": scenario, "metric": metric, "first": first, "second": second}
                rows.append(row | {"splits": len(difference), "mean": difference.mean()} | paired_t_test(difference))
    columns = ["dataset", "scenario", "metric", "first", "second", "splits", "mean", "low", "high", "p"]
    return pd.DataFrame(rows, columns=columns)


def mark_best(results: pd.DataFrame, metrics: Sequence[str]) -> dict[tuple[str, str, str, str], str]:
    """Mark the best mean as `best`, and means that a paired t-test over splits cannot distinguish from it as `tied`.

    Keys are dataset, model, scenario and metric. With a single split there is no test, and nothing is tied.
    """
    marks: dict[tuple[str, str, str, str], str] = {}
    for metric in metrics:
        present = results.dropna(subset=metric)
        by_split = present.groupby(["dataset", "scenario", "model", "split"])[metric].mean()
        pairs = compare_models(results, metric)
        for (dataset, scenario), group in by_split.groupby(["dataset", "scenario"]):
            means = group.groupby("model").mean()
            best = set(means.index[means == (means.min() if is_lower_better(metric) else means.max())])
            equal = pairs[(pairs["dataset"] == dataset) & (pairs["scenario"] == scenario) & (pairs["p"] >= TIED_ABOVE)]
            tied = {b for a, b in zip(equal["first"], equal["second"], strict=True) if a in best}
            tied |= {a for a, b in zip(equal["first"], equal["second"], strict=True) if b in best}
            marks |= {(str(dataset), model, str(scenario), metric): "tied" for model in tied}
            marks |= {(str(dataset), model, str(scenario), metric): "best" for model in best}
    return marks


def summarise_models(
    results: pd.DataFrame, curves: pd.DataFrame
) -> dict[tuple[str, str], Iterator[tuple[str, float, int]]]:
    """Return the means of each dataset and model as (name, value, step), like the tracked metrics of a single run.

    Metrics of other scenarios than the clean one are prefixed by the scenario. The step of a curve is the percentage
    rejected. Costs are those of clean runs. Scenarios with a budget are left out: `shift.budget_curves` has them.
    """
    is_shift = results["shift/budget"].notna() if "shift/budget" in results else pd.Series(False, index=results.index)
    results = results[~is_shift]
    means, lines, keys = aggregate(results), aggregate_curves(curves), ["dataset", "model"]
    costs = results[results["scenario"] == CLEAN].groupby(keys)[find_cost_columns(results)].mean().to_dict("index")
    return {
        (dataset, model): _summarise_model(
            means[(means["dataset"] == dataset) & (means["model"] == model)],
            lines[(lines["dataset"] == dataset) & (lines["model"] == model)],
            costs.get((dataset, model), {}),
        )
        for dataset, model in means[keys].drop_duplicates().itertuples(index=False, name=None)
    }


def _summarise_model(
    means: pd.DataFrame, lines: pd.DataFrame, costs: Mapping[Hashable, float]
) -> Iterator[tuple[str, float, int]]:
    for scenario, metric, mean in zip(means["scenario"], means["metric"], means["mean"], strict=True):
        if scenario == CLEAN:
            yield metric, mean, 0
        elif metric.startswith(("id/", "ood/", "change/")):
            yield f"{scenario}/{metric}", mean, 0
    clean = lines[lines["scenario"] == CLEAN]
    for measure, mean, percent in zip(clean["measure"], clean["mean"], clean["percent"], strict=True):
        yield f"arc/{measure}", mean, percent
    for name, value in costs.items():
        yield str(name), value, 0


def find_first_clean_runs(results: pd.DataFrame) -> dict[tuple[str, str], str]:
    """Return the id of the first clean run of each dataset and model, by split and initialisation."""
    clean = results[results["scenario"] == CLEAN].sort_values(RUN).drop_duplicates(["dataset", "model"])
    return dict(zip(zip(clean["dataset"], clean["model"], strict=True), clean["run_id"], strict=True))


def build_sweep_tables(results: pd.DataFrame, curves: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the tables of a sweep by file name."""
    comparisons = [compare_models(results, metric) for metric in find_metric_columns(results)]
    return {
        "runs.csv": results,
        "aggregate.csv": aggregate(results),
        "curves.csv": aggregate_curves(curves),
        "comparison.csv": pd.concat(comparisons, ignore_index=True),
    }
