"""Write the files of the benchmark from its stored runs. The same runs give the same files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from lopgpn_exp.benchmark.benchmark_audit import (
    DIFFERS,
    WITHIN_NOISE,
    audit_benchmark,
    count_verdicts,
    select_compared,
)
from lopgpn_exp.benchmark.benchmark_runs import load_benchmark
from lopgpn_exp.benchmark.findings import describe_missing, describe_results
from lopgpn_exp.benchmark.leaderboard import (
    ALL_DATASETS,
    COLUMNS,
    MIN_COMMON,
    average_runs,
    build_leaderboard,
    select_summaries,
)
from lopgpn_exp.benchmark.leaderboard_figures import draw_costs, draw_win_rates
from lopgpn_exp.benchmark.leaderboard_page import build_page, name_column
from lopgpn_exp.benchmark.literature import FLAWS, RUNS
from lopgpn_exp.benchmark.protocols import PROTOCOLS
from lopgpn_exp.benchmark.tasks import TASKS, format_value
from lopgpn_exp.report.document import Block, Bullets, Heading, Paragraph, Picture, Table, to_html, to_markdown
from lopgpn_exp.report.figures import figure_to_svg, save_figure
from lopgpn_exp.report.names import METRIC_NAMES, NO_VALUE, dataset_name, model_name, scenario_name, sort_names

DECIMALS = 6  # of the values in CSV files
LEGEND = (
    "Means ± standard errors over splits, or over datasets. **Bold**: the best; *: not significantly worse. (2): "
    "only 2 splits; †: fewer splits than other methods on a dataset; ranked on common splits. "
    f"With fewer than {MIN_COMMON} common splits (or datasets), methods are not tested."
)


@dataclass(frozen=True)
class BenchmarkReport:
    """A report that was written: its runs, the leaderboard and the audit."""

    folder: Path
    runs: pd.DataFrame
    board: pd.DataFrame
    audit: pd.DataFrame

    @property
    def main_files(self) -> list[Path]:
        return [self.folder / name for name in ("leaderboard.html", "leaderboard.csv", "audit.html", "runs.parquet")]


def write_benchmark_report(folder: Path, *, runs_file: Path | None = None, figures: bool = True) -> BenchmarkReport:
    """Write leaderboard, audit, page and figures.

    Args:
        runs_file: `runs.parquet`; by default the one in the folder.
        figures: whether to save the figures in files of their own, which takes longest.
    """
    runs = load_benchmark(runs_file or folder / "runs.parquet")
    folder.mkdir(parents=True, exist_ok=True)
    board, audit = build_leaderboard(runs), audit_benchmark(runs)
    board[list(COLUMNS)].round({"mean": DECIMALS, "se": DECIMALS}).to_csv(folder / "leaderboard.csv", index=False)
    audit.round(4).to_csv(folder / "audit.csv", index=False)
    pictures = _draw_pictures(board, runs, folder, save=figures)
    summary = [
        *describe_results(board, audit, average_runs(runs)),
        Heading(2, "Not finished"),
        Bullets(describe_missing(board)),
    ]
    page = build_page(board, runs, summary=summary, figures=pictures, folder=folder)
    (folder / "leaderboard.html").write_text(page)
    document = [Heading(1, "Leaderboard"), *summary, *pictures, *_tabulate(board)]
    (folder / "leaderboard.md").write_text(to_markdown(document))
    blocks = list(build_audit_document(audit))
    (folder / "audit.md").write_text(to_markdown(blocks))
    (folder / "audit.html").write_text(to_html("Audit of the benchmark", blocks))
    return BenchmarkReport(folder, runs, board, audit)


def _draw_pictures(board: pd.DataFrame, runs: pd.DataFrame, folder: Path, *, save: bool) -> list[Picture]:
    pictures = []
    for protocol in [name for name in PROTOCOLS if (runs["protocol"] == name).any()]:
        title = PROTOCOLS[protocol].title
        chosen = runs[runs["protocol"] == protocol]
        drawings = {
            f"wins_{protocol}": (
                draw_win_rates(chosen, protocol),
                f"{title}: how often a method beats another one on the same split. Small dots: single datasets. "
                "Diamonds: their mean, hollow for methods that lack some of the datasets, scenarios or splits.",
            ),
        }
        if "cpu_seconds/train" in chosen and chosen["cpu_seconds/train"].notna().any():
            drawn = draw_costs(board, chosen, protocol)
            means = ", means over datasets" if chosen["dataset"].nunique() > 1 else ""
            drawings[f"costs_{protocol}"] = (drawn, f"{title}: quality and cost of training{means}.")
        for name, (figure, caption) in drawings.items():
            if save:
                save_figure(figure, folder, name)
            pictures.append(Picture(f"{name}.png", caption, figure_to_svg(figure)))
    return pictures


def _tabulate(board: pd.DataFrame) -> Iterator[Block]:
    """Yield one table per protocol and task: methods by row, datasets by column."""
    for protocol in [name for name in PROTOCOLS if (board["protocol"] == name).any()]:
        for task in TASKS:
            path = task.metrics[0].path
            is_shown = (board["protocol"] == protocol) & (board["task"] == task.name) & (board["metric"] == path)
            rows = select_summaries(board[is_shown])
            if rows.empty:
                continue
            yield Heading(2, f"{PROTOCOLS[protocol].title}: {task.heading}")
            yield Paragraph(f"{task.question} {LEGEND}")
            datasets = sort_names(rows["dataset"], (ALL_DATASETS, *PROTOCOLS[protocol].datasets))
            order = rows[rows["dataset"] == datasets[0]].sort_values(["rank", "model"])["model"]
            models = sort_names(board.loc[is_shown, "model"], order)
            cells = {(row["model"], row["dataset"]): row for row in rows.to_dict("records")}
            body = [[model_name(m), *(_format_cell(cells.get((m, d)), path) for d in datasets)] for m in models]
            yield Table(["method", *(name_column(rows, d) for d in datasets)], body)


def _format_cell(row: Mapping[Any, Any] | None, metric: str) -> str:
    if row is None:
        return NO_VALUE
    text = format_value(row["mean"], metric) + ("" if pd.isna(row["se"]) else f" ± {format_value(row['se'], metric)}")
    if row["is_partial"]:
        text += " †" if row["dataset"] == ALL_DATASETS else f" ({row['splits']})"
    return f"**{text}**" if row["is_best"] else f"{text} *" if row["tied_with_best"] else text


def _format_error(mean: float, error: float) -> str:
    return f"{mean:.1f}" + ("" if pd.isna(error) else f" ± {error:.1f}")


def build_audit_document(audit: pd.DataFrame) -> Iterator[Block]:
    """Yield the audit: how many published values are within noise, the known flaws of the source, and every value."""
    yield Heading(1, "Audit of the benchmark")
    compared = select_compared(audit)
    within = int((compared["verdict"] == WITHIN_NOISE).sum())
    share = f" ({100 * within / len(compared):.0f} %)" if len(compared) else ""
    yield Paragraph(
        f"Yu et al. (AISTATS 2025) publish {len(audit):,} values on our datasets. We have runs for {len(compared):,}; "
        f"{within:,}{share} are within noise: at most 2 points from ours, or at most 2 combined standard errors (ours "
        f"over splits, theirs over {RUNS} runs). The source names a GCN three times, by the measure that scores it, so "
        "its accuracy, Brier score and ECE count three times."
    )
    for column, name in (("model", "method"), ("dataset", "dataset"), ("metric", "metric"), ("backbone", "backbone")):
        counts = count_verdicts(audit, column).reset_index().to_dict("records")
        heading = "median of ours - published" if column == "metric" else "median absolute difference"
        yield Table([name, "values", "within noise", "share", heading], [_count_row(column, c) for c in counts])
    yield Heading(2, "Known flaws of the source")
    yield Bullets(FLAWS)
    yield Heading(2, "Values that differ")
    differing = compared[compared["verdict"] == DIFFERS]
    reasons = differing["reason"].value_counts()
    yield Bullets(
        [f"{count} value{'' if count == 1 else 's'}: {reason}" for reason, count in reasons.items()] or ["none"]
    )
    yield Heading(2, "Every compared value")
    yield Paragraph("In percent, with standard errors; ours over the number of splits.")
    yield Table(
        [
            *("method", "published as", "dataset", "scenario", "metric"),
            *("ours", "splits", "published", "difference", "verdict"),
        ],
        [_value_row(value) for value in compared.to_dict("records")],
        numbers_from=5,
    )


def _count_row(column: str, row: Mapping[Any, Any]) -> list[str]:
    share = f"{100 * row['share']:.0f} %"
    # Without a sign where metrics are mixed: for some of them, larger is worse.
    middle = f"{row['median']:+.1f}" if column == "metric" else f"{row['size']:.1f}"
    return [_title(column, row[column]), str(row["values"]), str(row["within"]), share, middle]


def _value_row(row: Mapping[Any, Any]) -> list[str]:
    return [
        model_name(row["model"]),
        f"{row['published_as']} ({row['backbone']})",
        dataset_name(row["dataset"]),
        scenario_name(row["scenario"]),
        METRIC_NAMES[row["metric"]],
        _format_error(row["ours"], row["se"]),
        f"{row['splits']:.0f}",
        _format_error(row["published"], row["published_std"] / RUNS**0.5),
        f"{row['difference']:+.1f}",
        row["verdict"],
    ]


def _title(column: str, name: str) -> str:
    names = {"model": model_name, "dataset": dataset_name, "metric": lambda path: METRIC_NAMES[path]}
    return names.get(column, str)(name)
