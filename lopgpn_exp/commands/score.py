"""`lopgpn_exp score`: how reliable the flags of `predict` are, on nodes whose class is known."""

from __future__ import annotations

import argparse
from pathlib import Path

from lopgpn_exp.commands.dispatch import CommandResult
from lopgpn_exp.commands.shared import (
    RUN_HELP,
    add_graph_options,
    add_limit_options,
    fit_run_limits,
    graph_words,
    open_run_and_graph,
)
from lopgpn_exp.errors import InputError
from lopgpn_exp.runs.storage import check_table_suffix, write_table

DESCRIPTION = "How often the nodes of each flag are predicted correctly, and how well each measure selects nodes."
EXAMPLES = f"""examples:
  lopgpn_exp score lop_gpn-custom-s0
  lopgpn_exp score RUN --graph nodes.csv --edges edges.csv        on a version with more labels

Training and validation nodes are left out. {RUN_HELP}
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_graph_options(parser)
    add_limit_options(parser)
    parser.add_argument(
        "--coverage", type=float, default=0.8, help="show the error rate at this coverage (%(default)s)"
    )
    parser.add_argument("--risk", type=float, default=0.05, help="show the coverage at this error rate (%(default)s)")
    parser.add_argument("--export", type=Path, metavar="FILE", help="write the table of flags: .csv or .parquet")


def execute(options: argparse.Namespace) -> CommandResult:
    if options.export is not None:
        check_table_suffix(options.export)
    # Deferred imports: a wrong option is reported without pandas.
    from lopgpn_exp.evaluation.metrics.selective import check_shares
    from lopgpn_exp.evaluation.node_table import find_measures
    from lopgpn_exp.evaluation.trust import score_flags
    from lopgpn_exp.report.console import Console
    from lopgpn_exp.report.trust_report import describe_limits, render_reliability, render_selection

    check_shares(coverage=options.coverage, risk=options.risk)
    run, changed = open_run_and_graph(options)
    limits = fit_run_limits(run, options)
    if changed is None:
        nodes = run.predictions
    else:
        from lopgpn_exp.runs.prediction import tabulate_changed_graph  # deferred import: needs torch

        nodes = tabulate_changed_graph(run, changed, limits)
    is_scored = ((nodes["label"] >= 0) & ~nodes["part"].isin(["train", "val"])).to_numpy()
    if not is_scored.any():
        raise InputError(
            "no labelled node is left to score on",
            expected="labels of nodes that are neither training nor validation nodes",
            hint="--graph FILE with more labels, or a split with test nodes",
        )
    scored = nodes[is_scored]
    is_correct = (scored["predicted"] == scored["label"]).to_numpy()
    reliability = score_flags(limits.flag_nodes(scored), is_correct, scored["is_ood"].to_numpy())
    uncertainties = {measure: scored[measure].to_numpy() for measure in find_measures(nodes)}
    console = Console()
    title = f"\n{len(scored):,} labelled nodes of {options.run}, {is_correct.mean():.1%} predicted correctly"
    console.print(title, style="bold")
    console.print(render_reliability(reliability))
    console.print(describe_limits(limits), style="dim")
    console.print("\nSelective prediction: accepting the least uncertain nodes first", style="bold")
    console.print(render_selection(uncertainties, is_correct, coverage=options.coverage, risk=options.risk))
    if options.export is not None:
        write_table(options.export, reliability)
    return CommandResult([options.export], [["predict", options.run, *graph_words(options)]])
