"""`python -m lopgpn_exp.explain`: whose opinions made a node as uncertain as it is."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from lopgpn_exp.errors import InputError, mistakes_told
from lopgpn_exp.predict import add_graph_options, run_and_graph

COMMAND = "python -m lopgpn_exp.explain"
EXAMPLES = """examples:
  python -m lopgpn_exp.explain lop_gpn-custom-s0 scan-0042                    terminal, and scan-0042.svg
  python -m lopgpn_exp.explain RUN NODE --picture why.png --neighbours 20
  python -m lopgpn_exp.explain RUN NODE --graph nodes.csv --edges edges.csv   in a changed version of the graph

NODE is the id of the user's own file, or the number of a node. RUN is as for lopgpn_exp.predict.
"""
LONGEST_NAME = 80
PICTURES = (".svg", ".png", ".pdf")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog=COMMAND,
        description="One node: what it says, what it would say alone, and whose opinions made the difference.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_graph_options(parser)
    parser.add_argument("node", metavar="NODE", help="its id")
    parser.add_argument("--neighbours", type=int, default=12, help="how many nodes to show (%(default)s)")
    parser.add_argument("--picture", type=Path, metavar="FILE", help=".svg, .png or .pdf (default: NODE.svg)")
    with mistakes_told():
        _run(parser.parse_args(arguments))


def _run(options: argparse.Namespace) -> None:
    plain = "".join(c if c.isalnum() or c in "-_." else "_" for c in options.node)[:LONGEST_NAME]
    picture = options.picture or Path(f"{plain}.svg")
    if picture.suffix not in PICTURES:
        raise InputError(f"--picture {picture}", expected="a name that ends in " + ", ".join(PICTURES))
    if options.neighbours < 1:
        raise InputError(f"--neighbours is {options.neighbours}", expected="1 or more", hint="--neighbours 12")
    run, changed, notes = run_and_graph(options)

    from rich.console import Console

    from lopgpn_exp.evaluation.explanation import explain
    from lopgpn_exp.experiment.files import write_at_once
    from lopgpn_exp.experiment.prediction import class_names, node_number
    from lopgpn_exp.report.nodes.explanation import Namer, explanation_figure, explanation_text, joined

    graph = run.graph if changed is None else changed
    node = node_number(graph, options.node)
    opinions = run.model.opinions(graph, node, cache_dir=run.cache_dir)
    found = explain(
        graph,
        node,
        posterior=run.posterior if changed is None else run.model.predict(graph, cache_dir=run.cache_dir),
        weights=opinions.weights,
        alone=opinions.alone,
        pooled=opinions.pooled,
        most=options.neighbours,
    )
    ids = range(graph.num_nodes) if graph.legend is None else graph.legend.nodes
    names = Namer(ids, class_names(graph, run.num_classes))
    console = Console(highlight=False)
    for note in notes:
        console.print(f"note: {note}", markup=False)
    console.print(explanation_text(found, names, pooled_what=opinions.pooled))
    figure = explanation_figure(found, names, joined(graph, found), title=f"{options.node} · {run.title}")
    write_at_once(picture, lambda path: figure.savefig(path, dpi=150))
    sys.stdout.write(f"\npicture  {picture}\n")


if __name__ == "__main__":
    main()
