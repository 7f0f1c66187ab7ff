"""The difference between two groups of runs on one dataset and scenario, with a 95 % interval where possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pandas as pd

from lopgpn_exp.errors import InputError
from lopgpn_exp.evaluation.bootstrap import Metric, bootstrap_errors, build_node_metrics, compute_metric
from lopgpn_exp.evaluation.metrics import split_metric
from lopgpn_exp.evaluation.statistics import paired_t_test, t_test, welch_t_test
from lopgpn_exp.records import RunResult

TOLERANCE = 1e-9  # between a metric in the result and the same metric computed from the predictions
# Columns of the table of nodes that must be equal for some metrics to be comparable, and their meaning.
REQUIRED_COLUMNS = {
    "is_ood": (("id/", "ood/", "change/"), "which nodes are out-of-distribution"),
    "has_known_class": (("test/",), "which classes the models can predict"),
}


if TYPE_CHECKING:

    class FinishedRun(Protocol):
        """A run with its result and its table of nodes."""

        @property
        def result(self) -> RunResult: ...

        @property
        def predictions(self) -> pd.DataFrame: ...

else:
    FinishedRun = Any  # checking a protocol at run time would read the predictions


@dataclass(frozen=True)
class RunGroup:
    """Runs that are compared as one; `name` is a short label for notes."""

    label: str
    name: str
    runs: Sequence[FinishedRun]

    @property
    def models(self) -> str:
        return "+".join(sorted({run.result.model for run in self.runs}))

    def select(self, **values: str) -> RunGroup:
        """Return the group restricted to runs with these values: `dataset="cora_ml", scenario="none"`."""
        runs = [run for run in self.runs if all(getattr(run.result, key) == values[key] for key in values)]
        return replace(self, runs=runs)

    def has_metric(self, metric: str) -> bool:
        return any(metric in run.result.metrics for run in self.runs)

    def average_by_split(self, metrics: Sequence[str]) -> pd.DataFrame:
        """Return one row per split and one column per metric, averaged over initialisations."""
        rows = [
            {"split": run.result.split} | {m: run.result.metrics.get(m, np.nan) for m in metrics} for run in self.runs
        ]
        return pd.DataFrame(rows, columns=["split", *metrics]).groupby("split")[list(metrics)].mean()


@dataclass(frozen=True)
class Difference:
    """Differences between two groups.

    Args:
        interval_over: what the intervals are computed over, or `none`.
        by_metric: `difference` and, if there is an interval, `low`, `high` and `p`.
        splits, nodes: number of common splits, and of test nodes if the intervals are over nodes.
    """

    interval_over: str = "none"
    by_metric: Mapping[str, dict[str, float]] = field(default_factory=dict)
    splits: int = 0
    nodes: int = 0
    notes: Sequence[str] = ()


def compute_difference(reference: RunGroup, other: RunGroup, metrics: Sequence[str]) -> Difference:
    """Return `other - reference`, with an interval over test nodes, over common splits, or over different splits."""
    first, second = (group.average_by_split(metrics) for group in (reference, other))
    common = sorted(set(first.index) & set(second.index))
    if common and len(reference.runs) == len(other.runs) == 1:
        return _compare_on_nodes(reference.runs[0], other.runs[0], metrics)
    if common:
        return _compare_on_splits(first, second, common, names=(reference.name, other.name))
    if min(len(first), len(second)) > 1:
        columns = {metric: (first[metric].dropna(), second[metric].dropna()) for metric in metrics}
        by_metric = {
            metric: {"difference": b.mean() - a.mean()} | welch_t_test(a, b)
            for metric, (a, b) in columns.items()
            if min(len(a), len(b)) > 1
        }
        note = (
            f"no common split: unpaired, Welch's 95 % interval over {len(first)} splits of {reference.name} "
            f"and {len(second)} of {other.name}"
        )
        return Difference("unpaired splits", by_metric, notes=[note])
    splits = [
        f"{name} has {_list_splits(list(table.index))}"
        for name, table in ((reference.name, first), (other.name, second))
    ]
    note = f"no difference: {', '.join(splits)}; it needs a common split, or two splits of each"
    return Difference(notes=[note])


def _compare_on_splits(
    first: pd.DataFrame, second: pd.DataFrame, common: Sequence[int], *, names: tuple[str, str]
) -> Difference:
    by_metric = {}
    for metric, column in (second.loc[list(common)] - first.loc[list(common)]).items():
        values = column.dropna()
        if len(values):
            by_metric[str(metric)] = {"difference": values.mean()} | (paired_t_test(values) if len(values) > 1 else {})
    if len(common) == 1:
        notes = [f"one common split ({common[0]}): a difference without an interval"]
    else:
        notes = [f"{len(common)} common splits: 95 % interval and p of the paired t-test over them"]
    unmatched = [
        f"{_list_splits(splits)} of {name}"
        for name, table in zip(names, (first, second), strict=True)
        if (splits := sorted(set(table.index) - set(common)))
    ]
    if unmatched:
        notes.append(f"not common: {' and '.join(unmatched)}; they count in the values, not in the difference")
    return Difference("splits", by_metric, splits=len(common), notes=notes)


def _list_splits(splits: Sequence[int]) -> str:
    return ("split " if len(splits) == 1 else "splits ") + ", ".join(map(str, splits))


def _compare_on_nodes(first: FinishedRun, second: FinishedRun, metrics: Sequence[str]) -> Difference:
    """Compare two trained models on the same test nodes; intervals are +- 1.96 standard errors of the bootstrap.

    Quantiles of the bootstrap samples would be biased, because resampling increases the calibration error.
    """
    runs = (first, second)
    tables = [_select_labelled_test_nodes(run.predictions) for run in runs]
    num_nodes = len(tables[0])
    if not _are_equal(tables, ["node", "label"]):
        note = "no difference: the two runs have different test nodes or labels"
        return Difference("test nodes", splits=1, nodes=num_nodes, notes=[note])
    notes = []
    comparable = [m for m in metrics if m in first.result.metrics and m in second.result.metrics]
    for column, (paths, reason) in REQUIRED_COLUMNS.items():
        if not _are_equal(tables, [column]) and any(m.startswith(paths) for m in comparable):
            comparable = [m for m in comparable if not m.startswith(paths)]
            notes.append(f"no difference in {' '.join(f'{p}*' for p in paths)}: the two runs differ in {reason}")
    functions = [_build_metrics(run, table, comparable) for run, table in zip(runs, tables, strict=True)]
    errors = bootstrap_errors(functions[0], functions[1], num_nodes)
    by_metric = {}
    for metric in comparable:
        difference = second.result.metrics[metric] - first.result.metrics[metric]
        interval = t_test(difference, errors[metric], np.inf) if metric in errors else {}
        by_metric[metric] = {"difference": difference} | interval
    if errors:
        notes.append(
            f"95 % intervals over the {num_nodes:,} test nodes of split {first.result.split} (paired bootstrap), "
            "for these two trained models: variation between trainings is not included"
        )
    if no_interval := dict.fromkeys(split_metric(metric)[0] for metric in comparable if metric not in errors):
        notes.append(f"no interval, because it is not computed over nodes: {', '.join(no_interval)}")
    return Difference("test nodes", by_metric, splits=1, nodes=num_nodes, notes=notes)


def _select_labelled_test_nodes(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return the labelled test nodes with a column `has_known_class`: whether the model can predict their class.

    Left-out classes have the highest numbers; their nodes are out-of-distribution and in no part but `test`.
    """
    is_kept = ~predictions["is_ood"] | predictions["part"].isin(["train", "val"])
    num_classes = 1 + predictions.loc[is_kept, "label"].max()
    table = predictions.assign(has_known_class=predictions["label"] < num_classes)
    return table[(table["part"] == "test") & (table["label"] >= 0)].reset_index(drop=True)


def _are_equal(tables: Sequence[pd.DataFrame], columns: list[str]) -> bool:
    return tables[0][columns].equals(tables[1][columns])


def _build_metrics(run: FinishedRun, nodes: pd.DataFrame, names: Sequence[str]) -> dict[str, Metric]:
    """Return the metrics of a run's nodes, after checking that they reproduce the values of its result."""
    has_known_class = nodes["has_known_class"].to_numpy()
    functions = build_node_metrics(nodes.drop(columns="has_known_class"), has_known_class, names)
    for metric, function in functions.items():
        value, recorded = compute_metric(function, len(nodes)), run.result.metrics[metric]
        if not abs(value - recorded) < TOLERANCE:
            raise InputError(
                f"{run.result.run_id}: {metric} is {value} in predictions.parquet, {recorded} in result.json",
                expected="files of one and the same run",
                hint="delete the folder of the run and run it again",
            )
    return functions
