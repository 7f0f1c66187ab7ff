"""Terminal output of sweeps: plan, progress, summary, and tables of means."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from datetime import timedelta

import pandas as pd
from rich.text import Text
from tqdm import tqdm

from lopgpn_exp.evaluation.shift import BUDGET, budget_curves, rank_correlations
from lopgpn_exp.evaluation.statistics import aggregate
from lopgpn_exp.measures import sort_measures
from lopgpn_exp.records import Attempt, Job
from lopgpn_exp.report.console import Console, new_table, print_table
from lopgpn_exp.report.document import Table as MarkdownTable
from lopgpn_exp.report.names import (
    find_measures,
    measure_name,
    metric_name,
    model_colors,
)

# The accuracy of a scenario in a table of means: of ID nodes as in the paper's table, of all test nodes if none is OOD
# or if edges changed, which affects all nodes.
MEAN_ACCURACY = ("id/accuracy", "test/accuracy")
DEFAULT_REPORT = ("ood/auroc",)


def print_plan(
    jobs: Sequence[Job],
    invalid: Sequence[Attempt],
    skipped_splits: Sized,
    *,
    training_seconds: Mapping[str, float | None],
) -> None:
    """Print how many runs of a sweep are left, and an estimate of how long they will take.

    Args:
        invalid: runs that cannot be started, each with its error.
        skipped_splits: runs left out because their dataset ships fewer splits.
        training_seconds: estimates for all trainings that are left, by identity.
    """
    todo = [job for job in jobs if not job.is_finished]
    total = _count(len(jobs) + len(invalid), "run")
    lines = [f"{total}: {len(jobs) - len(todo)} already done, {len(todo)} to do"]
    if todo:
        counts = f"{_count(len(training_seconds), 'training')} for {_count(len(todo), 'run')}"
        lines.append(f"{counts}; {describe_duration(list(training_seconds.values()))}")
    if len(skipped_splits):
        skipped = _count(len(skipped_splits), "run")
        lines.append(f"Further splits are left out ({skipped}): the dataset ships no more")
    if invalid:
        lines.append(f"{len(invalid)} cannot be run: {(invalid[0].error or '').splitlines()[0]}")
    Console().print("\n".join(["", *lines]))


def describe_duration(estimates: Sequence[float | None]) -> str:
    """Describe how long some trainings will take one after another; None: there is no estimate."""
    seconds = [estimate for estimate in estimates if estimate is not None]
    if not seconds:
        return "no past runs of this kind to estimate the time from"
    partly = "" if len(seconds) == len(estimates) else f" for {len(seconds)} of them, and the others unknown"
    return f"about {_format_duration(sum(seconds))} of training{partly} (judging by past runs)"


def show_progress(batches: Iterable[Sequence[Attempt]], *, total: int) -> Iterator[Attempt]:
    """Yield all attempts, and show a progress bar with the numbers of failed and remaining runs."""
    failed = 0
    with tqdm(total=total, unit="run", disable=None, dynamic_ncols=True) as bar:
        for attempts in batches:
            failed += sum(attempt.has_failed for attempt in attempts)
            bar.update(len(attempts))
            bar.set_postfix(failed=failed, left=bar.total - bar.n)
            yield from attempts


def print_summary(
    results: pd.DataFrame, attempts: Sequence[Attempt], *, report: Sequence[str] = DEFAULT_REPORT
) -> None:
    """Print the means over splits, then the runs that failed with their errors.

    Args:
        report: further metrics in the tables, as in the config.
    """
    if not results.empty:
        print_means(results, report=report)
        print_correlations(results)
    failures = [attempt for attempt in attempts if attempt.has_failed]
    if not failures:
        return
    console = Console()
    console.print(f"\n{len(failures)} failed:", style="bold red")
    printed: set[str] = set()
    for failure in failures:
        error = failure.error or ""
        reason, *advice = error.splitlines() or [""]
        lines = [f"  {failure.job.title}", f"    {reason}"]
        if error not in printed:  # advice is printed once per error
            lines += [f"    {line}" for line in advice]
        printed.add(error)
        if failure.details:
            lines.append(f"    {failure.job.folder / 'error.txt'}")
        console.print("\n".join(lines), soft_wrap=True)
    console.print("The same command tries only these again.")


def print_means(results: pd.DataFrame, *, report: Sequence[str] = DEFAULT_REPORT) -> None:
    """Print one table of means per dataset."""
    colors = model_colors(results["model"])
    for means in _mean_tables(results, report):
        table = new_table(means.columns, left=("model", "scenario"), title=means.dataset)
        for model, *cells in means.rows:
            table.add_row(Text.assemble(("● ", colors[model]), model), *cells)
        Console().print()
        print_table(table)


def print_correlations(results: pd.DataFrame) -> None:
    """Print, for shifts with several budgets, whether the uncertainty of each model grows with its error."""
    table = rank_correlations(budget_curves(results)).dropna()
    if table.empty:
        return
    measures = sort_measures(table["measure"])
    columns = ["dataset", "shift", "model", *map(measure_name, measures)]
    printed = new_table(columns, left=columns[:3], title="rank correlation of error and mean uncertainty over budgets")
    for key, group in table.groupby(columns[:3]):
        values = dict(zip(group["measure"], group["value"], strict=True))
        printed.add_row(*map(str, key), *(f"{values[m]:.2f}" if m in values else "" for m in measures))
    Console().print()
    print_table(printed)


def render_means_markdown(results: pd.DataFrame) -> str:
    """Return the tables of `print_means` as Markdown."""
    return "\n\n".join(
        f"**{means.dataset}**\n\n{MarkdownTable(means.columns, means.rows, 2).markdown()}"
        for means in _mean_tables(results)
    )


@dataclass(frozen=True)
class MeanTable:
    """Means over splits in percent on one dataset, the accuracy with its standard error."""

    dataset: str
    columns: list[str]
    rows: list[list[str]]


def _mean_tables(results: pd.DataFrame, report: Sequence[str] = DEFAULT_REPORT) -> Iterator[MeanTable]:
    means = aggregate(results).set_index(["dataset", "model", "scenario", "metric"])[["mean", "se"]].to_dict("index")
    for dataset, runs in results.groupby("dataset"):
        present = runs.columns[runs.notna().any()]
        metrics = [metric for name in report for metric in _expand_metric(name, present)]
        rows = []
        for (model, scenario), group in runs.groupby(["model", "scenario"]):
            key = (dataset, model, scenario)
            accuracies = MEAN_ACCURACY[::-1] if BUDGET in group and group[BUDGET].notna().any() else MEAN_ACCURACY
            accuracy = next(text for metric in accuracies if (text := _format_mean(means, (*key, metric))))
            cells = [_format_mean(means, (*key, metric)) for metric in metrics]
            rows.append([str(model), str(scenario), str(len(group)), accuracy, *cells])
        is_one_path = len(report) == 1 and report[0] not in metrics  # the columns are the measures
        headings = [
            measure_name(metric.rpartition("/")[2]) if is_one_path else metric_name(metric) for metric in metrics
        ]
        columns = ["model", "scenario", "runs", "accuracy", *headings]
        yield MeanTable(str(dataset), columns, rows)


def _expand_metric(name: str, present: Collection[str]) -> list[str]:
    """Return a metric or, for a path such as `ood/auroc`, one metric per measure; LConf is in no table of the paper."""
    measures = [f"{name}/{measure}" for measure in find_measures(present, name) if measure != "lconf"]
    return [name] if name in present else measures


def _format_mean(means: Mapping[Hashable, Mapping[Hashable, float]], key: tuple[Hashable, ...]) -> str:
    if key not in means:
        return ""
    mean, error = 100 * means[key]["mean"], 100 * means[key]["se"]
    with_error = str(key[-1]).endswith("accuracy") and not pd.isna(error)
    return f"{mean:.1f} ± {error:.1f}" if with_error else f"{mean:.1f}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _format_duration(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds))) if seconds >= 60 else f"{seconds:.0f} s"
