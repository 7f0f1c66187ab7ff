"""Arguments that several commands share: the run, its graph, the limits of trust, lists of names and numbers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lopgpn_exp.errors import InputError, check_parameter, nearest, printable
from lopgpn_exp.runs.query import ReadTags, find_run
from lopgpn_exp.tracking import read_tags

if TYPE_CHECKING:
    from lopgpn_exp.evaluation.acceptance import AcceptanceRule
    from lopgpn_exp.evaluation.trust import Limits
    from lopgpn_exp.graph import Graph
    from lopgpn_exp.runs.saved_run import SavedRun

RUN_HELP = "RUN is a run id or its beginning, the folder of a run, or an MLflow run id."
URI_HELP = "MLflow store in which MLflow ids are looked up, as in tracking.uri"
ACCURACY, UNKNOWN, CONFIDENCE = 0.95, 0.05, 0.95
GRAPH_OPTIONS = {"trust": False, "graph": None, "edges": None}  # names and defaults
JUDGEMENT_OPTIONS = {"accuracy": ACCURACY, "unknown": UNKNOWN} | dict.fromkeys(
    ("epistemic", "coverage", "max_error", "confidence")
)


def add_run_argument(
    parser: argparse.ArgumentParser, *, description: str = "a finished run", uri_help: str = URI_HELP
) -> None:
    parser.add_argument("run", metavar="RUN", help=description)
    parser.add_argument(
        "--trust", action="store_true", help="import code that the run names and that is not part of lopgpn_exp"
    )
    add_uri_option(parser, uri_help)


def add_uri_option(parser: argparse.ArgumentParser, description: str = URI_HELP) -> None:
    parser.add_argument("--uri", help=description)


def add_graph_options(parser: argparse.ArgumentParser) -> None:
    """Add the run, and the graph that its model is applied to."""
    add_run_argument(parser)
    parser.add_argument("--graph", type=Path, metavar="FILE", help="another version of its graph: a file or a folder")
    parser.add_argument("--edges", type=Path, metavar="FILE", help="the table of edges, if --graph is one of nodes")


def add_limit_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that set the limits of trust."""
    parser.add_argument("--accuracy", type=float, default=ACCURACY, help="of trusted validation nodes (%(default)s)")
    parser.add_argument(
        "--unknown", type=float, default=UNKNOWN, help="share of validation nodes flagged unknown (%(default)s)"
    )
    parser.add_argument("--epistemic", help="measure that flags unknown nodes, such as eu; default: the model's choice")


def add_promise_options(parser: argparse.ArgumentParser, *, sets: str, accepted: str) -> None:
    """Add the options that ask for prediction sets and for a bound on the errors of accepted nodes.

    Args:
        sets, accepted: what the command does with them, for `--help`.
    """
    parser.add_argument("--coverage", type=float, metavar="SHARE", help=sets)
    parser.add_argument("--max-error", type=float, metavar="SHARE", help=accepted)
    parser.add_argument(
        "--confidence", type=float, metavar="SHARE", help=f"with which --max-error is promised ({CONFIDENCE})"
    )


def check_promise_options(options: argparse.Namespace) -> None:
    """Raise an InputError about values out of range, before anything is read."""
    if options.confidence is not None and options.max_error is None:
        raise InputError(
            "--confidence is given without --max-error", expected="the error that is promised", hint="--max-error 0.05"
        )
    shares = {"coverage": (options.coverage, 0.9), "max_error": (options.max_error, 0.05)}
    shares["confidence"] = (options.confidence, CONFIDENCE)
    for name, (value, suggestion) in shares.items():
        is_valid = value is None or 0 < value < 1
        check_parameter(name, value, is_valid, expected="a share between 0 and 1", suggestion=suggestion)


def fit_run_rule(run: SavedRun, limits: Limits, options: argparse.Namespace) -> AcceptanceRule | None:
    """Return the rule that --max-error asks for, fitted to the validation nodes of the run."""
    if options.max_error is None:
        return None
    from lopgpn_exp.evaluation.acceptance import fit_acceptance_rule  # deferred import: --help works without pandas

    return fit_acceptance_rule(
        run.predictions,
        limits,
        max_error=options.max_error,
        confidence=CONFIDENCE if options.confidence is None else options.confidence,
        declared=run.declared_measures,
    )


def tag_reader(options: argparse.Namespace) -> ReadTags:
    """Return a function that reads the tags of an MLflow run."""
    return partial(read_tags, uri=options.uri, output_dir=options.output_dir)


def open_run(options: argparse.Namespace) -> SavedRun:
    return find_run(options.run, options.output_dir, read_tags=tag_reader(options), is_trusted=options.trust)


def open_run_and_graph(options: argparse.Namespace) -> tuple[SavedRun, Graph | None]:
    """Return the run and the changed graph, if one is given; print notes on what was skipped when it was read."""
    check_graph_options(options)
    run = open_run(options)
    return run, read_graph(run, options)


def check_graph_options(options: argparse.Namespace) -> None:
    """Raise an InputError if there are edges without nodes."""
    if options.edges is not None and options.graph is None:
        raise InputError(
            "--edges is given without --graph", expected="the table of nodes too", hint="--graph nodes.csv"
        )


def read_graph(run: SavedRun, options: argparse.Namespace) -> Graph | None:
    """Return the changed graph, if one is given; print notes on what was skipped when it was read."""
    if options.graph is None:
        return None
    from lopgpn_exp.runs.prediction import read_changed_graph  # deferred import: a typo is reported without torch

    try:
        graph, notes = read_changed_graph(run, options.graph, options.edges)
    except InputError as error:
        raise _in_terms_of_options(error) from None
    sys.stdout.writelines(f"note: {printable(note)}\n" for note in notes)
    return graph


def check_output_file(option: str, run: SavedRun, options: argparse.Namespace) -> None:
    """Raise an InputError if a table would replace a file that the run or the changed graph is read from.

    Args:
        option: the one that names the table.
    """
    file: Path | None = getattr(options, option)
    if file is None:
        return
    dataset = run.config["dataset"]
    for source in (options.graph, options.edges, dataset.get("path"), dataset.get("edges")):
        if source is None:
            continue
        path = Path(source).expanduser()
        if _is_same_file(file, path) or (file.stem in ("nodes", "edges") and _is_same_file(file, path / file.name)):
            raise InputError(
                f"{file} is a file that the graph is read from, which the table would replace",
                expected="another file",
                hint=f"--{option} {file.stem}_{option}{file.suffix}",
            )


def _is_same_file(first: Path, second: Path) -> bool:
    try:
        return first.samefile(second)
    except (OSError, ValueError):  # one of them does not exist
        return False


def fit_run_limits(run: SavedRun, options: argparse.Namespace) -> Limits:
    """Return the limits of trust, fitted to the validation nodes of the run."""
    from lopgpn_exp.evaluation.trust import fit_validation_limits  # deferred import: --help works without pandas

    return fit_validation_limits(
        run.predictions,
        accuracy=options.accuracy,
        unknown=options.unknown,
        epistemic=options.epistemic,
        declared=run.declared_measures,
    )


def repeat_options(options: argparse.Namespace, defaults: Mapping[str, object]) -> list[str]:
    """Return those options that differ from their defaults, for another command that should use them, too."""
    words = []
    for name, default in defaults.items():
        value = getattr(options, name)
        if value != default:
            words += [f"--{name.replace('_', '-')}"] + [str(value)] * (value is not True)
    return words


def print_line(text: str) -> None:
    """Print a line at once, also if the output is a file or a pipe."""
    sys.stdout.write(f"{printable(text)}\n")
    sys.stdout.flush()


def print_note(text: str) -> None:
    """Print what the user should know about the output on stderr, so that it is seen if stdout is a file."""
    if text:
        sys.stderr.write(f"{printable(text)}\n")


def _in_terms_of_options(error: InputError) -> InputError:
    """Suggest the options of this command for the parameters of the reader."""
    value = "FILE" if error.suggestion is None else error.suggestion
    hints = {"path": f"--graph {value}", "edges": f"--edges {value}"}
    hints |= dict.fromkeys(
        ("id_column", "label_column", "source_column", "target_column"),
        "name the columns as in the file that the run was made from",
    )
    hints["memory_limit_gib"] = "use fewer nodes, or a machine with more memory"
    return error.with_hint(error.hint or hints.get(error.parameter, ""))


def parse_names(text: str, valid_names: Collection[str], option: str) -> tuple[str, ...]:
    """Return the names of a list separated by commas, in the order of `valid_names`; `all` stands for all of them."""
    if text == "all":
        return tuple(valid_names)
    names, expected = text.replace(",", " ").split(), "some of " + ", ".join(valid_names)
    for name in names:
        if name not in valid_names:
            close = nearest(name, valid_names)
            raise InputError(
                f"{option} contains {name!r}", expected=expected, hint=f"{option} {close}" if close else ""
            )
    if not names:
        raise InputError(f"{option} is empty", expected=expected, hint=f"{option} {next(iter(valid_names))}")
    return tuple(name for name in valid_names if name in names)


def parse_number(text: str, option: str, largest: int) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= largest:
        raise InputError(f"{option} is {text!r}", expected=f"a whole number from 1 to {largest}", hint=f"{option} 2")
    return int(text)
