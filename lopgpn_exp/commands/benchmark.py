"""`lopgpn_exp benchmark`: run what is missing of the leaderboard, then write its page and its audit."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from pathlib import Path

from lopgpn_exp.benchmark import BenchmarkOptions
from lopgpn_exp.benchmark.protocols import PROTOCOLS
from lopgpn_exp.commands.dispatch import FAILED, CommandResult
from lopgpn_exp.commands.shared import parse_names, parse_number
from lopgpn_exp.errors import InputError

DESCRIPTION = "Compare all methods under one protocol: leaderboard, figures, and an audit against published values."
EXAMPLES = """examples:
  lopgpn_exp benchmark --datasets cora_ml,citeseer --splits 2 --jobs 2
  lopgpn_exp benchmark --protocol shifts --models gcn,lop_gpn
  lopgpn_exp benchmark --config-dir conf --models mine --against leaderboard     your own method beside all others
  lopgpn_exp benchmark --report                         only the report, from the stored runs: seconds
  lopgpn_exp benchmark --report --add other/runs.parquet    include the runs of another machine
  make benchmark PROTOCOL=paper DATASETS=cora_ml JOBS=2     the same with make, which also installs

The same command continues where it was stopped. Written to benchmark/ in the output folder:
  leaderboard.html   all methods, to sort and filter; also as CSV and Markdown
  audit.html         every published value next to ours, with a verdict; also as CSV and Markdown
  runs.parquet       the runs that all of it is made from
"""
LEADERBOARD = "leaderboard"
MAX_SPLITS, MAX_INITS, MAX_JOBS = 10, 100, 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--protocol", default="per_class_20", choices=PROTOCOLS, help="splits and scenarios (%(default)s)"
    )
    parser.add_argument("--models", default="all", metavar="NAMES", help="separated by commas (%(default)s)")
    parser.add_argument("--datasets", default="all", metavar="NAMES", help="separated by commas (%(default)s)")
    parser.add_argument("--splits", default="all", metavar="N", help="splits per dataset; all: those of the protocol")
    parser.add_argument("--inits", default="1", metavar="N", help="initialisations per split (%(default)s)")
    parser.add_argument("--jobs", default="all", metavar="N", help="runs at once; all: one per core (%(default)s)")
    parser.add_argument("--config-dir", type=Path, help="your own folder of configs: model/mine.yaml for --models mine")
    parser.add_argument(
        "--against",
        metavar="FILE",
        help="show the runs of this runs.parquet too, and do not run them again; leaderboard: those of the project",
    )
    parser.add_argument("--no-tracking", action="store_true", help="do not write the runs to MLflow")
    parser.add_argument("--report", action="store_true", help="run nothing; write the report from the stored runs")
    parser.add_argument(
        "--add", action="append", default=[], type=Path, metavar="FILE", help="with --report: add another runs.parquet"
    )
    parser.add_argument("--dry-run", action="store_true", help="stop after the plan")


def parse_options(options: argparse.Namespace) -> BenchmarkOptions:
    """Check the texts of the command line."""
    if options.add and not options.report:
        raise InputError(
            "--add is given without --report",
            expected="both: runs of other files are only reported",
            hint="--report --add FILE",
        )
    if options.report and options.dry_run:
        raise InputError("--report is given together with --dry-run", expected="one of them: a report runs nothing")
    protocol = PROTOCOLS[options.protocol]
    splits = protocol.splits if options.splits == "all" else parse_number(options.splits, "--splits", MAX_SPLITS)
    return BenchmarkOptions(
        protocol=options.protocol,
        models=parse_names(options.models, _list_models(protocol.models, options.config_dir), "--models"),
        datasets=parse_names(options.datasets, protocol.datasets, "--datasets"),
        splits=splits,
        inits=parse_number(options.inits, "--inits", MAX_INITS),
        num_workers=-1 if options.jobs == "all" else parse_number(options.jobs, "--jobs", MAX_JOBS),
        output_dir=options.output_dir,
        config_dir=options.config_dir,
        against=_find_runs(options.against),
        is_tracked=not options.no_tracking,
        dry_run=options.dry_run,
    )


def execute(options: argparse.Namespace) -> CommandResult:
    checked = parse_options(options)
    from lopgpn_exp.benchmark.run_benchmark import add_files, run_missing_cells  # deferred imports: keep --help fast

    has_failed = False
    if options.report:
        add_files(checked, options.add)
    else:
        has_failed = any(attempt.has_failed for attempt in run_missing_cells(checked))
        if checked.dry_run:
            return CommandResult()
    from lopgpn_exp.benchmark.benchmark_report import write_benchmark_report
    from lopgpn_exp.benchmark.benchmark_summary import print_leaderboard

    report = write_benchmark_report(checked.report_dir)
    print_leaderboard(report, checked.protocol)
    next_command = ["benchmark"] if options.report else ["ui"]
    return CommandResult(report.main_files, [next_command], exit_code=FAILED if has_failed else 0)


def _list_models(ours: Collection[str], config_dir: Path | None) -> tuple[str, ...]:
    """Return the models that may be named: ours, then those of the user's config folder."""
    if config_dir is None:
        return tuple(ours)
    from lopgpn_exp.config.compose import check_config_dir  # deferred import: keeps --help fast

    check_config_dir(config_dir)
    return (*ours, *(path.stem for path in sorted((config_dir / "model").glob("*.yaml")) if path.stem not in ours))


def _find_runs(text: str | None) -> Path | None:
    if text is None:
        return None
    if text == LEADERBOARD:
        from lopgpn_exp.benchmark.run_benchmark import find_leaderboard  # deferred import: keeps --help fast

        return find_leaderboard()
    path = Path(text).expanduser()
    if not path.is_file():
        raise InputError(
            f"there is no file {path}",
            expected="the runs.parquet of a benchmark, or the word leaderboard",
            hint="--against leaderboard",
        )
    return path
