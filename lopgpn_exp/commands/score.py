"""`lopgpn_exp score`: how reliable the flags of `predict` are, on nodes whose class is known."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from lopgpn_exp.commands.dispatch import CommandResult
from lopgpn_exp.commands.shared import (
    GRAPH_OPTIONS,
    JUDGEMENT_OPTIONS,
    RUN_HELP,
    add_graph_options,
    add_limit_options,
    add_promise_options,
    check_graph_options,
    check_output_file,
    check_promise_options,
    fit_run_limits,
    fit_run_rule,
    open_run,
    read_graph,
    repeat_options,
)
from lopgpn_exp.errors import InputError, check_parameter
from lopgpn_exp.runs.storage import check_table_file, write_table

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from lopgpn_exp.evaluation.acceptance import AcceptanceRule
    from lopgpn_exp.evaluation.trust import Limits
    from lopgpn_exp.report.console import Console
    from lopgpn_exp.runs.guarantees import RunSets
    from lopgpn_exp.runs.saved_run import SavedRun

DESCRIPTION = "How often the nodes of each flag are predicted correctly, and how well each measure selects nodes."
EXAMPLES = f"""examples:
  lopgpn_exp score lop_gpn-custom-s0
  lopgpn_exp score RUN --graph nodes.csv --edges edges.csv        on a version with more labels
  lopgpn_exp score RUN --coverage 0.9 --max-error 0.05            are the promises of predict kept?

Training and validation nodes are left out. {RUN_HELP}
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_graph_options(parser)
    add_limit_options(parser)
    add_promise_options(
        parser,
        sets="how often prediction sets of this coverage contain the class",
        accepted="how many nodes are wrong that predict accepts with this bound",
    )
    parser.add_argument(
        "--keep", type=float, default=0.8, help="show the error rate if this share of the nodes is kept (%(default)s)"
    )
    parser.add_argument("--risk", type=float, default=0.05, help="show the coverage at this error rate (%(default)s)")
    parser.add_argument("--export", type=Path, metavar="FILE", help="write the table of flags: .csv or .parquet")


def execute(options: argparse.Namespace) -> CommandResult:
    if options.export is not None:
        check_table_file(options.export)
    check_promise_options(options)
    check_parameter("keep", options.keep, 0 < options.keep <= 1, expected="more than 0, at most 1", suggestion=0.8)
    check_parameter("risk", options.risk, 0 <= options.risk <= 1, expected="from 0 to 1", suggestion=0.05)
    # Deferred imports: a wrong option is reported without pandas.
    from lopgpn_exp.evaluation.node_table import find_measures
    from lopgpn_exp.evaluation.trust import score_flags
    from lopgpn_exp.report.console import Console, print_table
    from lopgpn_exp.report.trust_report import describe_limits, render_reliability, render_selection

    check_graph_options(options)
    run = open_run(options)
    check_output_file("export", run, options)
    limits = fit_run_limits(run, options)
    rule = fit_run_rule(run, limits, options)
    nodes, sets = _apply(run, limits, rule, options)
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
    print_table(render_reliability(reliability))
    console.print(describe_limits(limits), style="dim")
    console.print("\nSelective prediction: accepting the least uncertain nodes first", style="bold")
    print_table(render_selection(uncertainties, is_correct, coverage=options.keep, risk=options.risk))
    if sets is not None:
        _print_sets(console, sets, scored)
    if rule is not None:
        _print_accepted(console, rule, scored, is_correct)
    if options.export is not None:
        write_table(options.export, reliability)
    words = repeat_options(options, GRAPH_OPTIONS | JUDGEMENT_OPTIONS)
    return CommandResult([options.export], [["predict", options.run, *words]])


def _apply(
    run: SavedRun, limits: Limits, rule: AcceptanceRule | None, options: argparse.Namespace
) -> tuple[pd.DataFrame, RunSets | None]:
    """Return the nodes of the graph, and their prediction sets if a coverage is given.

    The run's own table suffices, without torch, unless the graph has changed or prediction sets are needed.
    """
    coverage = options.coverage
    if options.graph is None and coverage is None:
        return run.predictions, None
    # Deferred imports: need torch.
    from lopgpn_exp.evaluation.evaluate import tabulate_predictions
    from lopgpn_exp.runs.guarantees import check_coverage
    from lopgpn_exp.runs.prediction import apply_run

    if coverage is not None:
        check_coverage(run, coverage)
    changed = read_graph(run, options)
    posterior, sets = apply_run(run, limits, graph=changed, coverage=coverage, rule=rule)
    return run.predictions if changed is None else tabulate_predictions(posterior, changed), sets


def _print_sets(console: Console, sets: RunSets, scored: pd.DataFrame) -> None:
    """Print the coverage of the prediction sets, measured on labelled nodes."""
    from lopgpn_exp.evaluation.promise_scores import score_sets
    from lopgpn_exp.report.console import print_table
    from lopgpn_exp.report.guarantee_report import describe_calibration, describe_set_scores, render_set_scores

    is_in_set = sets.posterior.prediction_sets
    assert is_in_set is not None
    calibration = sets.calibration
    scores = score_sets(
        is_in_set.numpy()[scored["node"].to_numpy()],
        scored["label"].to_numpy(),
        scored["is_ood"].to_numpy(),
        rank=calibration.rank,
        num_calibration=calibration.num_calibration,
    )
    console.print(f"\n{describe_calibration(calibration, is_new_graph=sets.is_new_graph)}", style="bold")
    print_table(render_set_scores(scores))
    if warning := describe_set_scores(scores):
        console.print(warning, style="yellow")


def _print_accepted(console: Console, rule: AcceptanceRule, scored: pd.DataFrame, is_correct: np.ndarray) -> None:
    """Print how many accepted nodes are wrong, and whether this breaks the promise."""
    from lopgpn_exp.report.guarantee_report import describe_accepted_errors, describe_broken_bound, describe_rule

    is_accepted = rule.accept_nodes(scored)
    is_wrong, is_ood = ~is_correct[is_accepted], scored["is_ood"].to_numpy()[is_accepted]
    console.print(f"\n{describe_accepted_errors(is_wrong, is_ood)}", style="bold")
    console.print(describe_rule(rule), style="dim")
    if warning := describe_broken_bound(is_wrong[~is_ood], rule.max_error):
        console.print(warning, style="yellow")
