"""The short form of the benchmark in the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from lopgpn_exp.benchmark.benchmark_audit import WITHIN_NOISE, select_compared
from lopgpn_exp.benchmark.benchmark_report import BenchmarkReport
from lopgpn_exp.benchmark.leaderboard import ALL_DATASETS, MIN_COMMON, select_summaries
from lopgpn_exp.benchmark.protocols import PROTOCOLS
from lopgpn_exp.benchmark.tasks import TASKS, format_value
from lopgpn_exp.report.console import Console, new_table, print_table
from lopgpn_exp.report.names import NO_VALUE, dataset_name, model_name


def print_leaderboard(report: BenchmarkReport, protocol: str) -> None:
    """Print the first metric of each task for all methods, in the order of OOD detection, and what the audit found."""
    board = report.board[report.board["protocol"] == protocol]
    if board.empty:
        stored = " and ".join(name for name in PROTOCOLS if (report.board["protocol"] == name).any())
        Console().print(f"There are no runs of the protocol {protocol}, only of {stored}.")
        return
    datasets = set(board["dataset"])
    place = ALL_DATASETS if ALL_DATASETS in datasets else min(datasets)
    title = dataset_name(place)
    if place == ALL_DATASETS:
        title = f"mean over {board.loc[board['dataset'] == place, 'splits'].max()} datasets"
    tasks = [task for task in TASKS if (board["task"] == task.name).any()]
    names = [task.title for task in tasks]
    table = new_table(["method", *names], left=["method"], title=f"{PROTOCOLS[protocol].title}, {title}")
    columns = {task.title: _select(board, task.name, task.metrics[0].path, place) for task in tasks}
    order = sorted(columns[names[-1]], key=lambda model: columns[names[-1]][model]["rank"])
    models = [*order, *sorted({model for column in columns.values() for model in column} - set(order))]
    for model in models:
        table.add_row(model_name(model), *(_format(columns[t.title].get(model), t.metrics[0].path) for t in tasks))
    absent = sorted(set(board["model"]) - set(models))
    units = "datasets" if place == ALL_DATASETS else "splits"
    console = Console()
    console.print()
    print_table(table)
    console.print(f"\n* best, or not significantly worse than the best (tested with at least {MIN_COMMON} {units})")
    if absent:
        console.print(f"left out for lack of runs: {' / '.join(map(model_name, absent))}")
    compared = select_compared(report.audit)
    if len(compared):
        within = int((compared["verdict"] == WITHIN_NOISE).sum())
        console.print(f"{within:,} of {len(compared):,} published values are within noise of ours")
    console.print(f"{len(report.runs):,} runs")


def _select(board: pd.DataFrame, task: str, metric: str, dataset: str) -> dict[str, dict[Any, Any]]:
    """Return the rows of a dataset by model: the mean over scenarios if there are several."""
    rows = board[(board["task"] == task) & (board["metric"] == metric) & (board["dataset"] == dataset)]
    return {row["model"]: row for row in select_summaries(rows).to_dict("records")}


def _format(row: Mapping[Any, Any] | None, metric: str) -> str:
    if row is None:
        return NO_VALUE
    text = format_value(row["mean"], metric)
    return f"{text} *" if row["is_best"] or row["tied_with_best"] else f"{text}  "
