"""`lopgpn_exp explain`: which nodes made a node as uncertain as it is."""

from __future__ import annotations

import argparse
from pathlib import Path

from lopgpn_exp.commands.dispatch import CommandResult
from lopgpn_exp.commands.shared import RUN_HELP, add_graph_options, open_run_and_graph
from lopgpn_exp.errors import InputError
from lopgpn_exp.runs.storage import atomic_write

DESCRIPTION = "One node: its prediction, what it would be without the graph, and which nodes made the difference."
EXAMPLES = f"""examples:
  lopgpn_exp explain lop_gpn-custom-s0 scan-0042                    terminal, and scan-0042.svg
  lopgpn_exp explain RUN NODE --picture why.png --neighbours 20
  lopgpn_exp explain RUN NODE --graph nodes.csv --edges edges.csv   in a changed version of the graph

NODE is the id in your own file, or the number of a node. {RUN_HELP}
"""
MAX_NAME_LENGTH = 80
PICTURE_SUFFIXES = (".svg", ".png", ".pdf")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_graph_options(parser)
    parser.add_argument("node", metavar="NODE", help="its id")
    parser.add_argument("--neighbours", type=int, default=12, help="how many nodes to show (%(default)s)")
    parser.add_argument("--picture", type=Path, metavar="FILE", help=".svg, .png or .pdf (default: NODE.svg)")


def execute(options: argparse.Namespace) -> CommandResult:
    file_name = "".join(c if c.isalnum() or c in "-_." else "_" for c in options.node)[:MAX_NAME_LENGTH]
    picture = options.picture or Path(f"{file_name}.svg")
    if picture.suffix not in PICTURE_SUFFIXES:
        raise InputError(f"--picture is {picture}", expected="a name that ends in " + ", ".join(PICTURE_SUFFIXES))
    if options.neighbours < 1:
        raise InputError(f"--neighbours is {options.neighbours}", expected="1 or more", hint="--neighbours 12")
    run, changed = open_run_and_graph(options)

    # Deferred imports: a typo is reported without torch and matplotlib.
    from lopgpn_exp.evaluation.explanation import explain
    from lopgpn_exp.report.console import Console
    from lopgpn_exp.report.explanation_report import NodeNames, draw_explanation, render_explanation
    from lopgpn_exp.runs.prediction import class_names, find_node, node_ids

    graph = run.graph if changed is None else changed
    node = find_node(graph, options.node)
    opinions = run.model.opinions(graph, node, cache_dir=run.plan.cache_dir)
    posterior = run.posterior if changed is None else run.predict(graph)
    explanation = explain(graph, node, posterior=posterior, max_neighbours=options.neighbours, **vars(opinions))
    names = NodeNames(node_ids(graph), class_names(graph, run.num_classes))
    Console().print(render_explanation(explanation, names, pooled=opinions.pooled))
    figure = draw_explanation(explanation, names, graph, title=f"{options.node} · {run.result.title}")
    atomic_write(picture, lambda path: figure.savefig(path, dpi=150))
    return CommandResult([picture])
