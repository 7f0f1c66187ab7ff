"""`python -m lopgpn_exp.score`: how reliable are the flags of `predict` on nodes whose class is known."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from lopgpn_exp.errors import InputError, mistakes_told
from lopgpn_exp.predict import add_graph_options, add_limit_options, next_command, predicted

COMMAND = "python -m lopgpn_exp.score"
EXAMPLES = """examples:
  python -m lopgpn_exp.score lop_gpn-custom-s0
  python -m lopgpn_exp.score RUN --graph nodes.csv --edges edges.csv        on a version with more labels

Nodes that trained or set limits are left out. RUN is as for lopgpn_exp.predict.
"""


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog=COMMAND,
        description="How often nodes of each flag are right, and what each measure is good for in choosing nodes.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_graph_options(parser)
    add_limit_options(parser)
    parser.add_argument("--coverage", type=float, default=0.8, help="keep this share: which error? (%(default)s)")
    parser.add_argument("--risk", type=float, default=0.05, help="bear this error: which share? (%(default)s)")
    parser.add_argument("--export", type=Path, metavar="FILE", help="the table of flags: .csv or .parquet")
    with mistakes_told():
        _run(parser.parse_args(arguments))


def _run(options: argparse.Namespace) -> None:
    from lopgpn_exp.experiment.files import check_table_name, write_table

    if options.export is not None:
        check_table_name(options.export, "--export")
    from rich.console import Console

    from lopgpn_exp.evaluation.flags import flag_reliability
    from lopgpn_exp.evaluation.selective import check_shares
    from lopgpn_exp.posterior import MEASURES
    from lopgpn_exp.report.nodes.flags import limits_text, reliability_table, selection_table

    check_shares(coverage=options.coverage, risk=options.risk)
    prediction = predicted(options)
    table = prediction.table
    judged = (table["label"].notna() & ~table["part"].isin(["train", "val"])).to_numpy()
    if not judged.any():
        raise InputError(
            "no labelled node is left to judge by",
            expected="labels of nodes that neither trained nor validated",
            hint="--graph FILE with more labels, or a split with test nodes",
        )
    chosen, is_ood = table[judged], prediction.graph.is_ood.numpy()[judged]
    correct = (chosen["predicted"] == chosen["label"]).to_numpy()
    rows = flag_reliability(chosen["flag"].to_numpy(), correct, is_ood)
    measures = {name: chosen[name].to_numpy() for name in MEASURES if name in chosen}
    console = Console(highlight=False)
    console.print(f"\n{int(judged.sum()):,} labelled nodes of {options.run}, {correct.mean():.1%} right", style="bold")
    console.print(reliability_table(rows))
    console.print(limits_text(prediction.limits), style="dim", markup=False)
    console.print("\nNodes chosen by a measure, the least uncertain first", style="bold")
    console.print(selection_table(measures, correct, coverage=options.coverage, risk=options.risk))
    if options.export is not None:
        write_table(options.export, rows)
        sys.stdout.write(f"\nwritten  {options.export}\n")
    sys.stdout.write(f"\nnext     {next_command('predict', options)}\n")


if __name__ == "__main__":
    main()
