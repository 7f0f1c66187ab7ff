"""`lopgpn_exp predict`: apply a trained run to its graph or a changed one, and flag every node."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from lopgpn_exp.commands.dispatch import LIMIT_EXCEEDED, CommandResult
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
    print_note,
    read_graph,
    repeat_options,
)
from lopgpn_exp.errors import InputError
from lopgpn_exp.runs.storage import check_table_file, write_table

if TYPE_CHECKING:
    from lopgpn_exp.evaluation.acceptance import AcceptanceRule
    from lopgpn_exp.report.console import Console
    from lopgpn_exp.runs.prediction import Prediction
    from lopgpn_exp.runs.saved_run import SavedRun

DESCRIPTION = "Which nodes not to trust, and why: class, probabilities, measures and a flag for every node."
EXAMPLES = f"""examples:
  lopgpn_exp predict lop_gpn-custom-s0                         the run's own graph
  lopgpn_exp predict RUN --graph nodes.csv --edges edges.csv   a changed version: new nodes, edges, features
  lopgpn_exp predict RUN --accuracy 0.99 --output trusted.parquet
  lopgpn_exp predict RUN --coverage 0.9                        sets that contain the class of 90 % of the nodes
  lopgpn_exp predict RUN --max-error 0.05 --confidence 0.95    accept nodes, at most 5 % of them wrong
  lopgpn_exp predict RUN --graph . --fail-above 0.2            in a pipeline: stop if the graph has changed too much

Flags, by limits that are fitted to the run's validation nodes:
  trust      within both limits; a share --accuracy of such validation nodes is predicted correctly
  ambiguous  more than one class fits (aleatoric); more data of this kind would not help
  unknown    unlike the training data (epistemic); a share --unknown of the validation nodes gets this flag

Promises (--coverage, --max-error) hold if nodes are like the run's validation nodes, not on a graph that has changed.

Exit codes: 0, 2 if an option or a file is wrong, and 3 if more than --fail-above of the nodes are unknown; the table is
written then, too.
{RUN_HELP}
"""
NODES_SHOWN = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_graph_options(parser)
    add_limit_options(parser)
    add_promise_options(
        parser,
        sets="add prediction sets that contain the class of this share of the nodes",
        accepted="accept nodes of which at most this share is wrong",
    )
    parser.add_argument(
        "--fail-above",
        type=float,
        metavar="SHARE",
        help="exit with code 3 if a larger share of the nodes of --graph is flagged unknown",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("predictions.csv"),
        help="table of nodes to write: .csv or .parquet (%(default)s)",
    )


def execute(options: argparse.Namespace) -> CommandResult:
    check_table_file(options.output)
    check_promise_options(options)
    if options.fail_above is not None and options.graph is None:
        raise InputError(
            "--fail-above is given without --graph", expected="a changed version of the graph", hint="--graph nodes.csv"
        )
    check_graph_options(options)
    run = open_run(options)
    check_output_file("output", run, options)
    limits = fit_run_limits(run, options)
    rule = fit_run_rule(run, limits, options)

    # Deferred imports: a typo is reported without torch.
    from lopgpn_exp.evaluation.graph_change import check_fail_above, compare_versions
    from lopgpn_exp.report.console import Console, print_table
    from lopgpn_exp.report.guarantee_report import render_change
    from lopgpn_exp.report.trust_report import render_flag_counts, render_nodes
    from lopgpn_exp.runs.guarantees import check_coverage
    from lopgpn_exp.runs.prediction import least_trusted, predict_run

    if options.fail_above is not None:
        check_fail_above(options.fail_above, limits)
    if options.coverage is not None:
        check_coverage(run, options.coverage)
    changed = read_graph(run, options)  # only now: it may be large
    prediction = predict_run(run, limits, graph=changed, coverage=options.coverage, rule=rule)
    write_table(options.output, prediction.table)
    console = Console()

    console.print(f"\n{len(prediction.table):,} nodes of {options.run}", style="bold")
    console.print(render_flag_counts(prediction.table["flag"], limits))
    exit_code = 0
    if changed is not None and limits.epistemic is not None:
        flags, ids = prediction.table["flag"].to_numpy(), prediction.table["id"]
        change = compare_versions(flags, ids, run.predictions, limits)
        console.print()
        print_table(render_change(change))
        if options.fail_above is not None and change.everything.share > options.fail_above:
            exit_code = LIMIT_EXCEEDED
    _print_promises(console, run, prediction, rule, is_changed=changed is not None)
    suspects = least_trusted(prediction, NODES_SHOWN)
    if len(suspects):
        measures = [name for name in (limits.aleatoric, limits.epistemic) if name is not None]
        console.print("\nLeast trusted, nodes without a label first")
        print_table(render_nodes(suspects, measures))
    if exit_code:
        share = f"{change.everything.share:.1%} of the nodes are flagged unknown"
        print_note(f"\nlopgpn_exp: {share}, more than --fail-above {options.fail_above:g}: exit code {exit_code}")
    next_commands = [["score", options.run, *repeat_options(options, GRAPH_OPTIONS | JUDGEMENT_OPTIONS)]]
    node = str(suspects["id"].iloc[0]) if len(suspects) else "-"
    if run.model.pools_opinions and not node.startswith("-"):  # which would be read as an option
        next_commands.append(["explain", options.run, node, *repeat_options(options, GRAPH_OPTIONS)])
    return CommandResult([options.output], next_commands, exit_code)


def _print_promises(
    console: Console, run: SavedRun, prediction: Prediction, rule: AcceptanceRule | None, *, is_changed: bool
) -> None:
    """Print what is promised about sets and accepted nodes, and where the promise ends."""
    if prediction.sets is None and rule is None:
        return
    from lopgpn_exp.report.guarantee_report import (
        describe_accepted,
        describe_calibration,
        describe_limitations,
        describe_rule,
        describe_set_sizes,
    )

    if prediction.sets is not None:
        sets = prediction.sets
        console.print(f"\n{describe_calibration(sets.calibration, is_new_graph=sets.is_new_graph)}", style="bold")
        console.print(describe_set_sizes(prediction.table["set_size"]), style="dim")
    if rule is not None:
        console.print(f"\n{describe_accepted(prediction.table)}", style="bold")
        console.print(describe_rule(rule), style="dim")
    for text in describe_limitations(run.predictions, is_changed=is_changed):
        console.print(f"\n{text}", style="yellow")
