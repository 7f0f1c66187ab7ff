"""`lopgpn_exp reproduce`: run what is missing of the paper's experiments, then write the report."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from lopgpn_exp.commands.dispatch import FAILED, CommandResult
from lopgpn_exp.commands.shared import parse_names, parse_number
from lopgpn_exp.errors import InputError
from lopgpn_exp.paper import ReproductionOptions
from lopgpn_exp.report.names import DATASET_NAMES, MODEL_NAMES

DESCRIPTION = "Reproduce the paper: run its experiments, and compare every result with the published number."
EXAMPLES = """examples:
  lopgpn_exp reproduce                                          6 models x all datasets x 10 splits x 4 scenarios
  lopgpn_exp reproduce --splits 2 --datasets cora_ml --models lop_gpn,gpn_rw --jobs 2
  lopgpn_exp reproduce --inits 3 --extend                       only the runs that runs.parquet does not contain yet
  lopgpn_exp reproduce --report                                 only the report, from the results that exist
  lopgpn_exp reproduce --recipes --datasets cora_ml             untrained networks next to published numbers: a minute
  lopgpn_exp reproduce --split random                           on the splits that the paper's text describes
  lopgpn_exp reproduce --report --add elsewhere/runs.parquet    include the runs of another machine
  make reproduce-tables SPLITS=2 DATASETS=cora_ml JOBS=2        the same with make, which also installs

The same command continues where it was stopped. Written to reproduction/ in the output folder:
  audit.html     every published value next to ours, with a verdict; the paper's claims; the choices behind the numbers
  published_table.html   how each block of the published table was computed
  table1.html    the paper's table; also as CSV, Markdown and LaTeX; table1_recipe.csv: computed as published
  arc.pdf        the accuracy-rejection curves
  runs.parquet   the runs that all of it is made from
"""
SPLITS = ("published", "random")
MAX_SPLITS, MAX_INITS, MAX_JOBS = 10, 100, 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--splits", default="all", metavar="N", help="splits per dataset, 1 to 10 (%(default)s)")
    parser.add_argument("--inits", default="1", metavar="N", help="initialisations per split (%(default)s)")
    parser.add_argument(
        "--split",
        default="published",
        choices=SPLITS,
        help="published: the splits behind the published table; random: those of the paper's text (%(default)s)",
    )
    parser.add_argument("--datasets", default="all", metavar="NAMES", help="separated by commas (%(default)s)")
    parser.add_argument("--models", default="all", metavar="NAMES", help="separated by commas (%(default)s)")
    parser.add_argument("--jobs", default="all", metavar="N", help="runs at once; all: one per core (%(default)s)")
    parser.add_argument(
        "--also",
        action="append",
        default=[],
        metavar="OVERRIDES",
        help="report finished runs with these overrides as an alternative reading of the paper",
    )
    parser.add_argument("--report", action="store_true", help="run nothing; write the report from existing results")
    parser.add_argument(
        "--extend", action="store_true", help="count runs in runs.parquet as finished, and keep them in it"
    )
    parser.add_argument(
        "--add", action="append", default=[], type=Path, metavar="FILE", help="with --report: add another runs.parquet"
    )
    parser.add_argument(
        "--recipes",
        action="store_true",
        help="train nothing; compare the untrained networks of the public code with published numbers (minutes)",
    )
    parser.add_argument("--dry-run", action="store_true", help="stop after the plan")
    parser.add_argument("--readme", type=Path, metavar="FILE", help="also update the headline of the audit in a README")


def parse_options(options: argparse.Namespace) -> ReproductionOptions:
    """Check the texts of the command line."""
    if options.recipes and (options.report or options.dry_run or options.readme or options.split != "published"):
        raise InputError(
            "--recipes is given together with --report, --dry-run, --readme or --split random",
            expected="--recipes alone: it evaluates networks on the published splits, and writes no report",
            hint="reproduce --recipes",
        )
    if options.add and not options.report:
        raise InputError(
            "--add is given without --report",
            expected="both: runs of other files are only reported",
            hint="--report --add FILE",
        )
    return ReproductionOptions(
        models=parse_names(options.models, MODEL_NAMES, "--models"),
        datasets=parse_names(options.datasets, DATASET_NAMES, "--datasets"),
        splits=MAX_SPLITS if options.splits == "all" else parse_number(options.splits, "--splits", MAX_SPLITS),
        inits=parse_number(options.inits, "--inits", MAX_INITS),
        split_name=options.split,
        num_workers=-1 if options.jobs == "all" else parse_number(options.jobs, "--jobs", MAX_JOBS),
        variants=tuple(options.also),
        output_dir=options.output_dir,
        extend=options.extend,
        dry_run=options.dry_run,
    )


def execute(options: argparse.Namespace) -> CommandResult:
    checked = parse_options(options)
    if options.recipes:
        return _show_untrained(checked)
    from lopgpn_exp.paper.reproduction import collect_finished, run_missing  # deferred imports: keep --help fast

    has_failed = False
    if options.report:
        collect_finished(checked, options.add)
    else:
        has_failed = any(attempt.has_failed for attempt in run_missing(checked))
        if checked.dry_run:
            return CommandResult()
    from lopgpn_exp.paper.paper_report import write_report
    from lopgpn_exp.paper.report_summary import print_report, update_readme

    report = write_report(checked.report_dir)
    if options.readme is not None:
        update_readme(options.readme, report)
    print_report(report)
    next_command = ["reproduce", "--extend"] if options.report else ["ui"]
    return CommandResult(report.main_files, [next_command], exit_code=FAILED if has_failed else 0)


def _show_untrained(options: ReproductionOptions) -> CommandResult:
    """Evaluate the untrained networks of the public code, and print them next to the published numbers."""
    from lopgpn_exp.paper.recipe_runs import run_recipes  # deferred imports: keep --help fast
    from lopgpn_exp.paper.reproduction import find_available
    from lopgpn_exp.paper.untrained import find_untrained_recipes, print_untrained

    options = replace(options, datasets=find_available(options.datasets))
    results = run_recipes(options, recipes=find_untrained_recipes())
    if not results:
        raise InputError(
            "there is nothing to evaluate",
            expected="GPN on the published splits of at least one dataset with features",
            hint="reproduce --recipes --datasets cora_ml",
        )
    print_untrained(result for evaluations in results.values() for result in evaluations)
    return CommandResult(next_commands=[["reproduce"]])
