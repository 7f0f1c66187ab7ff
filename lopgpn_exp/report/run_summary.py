"""Terminal output of one run: its scores and costs, and links to its pages. Needs neither pandas nor torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.console import Group
from rich.text import Text

from lopgpn_exp.evaluation.metrics import PER_MEASURE
from lopgpn_exp.records import RunResult
from lopgpn_exp.report.console import Console, new_table
from lopgpn_exp.report.names import (
    ACCURACY,
    CALIBRATION,
    find_measures,
    measure_column,
    measure_name,
    metric_name,
)


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
    if "shift/budget" in metrics:
        removed, added = (round(metrics[f"shift/edges_{change}"]) for change in ("removed", "added"))
        console.print(f"edges removed {removed:,}, added {added:,}")
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
