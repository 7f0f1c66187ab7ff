"""What the results of the benchmark say, as text and tables that are generated from them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import pandas as pd

from lopgpn_exp.benchmark.benchmark_audit import WITHIN_NOISE, select_compared
from lopgpn_exp.benchmark.leaderboard import ALL_DATASETS, select_summaries
from lopgpn_exp.benchmark.literature import METHODS
from lopgpn_exp.benchmark.protocol_runs import list_scenarios
from lopgpn_exp.benchmark.protocols import PROTOCOLS
from lopgpn_exp.benchmark.tasks import TASKS, format_value
from lopgpn_exp.evaluation.statistics import paired_t_test
from lopgpn_exp.report.document import Block, Bullets, Heading, Paragraph, Table
from lopgpn_exp.report.names import METRIC_NAMES, dataset_name, model_name, scenario_name

FOCUS = "lop_gpn"  # the method whose place in each task is described
# Pairs of methods that differ in one choice: what it is, without and with it.
CHOICES = (
    ("attention instead of a fixed average (GAT - GCN)", "gcn", "gat"),
    ("energies spread along edges (GNNSafe - GCN)", "gcn", "gnnsafe"),
    ("energies at three scales (GEBM - GCN)", "gcn", "gebm"),
    ("dropout at prediction (dropout - GCN)", "gcn", "gcn_dropout"),
    ("ten networks instead of one (ensemble - GCN)", "gcn", "gcn_ensemble"),
    ("pooled opinions instead of pooled evidence (LOP-GPN - GPN sym)", "gpn_sym", "lop_gpn"),
    ("GPN's random-walk instead of symmetric propagation", "gpn_sym", "gpn_rw"),
    ("evidence from logits propagated (EGNN evidence - EGNN)", "egnn", "egnn_evidence"),
    ("regularised probe (EPN-reg - EPN)", "epn", "epn_reg"),
    ("evidential probe on the same network (EPN-reg - GCN)", "gcn", "epn_reg"),
)
CHOICE_METRICS = (("test/accuracy", "accuracy"), ("error/auroc", "misclassification"), ("ood/auroc", "ood"))
MIN_DATASETS = 3  # for an interval over datasets
DISCLOSURES = (
    "The learning rate of GPN with 20 training nodes per class: with the 1e-3 of Yu et al. (2025) throughout, it had "
    "37 % accuracy on CoraML.",
    "The grid of weights of EPN-reg, which was moved by a decade because validation chose its edge.",
    "That EGNN propagates evidence in training, not after it.",
)


def describe_results(board: pd.DataFrame, audit: pd.DataFrame) -> Iterator[Block]:
    """Yield what wins where, which choices matter, where LOP-GPN stands, and what published results hold up."""
    for name, protocol in PROTOCOLS.items():
        group = board[board["protocol"] == name]
        if group.empty:
            continue
        yield Heading(2, f"What the results say: {protocol.title}")
        yield Paragraph(protocol.description)
        yield Bullets([*_describe_winners(group), *_describe_place(group)])
        if rows := list(_compare_choices(group)):
            yield Paragraph(
                "Which choices matter: differences in points, with 95 % intervals over datasets. **Bold**: the "
                "interval excludes 0. These are separate tests, without a correction for their number."
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
        rows = _summary_rows(board, task.name, metric)
        if rows.empty:
            continue
        best = rows.iloc[0]
        has_many = best["dataset"] == ALL_DATASETS
        place = f"mean over {best['splits']} datasets" if has_many else dataset_name(best["dataset"])
        first = rows.head(4).to_dict("records")
        top = "; ".join(f"{model_name(row['model'])} {format_value(row['mean'], metric)}" for row in first)
        yield f"**{task.title}** ({METRIC_NAMES[metric]}, {place}): {top}. {_describe_ties(rows)}"


def _describe_ties(rows: pd.DataFrame) -> str:
    """Return how many methods a paired test separates from the best."""
    best, unit = rows.iloc[0], "datasets" if rows.iloc[0]["dataset"] == ALL_DATASETS else "splits"
    if best["splits"] < MIN_DATASETS:
        return f"With fewer than {MIN_DATASETS} {unit}, differences are not tested here."
    tested = rows.iloc[1:].query("splits > 1")
    worse = int((~tested["tied_with_best"]).sum())
    return f"{worse} of the {len(tested)} other methods are significantly worse than the best."


def _describe_place(board: pd.DataFrame) -> Iterator[str]:
    parts = []
    for task in TASKS:
        rows = _summary_rows(board, task.name, task.metrics[0].path)
        own = rows[rows["model"] == FOCUS]
        if len(own):
            value = format_value(own["mean"].iloc[0], task.metrics[0].path)
            title = task.title if task.name == "ood" else task.title.lower()
            parts.append(f"{title} {own['rank'].iloc[0]} of {len(rows)} ({value})")
    if parts:
        yield f"**Where {model_name(FOCUS)} stands** (rank by mean over datasets): {', '.join(parts)}."


def _summary_rows(board: pd.DataFrame, task: str, metric: str) -> pd.DataFrame:
    """Return the methods in order of their mean over datasets, or on the only dataset."""
    rows = board[(board["task"] == task) & (board["metric"] == metric)]
    overall = rows[rows["dataset"] == ALL_DATASETS]
    if overall.empty and rows["dataset"].nunique() == 1:
        overall = select_summaries(rows)
    return overall.sort_values(["rank", "model"])


def _compare_choices(board: pd.DataFrame) -> Iterator[list[str]]:
    for title, first, second in CHOICES:
        cells = [_compare_pair(board, first, second, task, path) for path, task in CHOICE_METRICS]
        if any(cells):
            yield [title, *(cell or "-" for cell in cells)]


def _compare_pair(board: pd.DataFrame, first: str, second: str, task: str, metric: str) -> str:
    rows = board[(board["task"] == task) & (board["metric"] == metric) & (board["dataset"] != ALL_DATASETS)]
    table = select_summaries(rows).pivot(index="dataset", columns="model", values="mean")
    if not {first, second} <= set(table.columns):
        return ""
    difference = 100 * (table[second] - table[first]).dropna()
    if len(difference) < MIN_DATASETS:
        return ""
    test = paired_t_test(difference)
    text = f"{difference.mean():+.1f} ({test['low']:+.1f} to {test['high']:+.1f})"
    return f"**{text}**" if test["low"] > 0 or test["high"] < 0 else text


def _check_published_winners(audit: pd.DataFrame) -> Iterator[str]:
    """Yield how often a published winner is the best or tied here, and how similar the two rankings are."""
    compared = select_compared(audit[audit["backbone"] == "GCN"])
    if compared.empty:
        return
    share = (compared["verdict"] == WITHIN_NOISE).mean()
    yield (
        f"Of {len(compared)} published values (GCN), {100 * share:.0f} % are within noise of ours. Here, ours are "
        "scored by the measures of the source."
    )
    for metric, name in (("ood/auroc", "OOD detection"), ("error/auroc", "Misclassification")):
        kept, winners, ranks = 0, [], []
        for _, group in compared[compared["metric"] == metric].groupby(["dataset", "scenario"]):
            table = group.drop_duplicates("published_as").set_index("published_as")[["published", "ours", "se"]]
            if len(table) < len(METHODS) or table["se"].isna().any():
                continue
            winner, best = table["published"].idxmax(), table["ours"].idxmax()
            winners.append(winner)
            ranks.append(table["published"].corr(table["ours"], method="spearman"))
            ours, errors = table["ours"].to_dict(), table["se"].to_dict()
            kept += ours[best] - ours[winner] <= 2 * math.hypot(errors[best], errors[winner])
        if winners:
            top = pd.Series(winners).value_counts()
            yield (
                f"**{name}**: the method with the best published value ({_list_counts(top)}) is within two combined "
                f"standard errors of our best one in {kept} of {len(winners)} settings. Spearman's correlation of the "
                f"published ranking with ours is {pd.Series(ranks).median():.2f} (median over settings)."
            )


def _list_counts(counts: pd.Series) -> str:
    return ", ".join(f"{name} in {count}" for name, count in counts.head(3).items())


def describe_missing(board: pd.DataFrame) -> Sequence[str]:
    """Return for each protocol which datasets have no runs, and in which scenarios methods or splits are missing."""
    lines = []
    for name, protocol in PROTOCOLS.items():
        rows = board[board["protocol"] == name]
        if rows.empty:
            lines.append(f"{protocol.title}: no runs yet.")
            continue
        absent = [dataset_name(dataset) for dataset in protocol.datasets if dataset not in set(rows["dataset"])]
        parts = [f"no runs on {', '.join(absent)}"] if absent else []
        for dataset in protocol.datasets:
            if dataset in set(rows["dataset"]):
                parts += _list_incomplete(rows[rows["dataset"] == dataset], name, dataset)
        lines.append(f"{protocol.title}: {'; '.join(parts) or 'complete'}.")
    return lines


def _list_incomplete(rows: pd.DataFrame, protocol: str, dataset: str) -> list[str]:
    """Return how many methods have all splits, for the scenarios of a dataset in which some have not."""
    models, splits = PROTOCOLS[protocol].models, PROTOCOLS[protocol].splits
    scenarios: dict[int, list[str]] = {}
    for scenario in list_scenarios(protocol, dataset):
        by_model = rows[(rows["scenario"] == scenario) & rows["model"].isin(models)].groupby("model")["splits"].max()
        complete = int((by_model >= splits).sum())
        if complete < len(models):
            scenarios.setdefault(complete, []).append(scenario_name(scenario))
    return [
        f"{dataset_name(dataset)}: {count or 'none'} of {len(models)} methods with all {splits} splits in "
        + ", ".join(names)
        for count, names in sorted(scenarios.items(), reverse=True)
    ]
