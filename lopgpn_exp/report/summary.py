"""The table at the end of a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from lopgpn_exp.report.names import MEASURE_NAMES

SCORES = {
    "test/accuracy": "accuracy",
    "id/accuracy": "ID",
    "ood/accuracy": "OOD",
    "test/brier": "Brier",
    "test/ece": "ECE",
    "test/nll": "NLL",
}
COLUMNS = {
    "test/auarc": "AUARC",
    "ood/auroc": "OOD AUC-ROC",
    "ood/aupr": "OOD AUPR",
    "ood/fpr95": "OOD FPR95",
    "change": "OOD change",
}


def show(result: dict[str, Any], *, title: str, folder: Path, cached: bool) -> None:
    Console(highlight=False).print(summary(result, title=title, folder=folder, cached=cached))


def summary(result: dict[str, Any], *, title: str, folder: Path, cached: bool) -> RenderableType:
    """Accuracy and calibration in a line, one row a measure, where it lies and what to type next."""
    metrics = result["metrics"]
    line = "  ".join(f"{name} {metrics[key]:.4f}" for key, name in SCORES.items() if key in metrics)
    table = Table(box=None, padding=(0, 2), header_style="bold")
    columns = {prefix: name for prefix, name in COLUMNS.items() if f"{prefix}/tu" in metrics}
    table.add_column("measure")
    for name in columns.values():
        table.add_column(name, justify="right")
    for measure, name in MEASURE_NAMES.items():
        if f"test/auarc/{measure}" in metrics:
            values = [metrics.get(f"{prefix}/{measure}") for prefix in columns]
            table.add_row(name, *("" if value is None else f"{value:.4f}" for value in values))
    seconds = result["seconds"]
    cost = ", ".join(f"{phase} {seconds[phase]:.1f} s" for phase in seconds)
    foot = [f"{result['epochs']} epochs; {cost}; peak {result['peak_rss_mb']:.0f} MB"]
    foot.append(f"results  {folder}")
    if (folder / "page.html").is_file():  # a run of an earlier version has none
        foot.append(f"page     {folder / 'page.html'}")
    if cached:
        foot.append("This run was finished before: force=true runs it again.")
    head = Text(title, style="bold")
    return Group("", head, Text(line), "", table, "", *(Text(text, overflow="fold") for text in foot))


def show_links(links: Mapping[str, str], *, ui: str | None) -> None:
    """The dashboards' addresses; `ui` is the command that serves them where no server does yet."""
    lines = ["browse   " + (f"{ui}, then" if ui else "the dashboards")] if links else []
    width = max(map(len, links), default=0)
    lines += [f"  {name:{width}}  {address}" for name, address in links.items()]
    Console(highlight=False).print(*lines, sep="\n", soft_wrap=True, markup=False)
