"""The table at the end of a run."""

from __future__ import annotations

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


def show(result: dict[str, Any], *, title: str, folder: Path, cached: bool, mlflow_uri: str | None) -> None:
    Console(highlight=False).print(summary(result, title=title, folder=folder, cached=cached, mlflow_uri=mlflow_uri))


def summary(
    result: dict[str, Any], *, title: str, folder: Path, cached: bool, mlflow_uri: str | None
) -> RenderableType:
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
    foot = [f"{result['epochs']} epochs; {cost}; peak {result['peak_rss_mb']:.0f} MB", f"results  {folder}"]
    if mlflow_uri is not None:
        foot.append(f"browse   mlflow ui --backend-store-uri {mlflow_uri}")
    if cached:
        foot.append("This run was finished before: force=true runs it again.")
    head = Text(title, style="bold")
    return Group("", head, Text(line), "", table, "", *(Text(text, overflow="fold") for text in foot))
