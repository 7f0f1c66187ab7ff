"""`lopgpn_exp results`: finished runs as a table; export, pack and unpack them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from lopgpn_exp.commands.dispatch import CommandResult
from lopgpn_exp.commands.shared import print_note
from lopgpn_exp.errors import InputError
from lopgpn_exp.runs.archive import DEFAULT_LIMIT_GIB, pack_runs, unpack_runs
from lopgpn_exp.runs.query import FILTER_COLUMNS
from lopgpn_exp.runs.storage import check_table_file, write_table

DESCRIPTION = "Show, export, pack or unpack finished runs."
EXAMPLES = """examples:
  lopgpn_exp results                                    means over splits, one table per dataset
  lopgpn_exp results --model lop_gpn --dataset cora_ml  some of them
  lopgpn_exp results --export runs.parquet              one row per run (.csv or .parquet)
  lopgpn_exp results --aggregate --export means.csv     one row per dataset, model, scenario and metric
  lopgpn_exp results --pack sweep.zip                   all results in one file (--models: checkpoints too)
  lopgpn_exp results --unpack sweep.zip                 extract them into another output folder
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    for column in FILTER_COLUMNS:
        kind = int if column in ("split", "init") else str
        parser.add_argument(f"--{column}", nargs="+", type=kind, metavar="VALUE", help="only runs with these values")
    parser.add_argument("--aggregate", action="store_true", help="mean, standard error and 95 %% interval over splits")
    parser.add_argument("--export", type=Path, metavar="FILE", help="write the table to FILE (.csv or .parquet)")
    parser.add_argument("--pack", type=Path, metavar="FILE", help="write these runs to one zip file")
    parser.add_argument("--models", action="store_true", help="with --pack: checkpoints too")
    parser.add_argument("--unpack", type=Path, metavar="FILE", help="extract the runs of a zip file")
    parser.add_argument(
        "--max-gib",
        type=float,
        default=DEFAULT_LIMIT_GIB,
        metavar="GIB",
        help="with --unpack: refuse a file that takes more space when extracted (%(default)g)",
    )


def execute(options: argparse.Namespace) -> CommandResult:
    if options.export is not None:
        check_table_file(options.export)
    if options.unpack is not None:
        num_new, num_existing = unpack_runs(options.unpack, options.output_dir, limit_gib=options.max_gib)
        sys.stdout.write(f"{num_new} runs extracted, {num_existing} were there already\n")
        return CommandResult(next_commands=[["results"]])

    # Deferred imports: --help works without pandas.
    from lopgpn_exp.evaluation.statistics import aggregate
    from lopgpn_exp.report.terminal import print_means
    from lopgpn_exp.runs.sweep_folder import label_saved_runs
    from lopgpn_exp.runs.table import results_table, scan_results, select_rows

    filters = {column: values for column in FILTER_COLUMNS if (values := getattr(options, column)) is not None}
    finished, skipped = scan_results(options.output_dir)
    print_note(skipped.describe())
    results = select_rows(results_table(finished), **filters)
    if results.empty:
        raise InputError(
            f"no finished run in {options.output_dir / 'runs'} matches",
            expected="at least one",
            hint="--output-dir DIR, or run lopgpn_exp first",
        )
    if options.pack is not None:
        pack_runs(options.pack, options.output_dir, list(results["run_id"]), with_models=options.models)
        sys.stdout.write(f"{len(results)} runs packed\n")
        return CommandResult([options.pack])
    if options.export is None or options.aggregate:
        results, unlabelled = label_saved_runs(results, options.output_dir)
        print_note(unlabelled.describe())
    if options.export is None:
        print_means(results)
        return CommandResult(next_commands=[["results", "--export", "runs.csv"]])
    table = aggregate(results) if options.aggregate else results
    write_table(options.export, table)
    return CommandResult([options.export])
