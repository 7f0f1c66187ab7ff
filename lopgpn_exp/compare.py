"""`python -m lopgpn_exp.compare`: two or more runs or sweeps side by side, differences with their intervals."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lopgpn_exp.errors import InputError, mistakes_told

if TYPE_CHECKING:
    from lopgpn_exp.experiment.selection import Side

COMMAND = "python -m lopgpn_exp.compare"
EXAMPLES = """a side is one of
  lop_gpn-cora_ml-s0-i0-none-1a2b   a run id, or how it begins; or the folder of a run
  sweep-9f3c                        a sweep id, or how it begins
  model=lop_gpn,split=0+1+2         a filter over all finished runs: model, dataset, scenario, split, init
  0f9a... (32 characters)           the id of a run or sweep in MLflow

examples:
  python -m lopgpn_exp.compare gkde-cora_ml-s0-i0-none lop_gpn-cora_ml-s0-i0-none    two runs: intervals over test nodes
  python -m lopgpn_exp.compare model=gpn_rw model=lop_gpn                            two models: over matched splits
  python -m lopgpn_exp.compare model=gpn_sym,dataset=cora_ml model=gpn_rw,dataset=cora_ml model=lop_gpn,dataset=cora_ml
  python -m lopgpn_exp.compare sweep-9f3c sweep-77a0 --html compare.html             two sweeps, model by model
  python -m lopgpn_exp.compare model=gkde model=lop_gpn --metric ood/auroc test/nll  some metrics
"""


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog=COMMAND,
        description="Runs or sweeps side by side: every side against the first, per dataset and scenario.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "sides", nargs="+", metavar="SIDE", help="a run, a sweep or a filter; the first is the reference"
    )
    parser.add_argument("--output-dir", type=Path, default=Path("outputs"))
    parser.add_argument("--uri", help="where MLflow ids are looked up, as in tracking.uri")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--metric", nargs="+", metavar="NAME", help="only these; ood/auroc is every one of its measures")
    which.add_argument("--all", action="store_true", help="all metrics, not just the important ones")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with the tables and forest plots")
    parser.add_argument("--export", type=Path, metavar="FILE", help="write the long table to FILE (.csv or .parquet)")
    with mistakes_told():
        _run(parser.parse_args(arguments))


def _run(options: argparse.Namespace) -> None:
    from lopgpn_exp.experiment.files import check_table_name, write_at_once, write_table
    from lopgpn_exp.experiment.selection import select

    if len(options.sides) < 2:
        raise InputError(
            f"there is one side to compare, {options.sides[0]}",
            expected="two or more",
            hint=f"{COMMAND} {shlex.quote(options.sides[0])} model=lop_gpn",
        )
    if options.export is not None:
        check_table_name(options.export, "--export")
    sides = select(options.sides, options.output_dir, uri=options.uri)

    from lopgpn_exp.report.comparison.sides import (
        chosen_metrics,
        compare_groups,
        groups_of,
    )  # pandas: a wrong name does without
    from lopgpn_exp.report.comparison.text import page, show

    groups = groups_of({side.label: side.runs for side in sides})
    metrics = chosen_metrics(groups, names=options.metric, every=options.all)
    comparison = compare_groups(groups, metrics)
    descriptions = [_described(side) for side in sides]
    if options.html is not None:
        write_at_once(options.html, lambda path: path.write_text(page(comparison, descriptions), encoding="utf-8"))
    if options.export is not None:
        write_table(options.export, comparison.table)
    show(comparison, descriptions)
    sys.stdout.write(f"\n{_next(options)}\n")


def _described(side: Side) -> str:
    if side.kind == "run":
        return side.runs[0]["run_id"]
    unfinished = f", {side.missing} more not finished" if side.missing else ""
    return f"{side.kind}, {len(side.runs)} run{'s' * (len(side.runs) != 1)}{unfinished}"


def _next(options: argparse.Namespace) -> str:
    """What was written, and what to type for what was not."""
    written = [str(path) for path in (options.html, options.export) if path is not None]
    folder = [] if options.output_dir == Path("outputs") else ["--output-dir", str(options.output_dir)]
    metrics = ["--metric", *options.metric] if options.metric else ["--all"] * options.all
    wishes = [
        (options.html is None, ["--html", "comparison.html"]),
        (options.export is None, ["--export", "comparison.csv"]),
        (not metrics, ["--all"]),
    ]
    more = next((words for open_, words in wishes if open_), None)
    command = ["python", "-m", "lopgpn_exp.results", *folder]  # nothing left to ask of these sides
    if more is not None:
        command = [*COMMAND.split(), *options.sides, *folder, *metrics, *more]
    return "\n".join([*(f"written  {path}" for path in written), f"next     {shlex.join(command)}"])


if __name__ == "__main__":
    main()
