"""The page of the leaderboard: one HTML file that works offline, with a table to sort and filter."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd

from lopgpn_exp.benchmark.leaderboard import ALL_DATASETS, MEAN_SCENARIO, MIN_COMMON
from lopgpn_exp.benchmark.method_costs import summarise_method_costs
from lopgpn_exp.benchmark.protocols import PROTOCOLS, family_of
from lopgpn_exp.benchmark.tasks import TASKS, find_task_metric
from lopgpn_exp.evaluation.metrics import IN_NATS
from lopgpn_exp.report.document import Block, Picture, render_page
from lopgpn_exp.report.names import METRIC_NAMES, dataset_name, measure_name, model_name, scenario_name

SUMMARY_NAMES = {MEAN_SCENARIO: "Mean over scenarios", ALL_DATASETS: "Mean over datasets"}
STYLE = """
.controls { display: flex; flex-wrap: wrap; gap: .5rem 1rem; margin: 1rem 0; }
.controls label { display: flex; flex-direction: column; font-size: .8rem; color: var(--dim); }
.controls select { font: inherit; font-size: .9rem; color: var(--text); background: var(--back); padding: .15rem; }
table.board th button { all: unset; cursor: pointer; font-weight: 600; }
table.board th button:focus-visible, table.board td button:focus-visible { outline: 2px solid #4477AA; }
table.board th[aria-sort=ascending] button::after { content: " \\2191"; }
table.board th[aria-sort=descending] button::after { content: " \\2193"; }
table.board td button { all: unset; cursor: pointer; }
table.board td.best { font-weight: 700; } table.board td.tied { text-decoration: underline; }
table.board td.untested { font-style: italic; } table.board td sup { color: var(--dim); line-height: 0; }
table.board th small { display: block; font-weight: normal; color: var(--dim); }
table.board td small { color: var(--dim); font-weight: normal; }
table.board tbody tr:hover { background: var(--soft); }
table.board th.model { position: sticky; left: 0; background: var(--back); white-space: nowrap; }
.swatch { display: inline-block; width: .7em; height: .7em; border-radius: 2px; margin-right: .4em; }
.details { background: var(--soft); padding: .6rem .8rem; border-radius: 4px; overflow-wrap: anywhere; }
svg.scatter { max-width: 46rem; min-width: 34rem; width: 100%; height: auto; }
svg.scatter text { font-size: 11px; fill: var(--text); } svg.scatter line { stroke: var(--line); }
"""
BODY = """<h1>Leaderboard</h1>
<p>{intro}</p>
<div class="leaderboard">
<div class="controls">
<label>Protocol <select name="protocol"></select></label>
<label>Task <select name="task"></select></label>
<label>Metric <select name="metric"></select></label>
<label>Dataset <select name="dataset"></select></label>
<label>Scenario <select name="scenario"></select></label>
<label>Family <select name="family"></select></label>
</div>
<p class="question note"></p>
<div class="wide"><table class="board"><thead></thead><tbody></tbody></table></div>
<p class="note">Mean ± half of the 95 % interval over splits. The mean over datasets has an interval over datasets;
methods without runs on one of them do not have it. <b>Bold</b>: the best. <u>Underlined</u>: not significantly worse
(paired t-test, Holm's correction, 5 %; with few splits, only large differences are significant). <i>Italic</i>: not
tested, because there are fewer than {min_common} common splits. <sup>2</sup>: only 2 splits. <sup>†</sup>: fewer
splits than other methods on a dataset. Such methods are ranked and tested on common splits. Select a value for its
interval, its rank, its measure and the command that reproduces it. Costs are processor seconds of one training and one
prediction, and the peak memory of the process with all its libraries: medians over clean runs, averaged over datasets
if all datasets are shown.</p>
<p class="details" hidden></p>
<h2>Quality and cost</h2>
<p class="note">The column that the table is sorted by, against the processor time of training (logarithmic).</p>
<div class="wide"><svg class="scatter" viewBox="0 0 740 400" role="img" aria-label="quality against cost"></svg></div>
<script type="application/json" class="data">{data}</script>
<script>{script}</script>
</div>
{figures}
{summary}
"""
FAMILY_COLORS = {
    "Softmax": "#CCBB44",
    "Energy": "#66CCEE",
    "Sampling": "#AA3377",
    "Density": "#EE6677",
    "Evidential": "#228833",
    "Without training": "#BBBBBB",
    "Gaussian process": "#4477AA",
    "Yours": "#EE7733",
}


def build_page(
    board: pd.DataFrame, runs: pd.DataFrame, *, summary: Sequence[Block], figures: Sequence[Picture], folder: Path
) -> str:
    """Return the page.

    Args:
        summary: what the results say.
        folder: where the page is written; runs whose pages exist in the output folder are linked.
    """
    protocols = ", ".join(PROTOCOLS[name].title for name in PROTOCOLS if (board["protocol"] == name).any())
    intro = (
        f"{len(runs):,} runs of {runs['model'].nunique()} methods on {runs['dataset'].nunique()} datasets. "
        f"Protocols: {escape(protocols)}. Every method is scored by the measure of uncertainty "
        "that its config declares. "
        "Labels of test and out-of-distribution nodes are used for scoring only."
    )
    content = json.dumps(build_data(board, runs, folder), separators=(",", ":"), allow_nan=False)
    body = BODY.format(
        intro=intro,
        min_common=MIN_COMMON,
        summary="\n".join(block.html() for block in summary),
        data=content.replace("<", "\\u003c"),
        script=files(__package__).joinpath("leaderboard.js").read_text(),
        figures="\n".join(figure.html() for figure in figures),
    )
    return render_page("Leaderboard", body, style=STYLE)


def build_data(board: pd.DataFrame, runs: pd.DataFrame, folder: Path) -> dict[str, Any]:
    """Return what the script of the page shows; values are in the units of the page, mostly percent."""
    names: dict[str, dict[str, str]] = {
        "model": {model: model_name(model) for model in sorted(set(board["model"]))},
        "dataset": {name: SUMMARY_NAMES.get(name) or dataset_name(name) for name in sorted(set(board["dataset"]))},
        "scenario": {name: SUMMARY_NAMES.get(name) or scenario_name(name) for name in sorted(set(board["scenario"]))},
        "metric": {path: METRIC_NAMES[path] for path in sorted(set(board["metric"]))},
        "protocol": {name: PROTOCOLS[name].title for name in PROTOCOLS if (board["protocol"] == name).any()},
        "measure": {name: measure_name(name) for name in sorted(set(board["measure"])) if name},
    }
    return {
        "names": names,
        "families": {model: family_of(model) for model in names["model"]},
        "colors": FAMILY_COLORS,
        "tasks": [
            {"name": task.name, "title": task.title, "question": task.question}
            | {"metrics": [metric.path for metric in task.metrics]}
            for task in TASKS
            if (board["task"] == task.name).any()
        ],
        "nats": list(IN_NATS),
        "lower": [path for path in names["metric"] if find_task_metric(path).is_lower_better],
        "order": list(dict.fromkeys(name for protocol in PROTOCOLS.values() for name in protocol.datasets)),
        "rows": [_create_row(row) for row in board.to_dict("records")],
        "costs": _list_costs(runs),
        "pages": _find_pages(runs, folder),
    }


def _create_row(row: dict[Any, Any]) -> dict[str, Any]:
    scale = 1 if row["metric"] in IN_NATS else 100
    keys = ("protocol", "dataset", "scenario", "task", "metric", "model", "measure", "units", "splits", "rank")
    numbers = {key: _round(scale * row[key]) for key in ("mean", "low", "high")}
    others = {"runs": row["runs"], "most": row["most_splits"], "best": row["is_best"], "tied": row["tied_with_best"]}
    others |= {"partial": row["is_partial"]}
    return {key: row[key] for key in keys} | numbers | others


def name_column(rows: pd.DataFrame, dataset: str) -> str:
    """Return the heading of a dataset in tables, with the number of splits, or of datasets, that it shows."""
    most = rows.loc[rows["dataset"] == dataset, "most_splits"].max()
    if dataset == ALL_DATASETS:
        return f"Mean of {most} datasets"
    return f"{dataset_name(dataset)} ({most} split{'' if most == 1 else 's'})"


def _list_costs(runs: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {key: row[key] for key in ("protocol", "dataset", "model")}
        | {key: _round(row[key]) for key in ("train", "predict", "memory")}
        for row in summarise_method_costs(runs).to_dict("records")
    ]


def _find_pages(runs: pd.DataFrame, folder: Path) -> dict[str, list[str]]:
    """Return the runs of each cell whose pages exist beside the leaderboard."""
    pages: dict[str, list[str]] = {}
    for row in runs[["protocol", "dataset", "scenario", "model", "run_id"]].to_dict("records"):
        *cell, run_id = map(str, row.values())
        if (folder.parent / "runs" / run_id / "page.html").is_file():
            pages.setdefault(" ".join(cell), []).append(run_id)
    return pages


def _round(value: float) -> float | None:
    return None if pd.isna(value) else round(float(value), 4)
