"""What a sweep shows: the plan before, a bar meanwhile, the table after."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text
from tqdm import tqdm

from lopgpn_exp.report.aggregate import aggregate
from lopgpn_exp.report.document import Table as Markdown
from lopgpn_exp.report.names import MEASURE_NAMES, model_colors

# Accuracy (of ID nodes, as in the paper's table, where a scenario has OOD ones), then AUC-ROC by measure.
ACCURACY = ("id/accuracy", "test/accuracy")
WIDEST = 1000  # columns of a terminal
AUROC = {f"ood/auroc/{measure}": MEASURE_NAMES[measure] for measure in ("tu", "au", "eu", "eu_pc", "eu_so")}


def show_plan(
    jobs: Sequence[Any], impossible: Sequence[Any], beyond: Sequence[Any], *, trainings: int, history: pd.DataFrame
) -> None:
    """How much there is to do, and how long runs of the same kind took before."""
    todo = [job for job in jobs if not job.done]
    lines = [f"{len(jobs) + len(impossible)} runs: {len(jobs) - len(todo)} already done, {len(todo)} to do"]
    if todo:
        lines.append(f"{trainings} trainings serve the {len(todo)} runs; {estimate(todo, history)}")
    if beyond:
        lines.append(f"Further splits are left out, {len(beyond)} runs: the data brings one of its own.")
    if impossible:
        lines.append(f"{len(impossible)} cannot be run: {impossible[0].error.splitlines()[0]}")
    Console(highlight=False).print("\n".join(["", *lines]))


def estimate(todo: Sequence[Any], history: pd.DataFrame) -> str:
    """Time of the trainings to do, one after the other, by past runs of the same model and dataset."""
    if history.empty:
        return "no past runs to estimate the time from"
    past = history.groupby(["model", "dataset"])["seconds/train"].mean()
    kinds = {job.training_id: job.kind[:2] for job in todo}
    known = [past[kind] for kind in kinds.values() if kind in past.index]
    if not known:
        return "no past runs of this kind to estimate the time from"
    of_known = "" if len(known) == len(kinds) else f" for {len(known)} of them, and the others unknown"
    return f"about {_duration(sum(known))} of training{of_known} (from {len(history)} past runs)"


class SweepBar:
    """Finished, failed, left, and time left."""

    def __init__(self, total: int) -> None:
        self.bar = tqdm(total=total, unit="run", disable=None, dynamic_ncols=True)
        self.failed = 0

    def __enter__(self) -> SweepBar:
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.close()

    def advance(self, attempts: Sequence[Any]) -> None:
        self.failed += sum(attempt.error is not None for attempt in attempts)
        self.bar.update(len(attempts))
        self.bar.set_postfix(failed=self.failed, left=self.bar.total - self.bar.n)


def show_page(page: Path) -> None:
    Console(highlight=False).print(f"\npage     {page}", soft_wrap=True, markup=False)


def show_outcome(results: pd.DataFrame, attempts: Sequence[Any]) -> None:
    """Means over splits, then what failed and why."""
    console = Console(highlight=False)
    if not results.empty:
        show_means(results)
    failures = [attempt for attempt in attempts if attempt.error is not None]
    if failures:
        console.print(f"\n{len(failures)} failed:", style="bold red")
        told: set[str] = set()
        for failure in failures:
            reason, *advice = failure.error.splitlines()
            lines = [f"  {failure.job.title}", f"    {reason}"]
            if failure.error not in told:  # once is enough
                lines += [f"    {line}" for line in advice]
            told.add(failure.error)
            if failure.details:
                lines.append(f"    {failure.job.folder / 'error.txt'}")
            console.print("\n".join(lines), soft_wrap=True, markup=False)
        console.print("The same command runs just these again.")


def show_means(results: pd.DataFrame) -> None:
    colors = model_colors(results["model"])
    for means in mean_tables(results):
        table = Table(title=means.dataset, title_justify="left", box=None, padding=(0, 1), header_style="bold")
        for name in means.columns:
            table.add_column(name, justify="left" if name in ("model", "scenario") else "right", no_wrap=True)
        for model, *cells in means.rows:
            table.add_row(Text.assemble(("● ", colors[model]), model), *cells)
        width = Console(width=WIDEST).measure(table).maximum  # a line too long can be read, one cut short cannot
        Console(highlight=False, width=width).print("", table, sep="\n")


def means_markdown(results: pd.DataFrame) -> str:
    """The same tables for a description."""
    return "\n\n".join(f"**{m.dataset}**\n\n{Markdown(m.columns, m.rows, 2).markdown()}" for m in mean_tables(results))


@dataclass(frozen=True)
class Means:
    """Of one dataset, in percent: means over splits, accuracy with its standard error."""

    dataset: str
    columns: list[str]
    rows: list[list[str]]


def mean_tables(results: pd.DataFrame) -> Iterator[Means]:
    means = aggregate(results).set_index(["dataset", "model", "scenario", "metric"])
    for dataset, of_dataset in results.groupby("dataset"):
        columns = {key: name for key, name in AUROC.items() if of_dataset.get(key, pd.Series()).notna().any()}
        rows = []
        for (model, scenario), group in of_dataset.groupby(["model", "scenario"]):
            at = (dataset, model, scenario)
            accuracy = next(text for key in ACCURACY if (text := _cell(means, (*at, key))))
            cells = [_cell(means, (*at, metric)) for metric in columns]
            rows.append([str(model), str(scenario), str(len(group)), accuracy, *cells])
        yield Means(str(dataset), ["model", "scenario", "runs", "accuracy", *columns.values()], rows)


def _cell(means: pd.DataFrame, key: tuple[Any, ...]) -> str:
    if key not in means.index:
        return ""
    mean, error = 100 * means.loc[key, "mean"], 100 * means.loc[key, "se"]
    with_error = key[-1].endswith("accuracy") and not pd.isna(error)
    return f"{mean:.1f} ± {error:.1f}" if with_error else f"{mean:.1f}"


def _duration(seconds: float) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(seconds)) if seconds >= 60 else f"{seconds:.0f} s"
