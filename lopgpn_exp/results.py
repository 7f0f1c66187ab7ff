"""`python -m lopgpn_exp.results`: every finished run as a table, to look at, export, carry away and bring home."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from lopgpn_exp.errors import InputError, mistakes_told

EXAMPLES = """examples:
  python -m lopgpn_exp.results                                    means over splits, a table a dataset
  python -m lopgpn_exp.results --model lop_gpn --dataset cora_ml  some of them
  python -m lopgpn_exp.results --export runs.parquet              one row a run (.csv or .parquet)
  python -m lopgpn_exp.results --aggregate --export means.csv     one row a dataset, model, scenario and metric
  python -m lopgpn_exp.results --pack sweep.zip                   all results in one file (--models: checkpoints too)
  python -m lopgpn_exp.results --unpack sweep.zip                 ... brought into another output folder
"""


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m lopgpn_exp.results",
        description="Every finished run as one table.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--output-dir", type=Path, default=Path("outputs"))
    for column in ("model", "dataset", "scenario", "split", "init"):
        kind = int if column in ("split", "init") else str
        parser.add_argument(f"--{column}", nargs="+", type=kind, help="only these")
    parser.add_argument("--aggregate", action="store_true", help="mean, standard error and 95 %% interval over splits")
    parser.add_argument("--export", type=Path, metavar="FILE", help="write the table to FILE (.csv or .parquet)")
    parser.add_argument("--pack", type=Path, metavar="FILE", help="write these runs into one zip file")
    parser.add_argument("--models", action="store_true", help="with --pack: checkpoints too")
    parser.add_argument(
        "--unpack", type=Path, metavar="FILE", help="bring the runs of a zip file into the output folder"
    )
    with mistakes_told():
        _run(parser.parse_args(arguments))


def _run(options: argparse.Namespace) -> None:
    from lopgpn_exp.experiment.collect import load_results, pack, unpack  # pandas: --help does without
    from lopgpn_exp.experiment.files import check_table_name, write_table
    from lopgpn_exp.experiment.sweeps import told_apart
    from lopgpn_exp.report.aggregate import aggregate
    from lopgpn_exp.report.sweep import show_means

    if options.export is not None:
        check_table_name(options.export, "--export")
    if options.unpack is not None:
        brought, known = unpack(options.unpack, options.output_dir)
        sys.stdout.write(f"{brought} runs brought in, {known} were here already\n")
        return
    filters = {
        c: v for c in ("model", "dataset", "scenario", "split", "init") if (v := getattr(options, c)) is not None
    }
    results = load_results(options.output_dir, **filters)
    if results.empty:
        raise InputError(
            f"no finished runs in {options.output_dir / 'runs'} match",
            expected="at least one",
            hint="python -m lopgpn_exp, or --output-dir FOLDER",
        )
    if options.pack is not None:
        pack(options.pack, options.output_dir, list(results["run_id"]), models=options.models)
        sys.stdout.write(f"{len(results)} runs in {options.pack}\n")
        return
    apart = told_apart(results, options.output_dir) if options.aggregate or options.export is None else results
    table = aggregate(apart) if options.aggregate else results
    if options.export is None:
        show_means(apart)
    else:
        write_table(options.export, table)


if __name__ == "__main__":
    main()
