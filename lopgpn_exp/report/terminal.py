"""Terminal output of sweeps: plan, progress, summary, and tables of means."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from datetime import timedelta

import pandas as pd
from rich.text import Text
from tqdm import tqdm

from lopgpn_exp.evaluation.statistics import aggregate
from lopgpn_exp.records import Attempt, Job
from lopgpn_exp.report.console import Console, new_table, print_table
from lopgpn_exp.report.document import Table as MarkdownTable
from lopgpn_exp.report.names import (
    find_measures,
    measure_name,
    model_colors,
)

# The accuracy of a scenario in a table of means: of ID nodes as in the paper's table, of all test nodes if none is OOD.
MEAN_ACCURACY = ("id/accuracy", "test/accuracy")


def print_plan(
    jobs: Sequence[Job],
    invalid: Sequence[Attempt],
    skipped_splits: Sized,
    *,
    trainings: int,
    past_seconds: Mapping[tuple[str, str], float],
) -> None:
    """Print how many runs of a sweep are left, and an estimate of how long they will take.

    Args:
        invalid: runs that cannot be started, each with its error.
        skipped_splits: runs left out because their dataset ships a single split.
        past_seconds: mean of past trainings by model and dataset.
    """
    todo = [job for job in jobs if not job.is_finished]
    total = _count(len(jobs) + len(invalid), "run")
    lines = [f"{total}: {len(jobs) - len(todo)} already done, {len(todo)} to do"]
    if todo:
        counts = f"{_count(trainings, 'training')} for {_count(len(todo), 'run')}"
        lines.append(f"{counts}; {estimate_duration(todo, past_seconds)}")
    if len(skipped_splits):
        skipped = _count(len(skipped_splits), "run")
        lines.append(f"Further splits are left out ({skipped}): the dataset ships a single split")
    if invalid:
        lines.append(f"{len(invalid)} cannot be run: {(invalid[0].error or '').splitlines()[0]}")
    Console().print("\n".join(["", *lines]))


def estimate_duration(todo: Sequence[Job], past_seconds: Mapping[tuple[str, str], float]) -> str:
    """Describe how long the trainings will take one after another, judging by past runs of each model and dataset."""
    kinds = {job.training_id: (job.model, job.dataset) for job in todo}
    seconds = [past_seconds[kind] for kind in kinds.values() if kind in past_seconds]
    if not seconds:
        return "no past runs of this kind to estimate the time from"
    partly = "" if len(seconds) == len(kinds) else f" for {len(seconds)} of them, and the others unknown"
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


def print_summary(results: pd.DataFrame, attempts: Sequence[Attempt]) -> None:
    """Print the means over splits, then the runs that failed with their errors."""
    if not results.empty:
        print_means(results)
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


def print_means(results: pd.DataFrame) -> None:
    """Print one table of means per dataset."""
    colors = model_colors(results["model"])
    for means in _mean_tables(results):
        table = new_table(means.columns, left=("model", "scenario"), title=means.dataset)
        for model, *cells in means.rows:
            table.add_row(Text.assemble(("● ", colors[model]), model), *cells)
        Console().print()
        print_table(table)


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


def _mean_tables(results: pd.DataFrame) -> Iterator[MeanTable]:
    means = aggregate(results).set_index(["dataset", "model", "scenario", "metric"])[["mean", "se"]].to_dict("index")
    for dataset, runs in results.groupby("dataset"):
        present = runs.columns[runs.notna().any()]
        measures = [measure for measure in find_measures(present, "ood/auroc") if measure != "lconf"]
        rows = []
        for (model, scenario), group in runs.groupby(["model", "scenario"]):
            key = (dataset, model, scenario)
            accuracy = next(text for metric in MEAN_ACCURACY if (text := _format_mean(means, (*key, metric))))
            cells = [_format_mean(means, (*key, f"ood/auroc/{measure}")) for measure in measures]
            rows.append([str(model), str(scenario), str(len(group)), accuracy, *cells])
        columns = ["model", "scenario", "runs", "accuracy", *map(measure_name, measures)]
        yield MeanTable(str(dataset), columns, rows)


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
