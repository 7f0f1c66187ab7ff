"""What the results of the benchmark say, as text and tables that are generated from them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from lopgpn_exp.benchmark.benchmark_audit import WITHIN_NOISE, select_compared
from lopgpn_exp.benchmark.leaderboard import (
    ALL_DATASETS,
    MIN_COMMON,
    select_averaged,
    select_overall,
    select_summaries,
)
from lopgpn_exp.benchmark.literature import METHODS
from lopgpn_exp.benchmark.protocol_runs import list_scenarios
from lopgpn_exp.benchmark.protocols import PROTOCOLS
from lopgpn_exp.benchmark.tasks import TASKS, format_value
from lopgpn_exp.evaluation.statistics import paired_t_test
from lopgpn_exp.report.document import Block, Bullets, Heading, Paragraph, Table
from lopgpn_exp.report.names import METRIC_NAMES, NO_VALUE, dataset_name, model_name, sort_names

FOCUS = "lop_gpn"  # the method whose place in each task is described
# Pairs of methods that differ in one choice: what it is, without and with it.
CHOICES = (
    ("GAT - GCN: attention instead of fixed weights of neighbours", "gcn", "gat"),
    ("GNNSafe - GCN: energies are averaged over neighbours", "gcn", "gnnsafe"),
    ("GEBM - GCN: energies at three scales", "gcn", "gebm"),
    ("GCN, dropout - GCN: dropout during prediction", "gcn", "gcn_dropout"),
    ("GCN, ensemble - GCN: ten networks instead of one", "gcn", "gcn_ensemble"),
    # Not GPN (sym), whose hidden layer is narrower under `per_class_20`.
    ("LOP-GPN - GPN (rw): opinions are pooled instead of evidence", "gpn_rw", "lop_gpn"),
    ("EGNN, evidence - EGNN: evidence is propagated", "egnn", "egnn_evidence"),
    ("EPN-reg - EPN: two regularising losses", "epn", "epn_reg"),
    ("EPN-reg - GCN: an evidential probe on the same network", "gcn", "epn_reg"),
)
CHOICE_METRICS = (("test/accuracy", "accuracy"), ("error/auroc", "misclassification"), ("ood/auroc", "ood"))
MAX_NAMES = 4  # of methods that are named one by one
DISCLOSURES = (
    "The learning rate of GPN with 20 training nodes per class: at 1e-3 throughout, the value of Yu et al. (2025), its "
    "accuracy on CoraML was 37 %.",
    "The grid for the loss weights of EPN-reg: it was moved by a factor of ten because validation chose its edge.",
    "EGNN propagates evidence during training, not only afterwards.",
)


def describe_results(board: pd.DataFrame, audit: pd.DataFrame, by_split: pd.DataFrame) -> Iterator[Block]:
    """Yield what wins where, which choices matter, where LOP-GPN stands, and what published results hold up.

    Args:
        board: from `build_leaderboard`.
        by_split: from `average_runs`.
    """
    for name, protocol in PROTOCOLS.items():
        group = board[board["protocol"] == name]
        if group.empty:
            continue
        yield Heading(2, f"What the results say: {protocol.title}")
        yield Paragraph(protocol.description)
        yield Bullets([*_describe_winners(group), *_describe_place(group)])
        if rows := list(_compare_choices(by_split[by_split["protocol"] == name])):
            yield Paragraph(
                "What single design choices change: differences in points on common splits, averaged over datasets, "
                "with 95 % intervals over datasets. **Bold**: the interval excludes 0. These are separate tests, not "
                "corrected for their number."
            )
            yield Table(["choice", *(METRIC_NAMES[path] for path, _ in CHOICE_METRICS)], rows)
    if len(claims := list(_check_published_winners(audit))):
        yield Heading(2, "Published results and ours")
        yield Bullets(claims)
    yield Heading(2, "Choices made after test results had been seen")
    yield Bullets(DISCLOSURES)


def _describe_winners(board: pd.DataFrame) -> Iterator[str]:
    for task in TASKS:
        metric = task.metrics[0].path
        rows = board[(board["task"] == task.name) & (board["metric"] == metric)]
        if rows.empty:
            continue
        overall, by_dataset = select_overall(rows, task), _describe_datasets(rows)
        if overall.empty:
            yield f"**{task.heading}**: no method has runs on all datasets. {by_dataset}"
            continue
        is_mean = overall["dataset"].iloc[0] == ALL_DATASETS
        place = f"mean over {_name_averaged(rows)}" if is_mean else dataset_name(overall["dataset"].iloc[0])
        first = overall.head(MAX_NAMES).to_dict("records")
        top = "; ".join(_name_value(row, metric) for row in first)
        missing = sorted(set(rows["model"]) - set(overall["model"]))
        left_out = f" Left out for lack of runs: {_name_methods(missing)}." if missing else ""
        sentences = f"{_describe_ties(overall)} {by_dataset}" if is_mean else _describe_ties(overall)
        yield f"**{task.heading}**, {place}: {top}.{left_out} {sentences}"


def _name_value(row: Mapping[Any, Any], metric: str) -> str:
    return f"{model_name(row['model'])} {format_value(row['mean'], metric)}" + (" (fewer splits)" * row["is_partial"])


def _name_averaged(rows: pd.DataFrame) -> str:
    """Return the datasets that the mean over datasets is made of, with the number of splits if some are missing."""
    protocol = PROTOCOLS[rows["protocol"].iloc[0]]
    averaged = select_averaged(rows)
    splits = dict(zip(averaged["dataset"], averaged["most_splits"], strict=True))
    return ", ".join(
        dataset_name(name)
        + (f" ({splits[name]} of {protocol.splits} splits)" if splits[name] < protocol.splits else "")
        for name in sort_names(splits, protocol.datasets)
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _name_methods(models: Sequence[str]) -> str:
    return " / ".join(map(model_name, models)) if len(models) <= MAX_NAMES else f"{len(models)} methods"


def _describe_ties(rows: pd.DataFrame) -> str:
    """Return how many methods a paired test finds to be worse than the best."""
    unit = "dataset" if rows["dataset"].iloc[0] == ALL_DATASETS else "split"
    tested = rows["tied_with_best"].dropna()
    if len(tested) < 2:  # the best alone
        return f"Differences over {_count(int(rows['most_splits'].max()), unit)} are not tested."
    worse, others = int((~tested.astype(bool)).sum()), len(tested) - 1
    return f"Significantly worse than the best over {unit}s: {worse} of the {others} other methods."


def _describe_datasets(rows: pd.DataFrame) -> str:
    """Return the best method of each dataset, and how many others are significantly worse there."""
    parts = []
    summaries = select_summaries(rows[rows["dataset"] != ALL_DATASETS])
    for dataset in sort_names(summaries["dataset"], PROTOCOLS[rows["protocol"].iloc[0]].datasets):
        group = summaries[summaries["dataset"] == dataset]
        tested = group["tied_with_best"].dropna().astype(bool)
        names = " / ".join(map(model_name, group.loc[group["is_best"], "model"]))
        splits = _count(int(group["most_splits"].max()), "split")
        result = f"{(~tested).sum()} of {len(tested) - 1} others significantly worse"
        parts.append(f"{dataset_name(dataset)} {names} ({result if len(tested) > 1 else f'{splits}, not tested'})")
    return f"Best on each dataset: {'; '.join(parts)}." if parts else ""


def _describe_place(board: pd.DataFrame) -> Iterator[str]:
    parts, datasets = [], set()
    for task in TASKS:
        rows = select_overall(board, task)
        own = rows[rows["model"] == FOCUS]
        if len(own):
            value = format_value(own["mean"].iloc[0], task.metrics[0].path)
            title = task.title if task.name == "ood" else task.title.lower()
            parts.append(f"{title} {own['rank'].iloc[0]} of {len(rows)} ({value})")
            datasets |= set(own["dataset"])
    if parts:
        place = "by the mean over datasets" if ALL_DATASETS in datasets else f"on {dataset_name(min(datasets))}"
        yield f"**Where {model_name(FOCUS)} stands** (rank {place}): {', '.join(parts)}."


def _compare_choices(by_split: pd.DataFrame) -> Iterator[list[str]]:
    for title, first, second in CHOICES:
        cells = [_compare_pair(by_split, first, second, task, path) for path, task in CHOICE_METRICS]
        if any(cells):
            yield [title, *(cell or NO_VALUE for cell in cells)]


def _compare_pair(by_split: pd.DataFrame, first: str, second: str, task: str, metric: str) -> str:
    """Return the mean difference of two methods over datasets, on the splits of each that both have."""
    rows = select_summaries(by_split[(by_split["task"] == task) & (by_split["metric"] == metric)])
    table = rows.pivot(index=["dataset", "split"], columns="model", values="value")
    if not {first, second} <= set(table.columns):
        return ""
    difference = 100 * (table[second] - table[first]).dropna().groupby("dataset").mean()
    if len(difference) < MIN_COMMON:
        return ""
    test = paired_t_test(difference)
    text = f"{difference.mean():+.1f} ({test['low']:+.1f} to {test['high']:+.1f})"
    return f"**{text}**" if test["low"] > 0 or test["high"] < 0 else text


def _check_published_winners(audit: pd.DataFrame) -> Iterator[str]:
    """Yield how often a published winner is the best or tied here, and how similar the two rankings are."""
    published = audit[audit["backbone"] == "GCN"]
    compared = select_compared(published)
    if compared.empty:
        return
    share = (compared["verdict"] == WITHIN_NOISE).mean()
    yield (
        f"{100 * share:.0f} % of the {len(compared)} published values of GCNs that we have runs for are within noise. "
        "Our methods are scored by the measures of the source here."
    )
    for metric, name, units in (
        ("ood/auroc", "OOD detection", "datasets and sets of left-out classes"),
        ("error/auroc", "Misclassification", "datasets"),
    ):
        kept, winners, ranks = 0, [], []
        for _, group in published[published["metric"] == metric].groupby(["dataset", "scenario"]):
            table = group.drop_duplicates("published_as").set_index("published_as")[["published", "ours", "se"]]
            winner, known = table["published"].idxmax(), table.dropna()
            if winner not in known.index or len(known) <= len(METHODS) / 2:
                continue
            winners.append(winner)
            ranks.append(known["published"].corr(known["ours"], method="spearman"))
            ours, errors = known["ours"].to_dict(), known["se"].to_dict()
            best = max(ours, key=ours.__getitem__)
            kept += ours[best] - ours[winner] <= 2 * math.hypot(errors[best], errors[winner])
        if winners:
            top = pd.Series(winners).value_counts()
            yield (
                f"**{name}**: in {kept} of {_count(len(winners), 'setting')}, the method with the best published value "
                f"(most often {_list_counts(top)}) is within two combined standard errors of our best. Spearman's "
                f"correlation of the published ranking with ours is {pd.Series(ranks).median():.2f} (median). Settings "
                f"are {units}, of those with two splits of the published winner and of more than half of all methods."
            )


def _list_counts(counts: pd.Series) -> str:
    return ", ".join(f"{name} in {count}" for name, count in counts.head(3).items())


def describe_missing(board: pd.DataFrame) -> Sequence[str]:
    """Return for each protocol which datasets have no runs, and which methods have not all splits and scenarios."""
    lines = []
    for name, protocol in PROTOCOLS.items():
        rows = board[board["protocol"] == name]
        if rows.empty:
            lines.append(f"{protocol.title}: no runs yet.")
            continue
        absent = [dataset_name(dataset) for dataset in protocol.datasets if dataset not in set(rows["dataset"])]
        parts = [f"{protocol.title}: no runs on {', '.join(absent)}."] if absent else []
        incomplete = {dataset: _list_incomplete(rows, name, dataset) for dataset in protocol.datasets}
        parts += [f"{protocol.title}, {dataset_name(key)}: {text}." for key, text in incomplete.items() if text]
        lines += parts or [f"{protocol.title}: complete."]
    return lines


def _list_incomplete(rows: pd.DataFrame, protocol: str, dataset: str) -> str:
    """Return which methods of a protocol have fewer splits of a dataset than they should, in some or all scenarios."""
    rows = rows[rows["dataset"] == dataset]
    if rows.empty:
        return ""
    models, splits = PROTOCOLS[protocol].models, PROTOCOLS[protocol].splits
    counts = rows.groupby(["model", "scenario"])["splits"].max().unstack()
    counts = counts.reindex(index=models, columns=list_scenarios(protocol, dataset)).fillna(0).astype(int)
    incomplete: dict[str, list[str]] = {}
    for model, row in counts.iterrows():
        if row.min() < splits:
            spread = f"{row.max()} of {splits} splits"
            if row.min() < row.max():
                spread = f"{row.min()} to {spread}, depending on the scenario"
            incomplete.setdefault(spread if row.max() else "no runs", []).append(str(model))
    return "; ".join(f"{_name_methods(names)} with {state}" for state, names in incomplete.items())
