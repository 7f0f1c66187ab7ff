"""Terminal output of runs and sweeps: the summary of a run, the plan, progress and summary of a sweep."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pandas as pd
from rich.console import Group
from rich.text import Text
from tqdm import tqdm

from lopgpn_exp.errors import printable
from lopgpn_exp.evaluation.metrics import PER_MEASURE
from lopgpn_exp.evaluation.statistics import aggregate
from lopgpn_exp.records import Attempt, Job, RunResult
from lopgpn_exp.report.console import Console, Table
from lopgpn_exp.report.document import Table as MarkdownTable
from lopgpn_exp.report.names import (
    ACCURACY,
    CALIBRATION,
    find_measures,
    measure_column,
    measure_name,
    metric_name,
    model_colors,
)

# The accuracy of a scenario in a table of means: of ID nodes as in the paper's table, of all test nodes if none is OOD.
MEAN_ACCURACY = ("id/accuracy", "test/accuracy")
UNLIMITED = 1000  # columns: more than any table needs


def new_table(columns: Sequence[str], *, left: Collection[str], title: str = "", padding: int = 1) -> Table:
    """Return an empty table without borders. The columns named in `left` are aligned left, the others right."""
    table = Table(
        title=Text(printable(title)) if title else None,
        title_justify="left",
        box=None,
        padding=(0, padding),
        header_style="bold",
    )
    for column in columns:
        table.add_column(Text(printable(column)), justify="left" if column in left else "right")
    return table


def print_table(table: Table) -> None:
    """Print a table at its full width: long lines are readable in a narrow terminal, truncated cells are not."""
    width = Console(width=UNLIMITED).measure(table).maximum
    Console(width=width).print(table)


def print_run(result: RunResult, *, folder: Path, cached: bool) -> None:
    """Print the scores of a run, one row per measure, its costs, and where its files are."""
    console, metrics = Console(), result.metrics
    console.print(f"\n{result.title}", style="bold")
    separator = "\n" if "ood/accuracy" in metrics else "  "  # all scores in one line if they fit
    scores = (
        "  ".join(f"{metric_name(key)} {metrics[key]:.4f}" for key in keys if key in metrics)
        for keys in (ACCURACY, CALIBRATION)
    )
    console.print(separator.join(scores))
    paths = [path for path in PER_MEASURE if find_measures(metrics, path)]
    table = new_table(["measure", *map(measure_column, paths)], left=["measure"], padding=2)
    for measure in find_measures(result.curves, "arc"):
        values = [metrics.get(f"{path}/{measure}") for path in paths]
        table.add_row(Text(measure_name(measure)), *("" if value is None else f"{value:.4f}" for value in values))
    console.print(Group("", table, ""))
    durations = ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in result.seconds.items())
    lines = [f"{result.epochs} epochs; {durations}; peak {result.peak_rss_mb:.0f} MB", f"results  {folder}"]
    if (folder / "page.html").is_file():  # runs of earlier versions have none
        lines.append(f"page     {folder / 'page.html'}")
    if cached:
        lines.append("This run had finished before; the stored results are shown.")
    for line in lines:
        console.print(Text(line, overflow="fold"))


def print_links(links: Mapping[str, str], *, ui: str | None, page: Path | None = None) -> None:
    """Print where the page of a sweep and the MLflow dashboards are.

    Args:
        links: addresses by the names of the dashboards.
        ui: the command that serves them, if no server is running.
    """
    lines = [] if page is None else ["", f"page     {page}"]
    if links:
        lines.append(f"browse   {ui}, then" if ui else "browse   the dashboards")
    width = max(map(len, links), default=0)
    lines += [f"  {name:{width}}  {address}" for name, address in links.items()]
    if lines:
        Console().print(*lines, sep="\n", soft_wrap=True)


def print_plan(
    jobs: Sequence[Job], invalid: Sequence[Attempt], skipped_splits: Sized, *, trainings: int, history: pd.DataFrame
) -> None:
    """Print how many runs of a sweep are left, and an estimate of how long they will take.

    Args:
        invalid: runs that cannot be started, each with its error.
        skipped_splits: runs left out because their dataset ships a single split.
        history: finished runs, as returned by `load_results`.
    """
    todo = [job for job in jobs if not job.is_finished]
    total = _count(len(jobs) + len(invalid), "run")
    lines = [f"{total}: {len(jobs) - len(todo)} already done, {len(todo)} to do"]
    if todo:
        counts = f"{_count(trainings, 'training')} for {_count(len(todo), 'run')}"
        lines.append(f"{counts}; {estimate_duration(todo, history)}")
    if len(skipped_splits):
        skipped = _count(len(skipped_splits), "run")
        lines.append(f"Further splits are left out ({skipped}): the dataset ships a single split")
    if invalid:
        lines.append(f"{len(invalid)} cannot be run: {(invalid[0].error or '').splitlines()[0]}")
    Console().print("\n".join(["", *lines]))


def estimate_duration(todo: Sequence[Job], history: pd.DataFrame) -> str:
    """Describe how long the trainings will take one after another, judging by past runs of each model and dataset."""
    if history.empty:
        return "no past runs to estimate the time from"
    past = history.groupby(["model", "dataset"])["seconds/train"].mean()
    kinds = {job.training_id: (job.model, job.dataset) for job in todo}
    seconds = [past[kind] for kind in kinds.values() if kind in past.index]
    if not seconds:
        return "no past runs of this kind to estimate the time from"
    partly = "" if len(seconds) == len(kinds) else f" for {len(seconds)} of them, and the others unknown"
    return f"about {_format_duration(sum(seconds))} of training{partly} (from {len(history)} past runs)"


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
