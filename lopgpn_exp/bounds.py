"""`python -m lopgpn_exp.bounds`: how tight the paper's bounds on the differential entropy are, on a finished run."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from lopgpn_exp.errors import InputError, mistakes_told

COMMAND = "python -m lopgpn_exp.bounds"
EXAMPLES = """LOP-GPN's EU_SO is the upper bound of the paper's Eq. (14) on the differential entropy of a mixture. Here
the entropy itself is estimated by Monte Carlo, with a standard error a node, and put beside both bounds.

examples:
  python -m lopgpn_exp.bounds lop_gpn-cora_ml-s0-i0-gaussian              1,000 test nodes
  python -m lopgpn_exp.bounds RUN --nodes all --draws 4000                all of them, half the error
  python -m lopgpn_exp.bounds RUN --csv bounds.csv --html bounds.html     a row a node; a page with charts

RUN is a run id or how it begins, the folder of a run, or an MLflow run id.
"""


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog=COMMAND,
        description="Lower bound, exact value and upper bound of the differential entropy, node by node.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", metavar="RUN", help="a finished run whose posterior is a mixture: model=lop_gpn")
    parser.add_argument(
        "--nodes", default="1000", metavar="N", help="test nodes, drawn at random, or all (%(default)s)"
    )
    parser.add_argument("--draws", type=int, default=1000, metavar="N", help="of each node's mixture (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of the nodes and the draws (%(default)s)")
    parser.add_argument("--output-dir", type=Path, default=Path("outputs"))
    parser.add_argument("--uri", help="where MLflow ids are looked up, as in tracking.uri")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write a row a node")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with charts")
    with mistakes_told():
        _run(parser.parse_args(arguments))


def _run(options: argparse.Namespace) -> None:
    from lopgpn_exp.experiment.one_run import one_run

    most = _checked(options)
    run = one_run(options.run, options.output_dir, uri=options.uri)

    import torch  # a wrong name does without

    from lopgpn_exp.experiment.files import write_at_once
    from lopgpn_exp.posterior import DirichletMixture
    from lopgpn_exp.report.bounds import tightness
    from lopgpn_exp.report.bounds_text import page, show

    torch.set_num_threads(run.plan.trainer["threads"])
    if not isinstance(run.posterior, DirichletMixture):
        raise InputError(
            f"the posterior of {run.folder.name} is a {type(run.posterior).__name__}, whose entropy is known exactly"
            " or not at all",
            expected="a mixture of Dirichlets",
            hint="a run of model=lop_gpn",
        )
    found = tightness(run.posterior, run.predictions, most=most, num_draws=options.draws, seed=options.seed)
    if options.csv is not None:
        write_at_once(options.csv, lambda path: found.table.to_csv(path, index=False))
    if options.html is not None:
        write_at_once(options.html, lambda path: path.write_text(page(run.title, found), encoding="utf-8"))
    show(run.title, found)
    sys.stdout.write(f"\n{_next(options)}\n")


def _checked(options: argparse.Namespace) -> int | None:
    """Numbers that make sense; how many nodes, None for all."""
    if options.draws < 2:
        raise InputError(f"--draws {options.draws}", expected="2 or more: a single draw has no error", hint="1000")
    if options.seed < 0:
        raise InputError(f"--seed {options.seed}", expected="0 or more", hint="0")
    if options.nodes == "all":
        return None
    if not options.nodes.isdecimal() or int(options.nodes) < 2:
        raise InputError(f"--nodes {options.nodes}", expected="2 or more, or all", hint="--nodes 1000")
    return int(options.nodes)


def _next(options: argparse.Namespace) -> str:
    """What was written, and what to type for the rest."""
    written = [str(path) for path in (options.csv, options.html) if path is not None]
    folder = [] if options.output_dir == Path("outputs") else ["--output-dir", str(options.output_dir)]
    same = ["--nodes", options.nodes, "--draws", str(options.draws if options.html is None else 4 * options.draws)]
    more = ["--html", "bounds.html"] if options.html is None else []
    command = shlex.join([*COMMAND.split(), options.run, *folder, *same, *more])
    return "\n".join([*(f"written  {path}" for path in written), f"next     {command}"])


if __name__ == "__main__":
    main()
