"""`python -m lopgpn_exp.predict`: a trained run on its graph or a changed one, every node with a plain flag."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lopgpn_exp.errors import InputError, mistakes_told

if TYPE_CHECKING:
    from lopgpn_exp.experiment.finished import Finished
    from lopgpn_exp.experiment.prediction import Prediction
    from lopgpn_exp.graph import Graph

COMMAND = "python -m lopgpn_exp.predict"
EXAMPLES = """examples:
  python -m lopgpn_exp.predict lop_gpn-custom-s0                         the run's own graph
  python -m lopgpn_exp.predict RUN --graph nodes.csv --edges edges.csv   a changed version: new nodes, edges, features
  python -m lopgpn_exp.predict RUN --accuracy 0.99 --output trusted.parquet

Flags, by limits that are set on the run's validation nodes:
  trust      within both limits: of such validation nodes, --accuracy are right
  ambiguous  its class is open (aleatoric): more data of this kind would not help
  unknown    unlike what was learned from (epistemic): at most --unknown of the validation nodes are
RUN is a run id or how it begins, the folder of a run, or an MLflow run id.
"""
SHOWN = 8


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog=COMMAND,
        description="Which nodes not to trust, and why: class, probabilities, measures and a flag for every node.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_graph_options(parser)
    add_limit_options(parser)
    parser.add_argument("--output", type=Path, default=Path("predictions.csv"), help="the table: .csv or .parquet")
    with mistakes_told():
        _run(parser.parse_args(arguments))


def add_graph_options(parser: argparse.ArgumentParser) -> None:
    """What names a run and a graph to apply it to."""
    parser.add_argument("run", metavar="RUN", help="a finished run")
    parser.add_argument("--graph", type=Path, metavar="FILE", help="another version of its graph: a file or folder")
    parser.add_argument("--edges", type=Path, metavar="FILE", help="the table of edges, where --graph is that of nodes")
    parser.add_argument("--output-dir", type=Path, default=Path("outputs"))
    parser.add_argument("--uri", help="where MLflow ids are looked up, as in tracking.uri")


def add_limit_options(parser: argparse.ArgumentParser) -> None:
    """Where the limits of trust lie."""
    parser.add_argument("--accuracy", type=float, default=0.95, help="of trusted validation nodes (%(default)s)")
    parser.add_argument("--unknown", type=float, default=0.05, help="share of validation nodes (%(default)s)")
    parser.add_argument("--epistemic", help="measure that tells unknown nodes: eu_so (default), eu or eu_pc")


def run_and_graph(options: argparse.Namespace) -> tuple[Finished, Graph | None, list[str]]:
    """The run, the changed graph where one is named, and what was passed over in reading it."""
    from lopgpn_exp.experiment.one_run import one_run

    if options.edges is not None and options.graph is None:
        raise InputError("--edges without --graph", expected="the table of nodes too", hint="--graph nodes.csv")
    run = one_run(options.run, options.output_dir, uri=options.uri)
    if options.graph is None:
        return run, None, []
    from lopgpn_exp.experiment.prediction import changed_graph  # torch: a wrong name does without

    return run, *changed_graph(run, options.graph, options.edges)


def next_command(name: str, options: argparse.Namespace, *words: str) -> str:
    """Another command on the same run and graph, as it can be typed."""
    named = {"--graph": options.graph, "--edges": options.edges, "--uri": options.uri}
    if options.output_dir != Path("outputs"):
        named["--output-dir"] = options.output_dir
    rest = [str(word) for option, value in named.items() if value is not None for word in (option, value)]
    return shlex.join(["python", "-m", f"lopgpn_exp.{name}", options.run, *words, *rest])


def predicted(options: argparse.Namespace) -> Prediction:
    """The prediction that the options of a command ask for."""
    run, graph, notes = run_and_graph(options)
    from lopgpn_exp.experiment.prediction import predict_run, validation_limits

    wishes = {"target": options.accuracy, "unknown_share": options.unknown, "epistemic": options.epistemic}
    found = validation_limits(run.predictions, **wishes)
    return predict_run(run, found, graph=graph, notes=notes)


def _run(options: argparse.Namespace) -> None:
    from lopgpn_exp.experiment.files import check_table_name, write_table

    check_table_name(options.output, "--output")
    prediction = predicted(options)
    from rich.console import Console

    from lopgpn_exp.experiment.prediction import suspicious
    from lopgpn_exp.report.nodes.flags import flag_summary, node_rows

    write_table(options.output, prediction.table)
    console = Console(highlight=False)
    for note in prediction.notes:
        console.print(f"note: {note}", markup=False)
    console.print(f"\n{len(prediction.table):,} nodes of {options.run}", markup=False, style="bold")
    console.print(flag_summary(prediction.table["flag"], prediction.limits))
    worst = suspicious(prediction, SHOWN)
    if len(worst):
        measures = [m for m in ("au", "eu", "eu_so") if m in worst] or ["tu"]
        console.print("\nLeast to be trusted, those without a label first")
        console.print(node_rows(worst, measures))
    sys.stdout.write(f"\nwritten  {options.output}\n")
    sys.stdout.write(f"next     {next_command('score', options)}\n")
    if len(worst):
        sys.stdout.write(f"         {next_command('explain', options, str(worst['id'].iloc[0]))}\n")


if __name__ == "__main__":
    main()
