"""`lopgpn_exp advise`: try a handful of methods on a graph, and say which one to use."""

from __future__ import annotations

import argparse
import logging
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lopgpn_exp.commands.dispatch import DEFAULT_OUTPUT_DIR, PROGRAM, CommandResult
from lopgpn_exp.commands.overrides import quote_overrides
from lopgpn_exp.commands.shared import print_line
from lopgpn_exp.errors import InputError
from lopgpn_exp.runs.storage import create_output_dir

if TYPE_CHECKING:
    from lopgpn_exp.advice.trials import Outcome, Trial

DESCRIPTION = "Which method to use on your graph, and why. Compares methods on validation nodes only."
EXAMPLES = """examples:
  lopgpn_exp advise graph.npz --minutes 5
  lopgpn_exp advise nodes.csv --edges edges.csv --minutes 5
  lopgpn_exp advise nodes.csv --edges edges.csv --methods mlp,gcn,lop_gpn
  lopgpn_exp advise data dataset.label_column=kind 'dataset.ignore=[year]'   a folder, and options of dataset=custom

The rule: methods that are significantly worse than the best in accuracy drop out, then in rejection (AUARC), then in
calibration (ECE). Of those that are left, the simplest is recommended. The labels of test nodes are never used.
The same command continues where it was stopped; more --minutes add the methods for which there was no time.
"""
GROUPS = ("dataset.", "split.", "trainer.")  # of overrides that the comparison and the recommended command share
OWN_KEYS = ("dataset.path", "dataset.edges", "split.index", "split.count")
SURVEY_LOG = "lopgpn_exp.data.files.reader"
MAX_MINUTES = 60 * 24 * 365  # the timer of the operating system has a limit, too


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("graph", metavar="GRAPH", help="a file or a folder, as for dataset.path")
    parser.add_argument(
        "overrides", nargs="*", default=[], metavar="KEY=VALUE", help="options of dataset, split and trainer"
    )
    parser.add_argument("--edges", metavar="FILE", help="the table of edges, if GRAPH is one of nodes")
    parser.add_argument("--minutes", type=float, default=5.0, help="time for all trainings (%(default)g)")
    parser.add_argument("--methods", metavar="MODEL,MODEL", help="only these, as in model=...; default: a list")


def execute(options: argparse.Namespace) -> CommandResult:
    start = time.monotonic()
    if not 0 < options.minutes <= MAX_MINUTES:
        expected = f"a number above 0, at most {MAX_MINUTES:,}"
        raise InputError(f"--minutes is {options.minutes:g}", expected=expected, hint="--minutes 5")
    methods = _split_names(options.methods)
    overrides = _check_overrides(options.overrides)

    # Deferred imports: --help and wrong options need no torch.
    from lopgpn_exp.advice.candidates import select_candidates
    from lopgpn_exp.advice.recommendation import build_report, choose_from_outcomes, write_advice
    from lopgpn_exp.advice.trials import plan_trials
    from lopgpn_exp.report.choice_report import print_choice

    candidates = select_candidates(methods)
    values: dict[str, Any] = {"dataset.path": options.graph, "dataset.edges": options.edges}
    try:
        with _print_survey():
            trials, graph = plan_trials(candidates, overrides, values | {"output_dir": str(options.output_dir)})
    except InputError as error:
        raise _in_terms_of_options(error) from None
    create_output_dir(options.output_dir)
    names = ", ".join(candidate.name for candidate in candidates)
    print_line(f"\nComparing {names} on validation nodes, for at most {options.minutes:g} minutes")
    outcomes = _run(trials, deadline=start + 60 * options.minutes)
    choice = choose_from_outcomes(outcomes, minutes=options.minutes)
    words = [f"model={choice.winner}", "dataset=custom", f"dataset.path={options.graph}"]
    words += [f"dataset.edges={options.edges}"] * (options.edges is not None) + list(options.overrides)
    location = [f"output_dir={options.output_dir}"] * (options.output_dir != DEFAULT_OUTPUT_DIR)
    report = build_report(choice, outcomes, graph, shlex.join([PROGRAM, *words, *location]))
    print_choice(report)
    print_line(f"\n{time.monotonic() - start:.0f} s in total")
    written = write_advice(report, outcomes, options.output_dir)
    return CommandResult(written, [["run", *words], ["predict", f"{choice.winner}-{_dataset_name(overrides)}-s0"]])


def _split_names(text: str | None) -> list[str] | None:
    """Return the names in a list that is separated by commas; None if there is no list."""
    if text is None:
        return None
    names = text.replace(",", " ").split()
    if not names:
        raise InputError("--methods is empty", expected="names of models", hint="--methods mlp,gcn")
    return names


def _check_overrides(words: list[str]) -> list[str]:
    for word in words:
        key = word.partition("=")[0]
        if "=" not in word or not key.startswith(GROUPS) or key in OWN_KEYS:
            raise InputError(
                f"{word!r} cannot be set here",
                expected="options of dataset, split or trainer, such as dataset.label_column=kind",
                hint=f"{PROGRAM} advise --help",
            )
    return quote_overrides(words, is_sweep=False)


def _in_terms_of_options(error: InputError) -> InputError:
    """Suggest the options of this command where the message names overrides of `run`."""
    hints = {"path": f"{PROGRAM} advise GRAPH", "edges": f"--edges {error.suggestion or 'FILE'}"}
    if error.hint.startswith("model="):
        return error.with_hint(error.hint.replace("model=", "--methods ", 1))
    return error.with_hint(hints.get(error.parameter, error.hint))


def _run(trials: list[Trial], *, deadline: float) -> list[Outcome]:
    from tqdm import tqdm

    from lopgpn_exp.advice.trials import run_trials

    outcomes = []
    with tqdm(total=len(trials), unit="run", disable=None, dynamic_ncols=True) as bar:
        bar.set_description_str(trials[0].candidate.name)
        for outcome in run_trials(trials, deadline=deadline):
            outcomes.append(outcome)
            bar.update()
            if len(outcomes) < len(trials):
                bar.set_description_str(trials[len(outcomes)].candidate.name)
    return outcomes


def _dataset_name(overrides: list[str]) -> str:
    from lopgpn_exp.config.compose import compose_config

    return compose_config(["dataset=custom", *overrides])["dataset"]["name"]


@contextmanager
def _print_survey() -> Iterator[None]:
    """Print the description of the graph that its reader logs."""
    log, handler = logging.getLogger(SURVEY_LOG), logging.StreamHandler(sys.stdout)
    previous, log.propagate = (log.level, log.propagate), False
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.level, log.propagate = previous
