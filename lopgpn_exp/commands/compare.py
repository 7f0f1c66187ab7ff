"""`lopgpn_exp compare`: two or more runs, models or sweeps, with confidence intervals of their differences."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from lopgpn_exp.commands.dispatch import CommandResult
from lopgpn_exp.commands.shared import add_uri_option, print_note, tag_reader
from lopgpn_exp.errors import InputError
from lopgpn_exp.runs.query import select_runs
from lopgpn_exp.runs.skipped_runs import SkippedRuns
from lopgpn_exp.runs.storage import atomic_write, check_table_file, write_table

DESCRIPTION = "Compare runs or sweeps: every selection against the first, per dataset and scenario."
EXAMPLES = """a selection is one of
  lop_gpn-cora_ml-s0-i0-none-1a2b   a run id or its beginning, or the folder of a run
  sweep-9f3c                        a sweep id or its beginning
  model=lop_gpn,split=0+1+2         a filter over all finished runs: model, dataset, scenario, split, init
  0f9a... (32 characters)           the MLflow id of a run or sweep

examples:
  lopgpn_exp compare gkde-cora_ml-s0-i0-none lop_gpn-cora_ml-s0-i0-none    two runs: intervals over test nodes
  lopgpn_exp compare model=gpn_rw model=lop_gpn                            two models: over matched splits
  lopgpn_exp compare model=gpn_sym,dataset=cora_ml model=gpn_rw,dataset=cora_ml model=lop_gpn,dataset=cora_ml
  lopgpn_exp compare sweep-9f3c sweep-77a0 --html compare.html             two sweeps, model by model
  lopgpn_exp compare model=gkde model=lop_gpn --metric ood/auroc test/nll  some metrics
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs", nargs="+", metavar="RUNS", help="a run, a sweep or a filter; the first is the reference"
    )
    add_uri_option(parser)
    metrics = parser.add_mutually_exclusive_group()
    metrics.add_argument("--metric", nargs="+", metavar="NAME", help="only these; ood/auroc means all of its measures")
    metrics.add_argument("--all", action="store_true", help="all metrics, not just the important ones")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with the tables and forest plots")
    parser.add_argument("--export", type=Path, metavar="FILE", help="write the long table to FILE (.csv or .parquet)")


def execute(options: argparse.Namespace) -> CommandResult:
    if len(options.runs) < 2:
        raise InputError(
            f"there is nothing to compare {options.runs[0]} with",
            expected="two or more runs, sweeps or filters",
            hint=shlex.join(["lopgpn_exp", "compare", options.runs[0], "model=lop_gpn"]),
        )
    if options.export is not None:
        check_table_file(options.export)
    selections = select_runs(options.runs, options.output_dir, read_tags=tag_reader(options))
    damaged = {run_id: error for selection in selections for run_id, error in selection.damaged.items()}
    print_note(SkippedRuns(damaged).describe())

    # Deferred imports: a typo is reported without pandas.
    from lopgpn_exp.evaluation.comparison import compare_groups, select_metrics
    from lopgpn_exp.report.comparison_report import column_headings, comparison_page, print_comparison

    groups = {selection.label: selection.runs for selection in selections}
    metrics = select_metrics(groups, names=options.metric, every=options.all)
    comparison = compare_groups(groups, metrics, names=column_headings(list(groups)))
    descriptions = [selection.description for selection in selections]
    if options.html is not None:
        page = comparison_page(comparison, descriptions)
        atomic_write(options.html, lambda path: path.write_text(page, encoding="utf-8"))
    if options.export is not None:
        write_table(options.export, comparison.table)
    print_comparison(comparison, descriptions)
    same = ["compare", *options.runs, *(["--metric", *options.metric] if options.metric else ["--all"] * options.all)]
    next_commands = [] if options.html is not None else [[*same, "--html", "comparison.html"]]
    return CommandResult([options.html, options.export], next_commands)
