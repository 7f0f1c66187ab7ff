"""`lopgpn_exp predict`: apply a trained run to its graph or a changed one, and flag every node."""

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
from lopgpn_exp.runs.storage import check_table_suffix, write_table

DESCRIPTION = "Which nodes not to trust, and why: class, probabilities, measures and a flag for every node."
EXAMPLES = f"""examples:
  lopgpn_exp predict lop_gpn-custom-s0                         the run's own graph
  lopgpn_exp predict RUN --graph nodes.csv --edges edges.csv   a changed version: new nodes, edges, features
  lopgpn_exp predict RUN --accuracy 0.99 --output trusted.parquet

Flags, by limits that are fitted to the run's validation nodes:
  trust      within both limits; a share --accuracy of such validation nodes is predicted correctly
  ambiguous  more than one class fits (aleatoric); more data of this kind would not help
  unknown    unlike the training data (epistemic); a share --unknown of the validation nodes gets this flag
{RUN_HELP}
"""
NODES_SHOWN = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_graph_options(parser)
    add_limit_options(parser)
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("predictions.csv"),
        help="table of nodes to write: .csv or .parquet (%(default)s)",
    )


def execute(options: argparse.Namespace) -> CommandResult:
    check_table_suffix(options.output)
    run, changed = open_run_and_graph(options)

    # Deferred imports: a typo is reported without torch.
    from lopgpn_exp.report.console import Console
    from lopgpn_exp.report.trust_report import render_flag_counts, render_nodes
    from lopgpn_exp.runs.prediction import least_trusted, predict_run

    prediction = predict_run(run, fit_run_limits(run, options), graph=changed)
    write_table(options.output, prediction.table)
    console = Console()

    console.print(f"\n{len(prediction.table):,} nodes of {options.run}", style="bold")
    console.print(render_flag_counts(prediction.table["flag"], prediction.limits))
    suspects = least_trusted(prediction, NODES_SHOWN)
    if len(suspects):
        measures = [name for name in (prediction.limits.aleatoric, prediction.limits.epistemic) if name is not None]
        console.print("\nLeast trusted, nodes without a label first")
        console.print(render_nodes(suspects, measures))
    next_commands = [["score", options.run, *graph_words(options)]]
    if len(suspects):
        next_commands.append(["explain", options.run, str(suspects["id"].iloc[0]), *graph_words(options)])
    return CommandResult([options.output], next_commands)
