"""Two or more groups of runs against the first of them: differences, and how sure they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from string import ascii_uppercase
from typing import Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from lopgpn_exp.errors import InputError, nearest
from lopgpn_exp.report.aggregate import metric_columns, paired, student
from lopgpn_exp.report.comparison.over_nodes import over_nodes
from lopgpn_exp.report.names import MEASURE_NAMES

MEASURES = tuple(MEASURE_NAMES)
IMPORTANT = (
    *("test/accuracy", "id/accuracy", "test/ece"),
    *(f"{path}/{m}" for path in ("test/auarc", "ood/auroc") for m in MEASURES if m != "lconf"),
)
ORDER = (
    *("test/accuracy", "id/", "ood/accuracy", "test/ece", "test/brier", "test/nll"),
    *("test/", "ood/auroc", "ood/", "change", "val"),
)
KEYS = ("model", "dataset", "scenario", "split", "init", "run_id", "folder")
LONGEST_HEAD = 18
COLUMNS = (
    *("dataset", "scenario", "metric", "reference", "reference_model", "side", "model", "reference_value", "value"),
    *("difference", "low", "high", "p", "interval_over", "matched_splits", "nodes"),
)


@dataclass(frozen=True)
class Group:
    """One side of a comparison: a label, a row a run, and the head of its column."""

    label: str
    runs: pd.DataFrame
    head: str

    def part(self, dataset: str, scenario: str, model: str | None) -> Group:
        wanted = (self.runs["dataset"] == dataset) & (self.runs["scenario"] == scenario)
        return replace(self, runs=self.runs[wanted & ((self.runs["model"] == model) | (model is None))])

    def by_split(self, metrics: Sequence[str]) -> pd.DataFrame:
        """Initialisations of one split share its data, so they are averaged first."""
        return self.runs.groupby("split")[list(metrics)].mean()

    @property
    def models(self) -> str:
        return "+".join(sorted(set(self.runs["model"])))


@dataclass(frozen=True)
class Cell:
    """What is compared on one dataset and scenario: a row a metric and side, and what to know of them."""

    title: str
    rows: pd.DataFrame
    notes: list[str]


@dataclass(frozen=True)
class Comparison:
    labels: list[str]
    heads: list[str]
    cells: list[Cell]
    notes: list[str]

    @property
    def table(self) -> pd.DataFrame:
        return pd.concat([cell.rows for cell in self.cells], ignore_index=True)


@dataclass
class Difference:
    """Between two groups, by metric: `difference` and, where there is one, `low`, `high` and `p`."""

    interval_over: str = "none"
    by_metric: dict[str, dict[str, float]] = field(default_factory=dict)
    splits: int = 0
    nodes: int = 0
    notes: list[str] = field(default_factory=list)


def groups_of(sides: Mapping[str, Sequence[dict[str, Any]]]) -> list[Group]:
    """Results of runs, as their files have them, by the label of their side. Long labels get a letter for a head."""
    letters = [ascii_uppercase[i % 26] + "'" * (i // 26) for i in range(len(sides))]
    heads = list(sides) if max(map(len, sides)) <= LONGEST_HEAD else letters
    return [
        Group(label, pd.DataFrame([{key: run[key] for key in KEYS} | run["metrics"] for run in runs]), head)
        for head, (label, runs) in zip(heads, sides.items(), strict=True)
    ]


def chosen_metrics(groups: Sequence[Group], *, names: Sequence[str] | None = None, every: bool = False) -> list[str]:
    """The important metrics, all, or the named ones; a path stands for everything below it."""
    known = sorted({metric for each in groups for metric in metric_columns(each.runs)}, key=_place)
    if names is None:
        return [metric for metric in known if every or metric in IMPORTANT]
    for name in names:
        if not any(_below(metric, name) for metric in known):
            near = nearest(name, known)
            raise InputError(
                f"there is no metric {name!r} in these runs",
                expected="one of " + ", ".join(known),
                hint=f"--metric {near}" if near else "--all",
            )
    return [metric for metric in known if any(_below(metric, name) for name in names)]


def _below(metric: str, path: str) -> bool:
    return metric == path or metric.startswith(f"{path.rstrip('/')}/")


def _place(metric: str) -> tuple[int, str, int]:
    """Where a metric stands: kinds in their order, measures in theirs."""
    at = next((i for i, path in enumerate(ORDER) if metric.startswith(path)), len(ORDER))
    path, _, measure = metric.rpartition("/")
    return (at, path, MEASURES.index(measure)) if measure in MEASURES else (at, metric, 0)


def compare_groups(groups: Sequence[Group], metrics: Sequence[str]) -> Comparison:
    """Every group against the first, per dataset and scenario; model by model if a group mixes models."""
    reference, *others = groups
    mixed = any(each.runs["model"].nunique() > 1 for each in groups)
    keys = ["dataset", "scenario", *(["model"] if mixed else [])]
    places = [set(each.runs[keys].itertuples(index=False, name=None)) for each in groups]
    shared = sorted(places[0] & set.union(*places[1:]))
    alone = sorted(set.union(*places) - set(shared))
    if not shared:
        raise _nothing_shared(groups, mixed)
    cells = []
    for place in tqdm(shared, unit="table", disable=None, leave=False, delay=2):
        at = (*place, None) if not mixed else place
        here = [each.part(*at) for each in others]
        cells.append(_cell(" · ".join(place), reference.part(*at), here, metrics))
    without = [cell.title for cell in cells if cell.rows.empty]
    notes = [
        f"{why}: {', '.join(names)}"
        for why, names in (
            ("not compared, for want of runs on both sides", [" · ".join(place) for place in alone]),
            ("without any of these metrics", without),
        )
        if names
    ]
    if len(without) == len(cells):
        raise InputError("; ".join(notes), expected="a metric that the compared runs have", hint="--all")
    cells = [cell for cell in cells if not cell.rows.empty]
    return Comparison([each.label for each in groups], [each.head for each in groups], cells, notes)


def _nothing_shared(groups: Sequence[Group], mixed: bool) -> InputError:
    what = "dataset, scenario and model" if mixed else "dataset and scenario"
    has = [
        f"{each.label}: {', '.join(sorted(set(each.runs['dataset'] + ' · ' + each.runs['scenario'])))[:120]}"
        + (f" ({each.models})" if mixed else "")
        for each in groups
    ]
    return InputError(
        f"the sides share no {what} ({'; '.join(has)})",
        expected=f"runs on the same {what}" + (", or one model a side" if mixed else ""),
        hint="model=lop_gpn,dataset=cora_ml model=gkde,dataset=cora_ml",
    )


def _cell(title: str, reference: Group, others: Sequence[Group], metrics: Sequence[str]) -> Cell:
    rows, notes = [], [note for each in (reference, *others) for note in _doubles(each)]
    for other in others:
        if other.runs.empty:
            notes.append(f"{other.head} has no runs here")
            continue
        present = [
            m for m in metrics if any(m in each.runs and each.runs[m].notna().any() for each in (reference, other))
        ]
        found = _difference(_with(reference, present), _with(other, present), present)
        prefix = f"{other.head}: " if len(others) > 1 else ""
        notes += [prefix + note for note in found.notes]
        rows += list(_rows(reference, other, present, found))
    return Cell(title, pd.DataFrame(rows, columns=list(COLUMNS)), notes)


def _with(side: Group, metrics: Sequence[str]) -> Group:
    """Metrics that no run of a side has are there as missing ones: a side without a measure is compared in the rest."""
    return replace(side, runs=side.runs.reindex(columns=list(dict.fromkeys([*side.runs.columns, *metrics]))))


def _doubles(side: Group) -> Iterator[str]:
    doubled = int(side.runs.duplicated(["model", "split", "init"], keep=False).sum())
    if doubled:
        yield f"{side.head}: {doubled} runs share model, split and init with another that has other settings; averaged"


def _rows(
    reference: Group, other: Group, metrics: Sequence[str], found: Difference
) -> Iterator[dict[str, str | float | int]]:
    means = [_with(each, metrics).by_split(metrics).mean() for each in (reference, other)]
    first = reference.runs.iloc[0]
    for metric in metrics:
        yield {
            "dataset": first["dataset"],
            "scenario": first["scenario"],
            "metric": metric,
            "reference": reference.label,
            "reference_model": reference.models,
            "side": other.label,
            "model": other.models,
            "reference_value": means[0][metric],
            "value": means[1][metric],
            **found.by_metric.get(metric, {}),
            "interval_over": found.interval_over if "low" in found.by_metric.get(metric, {}) else "none",
            "matched_splits": found.splits,
            "nodes": found.nodes,
        }


def _difference(reference: Group, other: Group, metrics: Sequence[str]) -> Difference:
    """The surest there is: over test nodes of two runs, over matched splits, over unmatched ones, or a bare number."""
    first, second = (each.by_split(metrics) for each in (reference, other))
    matched = sorted(set(first.index) & set(second.index))
    if matched and len(reference.runs) == len(other.runs) == 1:
        values, nodes, notes = over_nodes(reference.runs.iloc[0], other.runs.iloc[0], metrics)
        return Difference("test nodes", values, splits=1, nodes=nodes, notes=notes)
    if matched:
        return _over_splits(first, second, matched, heads=(reference.head, other.head))
    if min(len(first), len(second)) > 1:
        values = {metric: welch(first[metric].dropna(), second[metric].dropna()) for metric in metrics}
        note = (
            f"no split matched: unpaired, Welch's 95 % interval over {len(first)} splits of {reference.head} "
            f"and {len(second)} of {other.head}"
        )
        return Difference("unpaired splits", {m: v for m, v in values.items() if v}, notes=[note])
    has = [f"{head} has {_splits(list(side.index))}" for head, side in ((reference.head, first), (other.head, second))]
    return Difference(notes=[f"no difference: {', '.join(has)}; it takes a split that both have, or two of each"])


def _over_splits(
    first: pd.DataFrame, second: pd.DataFrame, matched: Sequence[int], *, heads: tuple[str, str]
) -> Difference:
    differences = second.loc[matched] - first.loc[matched]
    values = {}
    for metric, column in differences.items():
        known = column.dropna()
        if len(known):
            values[metric] = {"difference": known.mean()} | (paired(known) if len(known) > 1 else {})
    left = [
        f"{_splits(rest)} of {head}"
        for head, side in zip(heads, (first, second), strict=True)
        if (rest := sorted(set(side.index) - set(matched)))
    ]
    if len(matched) == 1:
        notes = [f"one split matched ({matched[0]}): a difference without an interval"]
    else:
        notes = [f"{len(matched)} splits matched: Student's 95 % interval and p of the paired differences over them"]
    if left:
        notes.append(f"unmatched: {' and '.join(left)}; in the values of a side, not in the difference")
    return Difference("splits", values, splits=len(matched), notes=notes)


def _splits(numbers: Sequence[int]) -> str:
    return ("split " if len(numbers) == 1 else "splits ") + ", ".join(str(number) for number in numbers)


def welch(first: pd.Series, second: pd.Series) -> dict[str, float]:
    """Difference of the means of two independent samples, variances not taken as equal; empty without two of each."""
    if min(len(first), len(second)) < 2:
        return {}
    mean = second.mean() - first.mean()
    parts = np.array([first.var() / len(first), second.var() / len(second)])
    se = float(np.sqrt(parts.sum()))
    counts = np.array([len(first), len(second)])
    df = parts.sum() ** 2 / (parts**2 / (counts - 1)).sum() if se > 0 else counts.sum() - 2
    return {"difference": mean} | student(mean, se, float(df))
