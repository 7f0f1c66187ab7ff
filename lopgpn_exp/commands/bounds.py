"""`lopgpn_exp bounds`: how tight the paper's bounds on the differential entropy are, on a finished run."""

from __future__ import annotations

import argparse
from pathlib import Path

from lopgpn_exp.commands.dispatch import CommandResult
from lopgpn_exp.commands.shared import RUN_HELP, add_run_argument, open_run
from lopgpn_exp.errors import InputError
from lopgpn_exp.runs.storage import atomic_write, write_csv

DESCRIPTION = "Lower bound, exact value and upper bound of the differential entropy, node by node."
EXAMPLES = f"""LOP-GPN's EU_SO is the upper bound of the paper's Eq. (14) on the differential entropy of a mixture.
This command estimates the entropy itself by Monte Carlo, with a standard error per node, and compares it with both
bounds.

examples:
  lopgpn_exp bounds lop_gpn-cora_ml-s0-i0-gaussian              1,000 test nodes
  lopgpn_exp bounds RUN --nodes all --draws 4000                all of them, half the error
  lopgpn_exp bounds RUN --csv bounds.csv --html bounds.html     one row per node; a page with charts

{RUN_HELP}
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_argument(parser, description="a finished run whose posterior is a mixture, such as one of lop_gpn")
    parser.add_argument(
        "--nodes", default="1000", metavar="N", help="number of test nodes, drawn at random, or all (%(default)s)"
    )
    parser.add_argument("--draws", type=int, default=1000, metavar="N", help="draws per node (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="for the nodes and the draws (%(default)s)")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write one row per node")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with charts")


def execute(options: argparse.Namespace) -> CommandResult:
    max_nodes = _check(options)
    run = open_run(options)

    # Deferred imports: a typo is reported without torch.
    from lopgpn_exp.evaluation.entropy_bounds import measure_tightness
    from lopgpn_exp.posterior import DirichletMixture
    from lopgpn_exp.report.bounds_report import bounds_page, print_bounds

    if not isinstance(run.posterior, DirichletMixture):
        raise InputError(
            f"the posterior of {run.folder.name} is a {type(run.posterior).__name__}, which has no such bounds",
            expected="a mixture of Dirichlet distributions",
            hint="a run of model=lop_gpn",
        )
    tightness = measure_tightness(
        run.posterior, run.predictions, max_nodes=max_nodes, num_draws=options.draws, seed=options.seed
    )
    title = run.result.title
    if options.csv is not None:
        atomic_write(options.csv, lambda path: write_csv(path, tightness.table))
    if options.html is not None:
        atomic_write(options.html, lambda path: path.write_text(bounds_page(title, tightness), encoding="utf-8"))
    print_bounds(title, tightness)
    same = ["bounds", options.run, "--nodes", options.nodes, "--draws", str(options.draws)]
    next_commands = [] if options.html is not None else [[*same, "--html", "bounds.html"]]
    return CommandResult([options.csv, options.html], next_commands)


def _check(options: argparse.Namespace) -> int | None:
    """Check the numbers, and return how many nodes to use, None for all."""
    if options.draws < 2:
        raise InputError(f"--draws is {options.draws}", expected="2 or more, to estimate an error", hint="--draws 1000")
    if options.seed < 0:
        raise InputError(f"--seed is {options.seed}", expected="0 or more", hint="--seed 0")
    if options.nodes == "all":
        return None
    if not options.nodes.isdecimal() or int(options.nodes) < 2:
        raise InputError(f"--nodes is {options.nodes}", expected="2 or more, or all", hint="--nodes 1000")
    return int(options.nodes)
