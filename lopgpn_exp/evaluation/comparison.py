"""Compare groups of runs with the first group: differences per dataset, scenario and metric, with intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from tqdm import tqdm

from lopgpn_exp.errors import InputError, nearest
from lopgpn_exp.evaluation.differences import Difference, FinishedRun, RunGroup, compute_difference
from lopgpn_exp.evaluation.metrics import split_metric
from lopgpn_exp.measures import measure_names

IMPORTANT = ("test/accuracy", "id/accuracy", "test/ece", "test/auarc", "ood/auroc")
ORDER = (
    *("test/accuracy", "id/", "ood/accuracy", "test/ece", "test/brier", "test/nll"),
    *("test/", "ood/auroc", "ood/", "change", "val"),
)
COLUMNS = (
    *("dataset", "scenario", "metric", "reference", "reference_model", "group", "model", "reference_value", "value"),
    *("difference", "low", "high", "p", "interval_over", "matched_splits", "nodes"),
)


@dataclass(frozen=True)
class ComparisonSection:
    """The comparison on one dataset and scenario: one row per metric and group, and notes on how to read them."""

    title: str
    rows: pd.DataFrame
    notes: list[str]


@dataclass(frozen=True)
class Comparison:
    """The comparison of all groups with the first; `labels` are the labels of the groups."""

    labels: list[str]
    sections: list[ComparisonSection]
    notes: list[str]

    @property
    def table(self) -> pd.DataFrame:
        """The rows of all sections."""
        return pd.concat([section.rows for section in self.sections], ignore_index=True)


def select_metrics(
    groups: Mapping[str, Sequence[FinishedRun]], *, names: Sequence[str] | None = None, every: bool = False
) -> list[str]:
    """Return the metrics to compare: the important ones, all (`every`), or those at or below the paths in `names`."""
    metrics = sorted({m for runs in groups.values() for run in runs for m in run.result.metrics}, key=_sort_key)
    if names is None:
        return [metric for metric in metrics if every or _is_important(metric)]
    for name in names:
        if not any(_is_below(metric, name) for metric in metrics):
            raise InputError(
                f"there is no metric {name!r} in these runs",
                expected="one of " + ", ".join(metrics),
                parameter="metric",
                suggestion=nearest(name, metrics) or metrics[0],
            )
    return [metric for metric in metrics if any(_is_below(metric, name) for name in names)]


def _is_important(metric: str) -> bool:
    path, measure = split_metric(metric)
    return path in IMPORTANT and measure != "lconf"


def _is_below(metric: str, path: str) -> bool:
    return metric == path or metric.startswith(f"{path.rstrip('/')}/")


def _sort_key(metric: str) -> tuple[int, str, int, str]:
    """Sort by kind of metric, then by measure, with those that are not registered last."""
    kind = next((i for i, prefix in enumerate(ORDER) if metric.startswith(prefix)), len(ORDER))
    path, measure = split_metric(metric)
    names = measure_names()
    return kind, path, names.index(measure) if measure in names else len(names), measure


def compare_groups(
    groups: Mapping[str, Sequence[FinishedRun]], metrics: Sequence[str], *, names: Sequence[str] | None = None
) -> Comparison:
    """Compare every group with the first, per dataset and scenario, and per model if a group has several.

    `groups` are runs by label; `names` are short labels for notes.
    """
    reference, *others = (
        RunGroup(label, name, runs) for (label, runs), name in zip(groups.items(), names or groups, strict=True)
    )
    by_model = any(len({run.result.model for run in runs}) > 1 for runs in groups.values())
    keys = ["dataset", "scenario", *(["model"] if by_model else [])]
    tasks: list[set[tuple[str, ...]]] = [
        {tuple(getattr(run.result, key) for key in keys) for run in runs} for runs in groups.values()
    ]
    common = sorted(tasks[0].intersection(set().union(*tasks[1:])))
    if not common:
        raise _no_overlap_error([reference, *others], keys)
    sections = []
    for task in tqdm(common, unit="table", disable=None, leave=False, delay=2):
        values = dict(zip(keys, task, strict=True))
        selected = [group.select(**values) for group in others]
        sections.append(_compare_section(" · ".join(task), reference.select(**values), selected, metrics))
    not_common = [" · ".join(task) for task in sorted(set().union(*tasks).difference(common))]
    empty = [section.title for section in sections if section.rows.empty]
    gaps = {"not compared, because a group has no runs there": not_common, "no values of these metrics": empty}
    notes = [f"{reason}: {', '.join(titles)}" for reason, titles in gaps.items() if titles]
    if len(empty) == len(sections):
        raise InputError(
            "; ".join(notes),
            expected="a metric that the compared runs have",
            parameter="metric",
            suggestion="test/accuracy",
        )
    return Comparison(list(groups), [section for section in sections if not section.rows.empty], notes)


def _no_overlap_error(groups: Sequence[RunGroup], keys: Sequence[str]) -> InputError:
    by_model = "model" in keys
    what = "dataset, scenario and model" if by_model else "dataset and scenario"
    contents = [
        f"{group.label}: {', '.join(sorted({f'{r.result.dataset} · {r.result.scenario}' for r in group.runs}))[:120]}"
        + (f" ({group.models})" if by_model else "")
        for group in groups
    ]
    return InputError(
        f"the groups have no {what} in common ({'; '.join(contents)})",
        expected=f"runs on the same {what}" + (", or one model per group" if by_model else ""),
    )


def _compare_section(
    title: str, reference: RunGroup, others: Sequence[RunGroup], metrics: Sequence[str]
) -> ComparisonSection:
    rows, notes = [], [note for group in (reference, *others) for note in _find_duplicates(group)]
    for other in others:
        if not other.runs:
            notes.append(f"{other.name} has no runs here")
            continue
        present = [m for m in metrics if reference.has_metric(m) or other.has_metric(m)]
        difference = compute_difference(reference, other, present)
        prefix = f"{other.name}: " if len(others) > 1 else ""
        notes += [prefix + note for note in difference.notes]
        rows += list(_tabulate(reference, other, present, difference))
    return ComparisonSection(title, pd.DataFrame(rows, columns=list(COLUMNS)), notes)


def _find_duplicates(group: RunGroup) -> Iterator[str]:
    counts = Counter((run.result.model, run.result.split, run.result.init) for run in group.runs)
    if duplicates := sum(count for count in counts.values() if count > 1):
        yield (
            f"{group.name}: {duplicates} runs have the same model, split and init but different settings; "
            "they are averaged"
        )


def _tabulate(
    reference: RunGroup, other: RunGroup, metrics: Sequence[str], difference: Difference
) -> Iterator[dict[str, str | float | int]]:
    means = [group.average_by_split(metrics).mean() for group in (reference, other)]
    for metric in metrics:
        values = difference.by_metric.get(metric, {})
        yield {
            "dataset": reference.runs[0].result.dataset,
            "scenario": reference.runs[0].result.scenario,
            "metric": metric,
            "reference": reference.label,
            "reference_model": reference.models,
            "group": other.label,
            "model": other.models,
            "reference_value": means[0][metric],
            "value": means[1][metric],
            **values,
            "interval_over": difference.interval_over if "low" in values else "none",
            "matched_splits": difference.splits,
            "nodes": difference.nodes,
        }
