"""`lopgpn_exp advise`: try a handful of methods on a graph, and say which one to use."""

from __future__ import annotations

import argparse
import logging
import math
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lopgpn_exp.commands.dispatch import DEFAULT_OUTPUT_DIR, PROGRAM, CommandResult
from lopgpn_exp.commands.overrides import quote_overrides
from lopgpn_exp.commands.shared import print_line
from lopgpn_exp.errors import InputError

if TYPE_CHECKING:
    from lopgpn_exp.advice.trials import Outcome, Trial
    from lopgpn_exp.evaluation.choice import Choice
    from lopgpn_exp.graph import Graph
    from lopgpn_exp.report.choice_report import ChoiceReport

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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("graph", metavar="GRAPH", help="a file or a folder, as for dataset.path")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="options of dataset, split and trainer")
    parser.add_argument("--edges", metavar="FILE", help="the table of edges, if GRAPH is one of nodes")
    parser.add_argument("--minutes", type=float, default=5.0, help="time for all trainings (%(default)g)")
    parser.add_argument("--methods", metavar="MODEL,MODEL", help="only these, as in model=...; default: a list")


def execute(options: argparse.Namespace) -> CommandResult:
    start = time.monotonic()
    if not 0 < options.minutes < math.inf:
        raise InputError(f"--minutes is {options.minutes:g}", expected="a number above 0", hint="--minutes 5")
    overrides = _check_overrides(options.overrides)

    # Deferred imports: --help and wrong options need no torch.
    from lopgpn_exp.advice.candidates import select_candidates
    from lopgpn_exp.advice.trials import plan_trials
    from lopgpn_exp.report.choice_report import print_choice

    candidates = select_candidates(options.methods and options.methods.split(","))
    values: dict[str, Any] = {"dataset.path": options.graph, "dataset.edges": options.edges}
    try:
        with _print_survey():
            trials, graph = plan_trials(candidates, overrides, values | {"output_dir": str(options.output_dir)})
    except InputError as error:
        raise _in_terms_of_options(error) from None
    names = ", ".join(candidate.name for candidate in candidates)
    print_line(f"\nComparing {names} on validation nodes, for at most {options.minutes:g} minutes")
    outcomes = _run(trials, deadline=start + 60 * options.minutes)
    choice = _choose(outcomes, options.minutes)
    words = [f"model={choice.winner}", "dataset=custom", f"dataset.path={options.graph}"]
    words += [f"dataset.edges={options.edges}"] * (options.edges is not None) + list(options.overrides)
    location = [f"output_dir={options.output_dir}"] * (options.output_dir != DEFAULT_OUTPUT_DIR)
    report = _build_report(choice, outcomes, graph, shlex.join([PROGRAM, *words, *location]))
    print_choice(report)
    print_line(f"\n{time.monotonic() - start:.0f} s in total")
    written = _write(report, outcomes, options.output_dir)
    return CommandResult(written, [["run", *words], ["predict", f"{choice.winner}-{_dataset_name(overrides)}-s0"]])


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


def _choose(outcomes: list[Outcome], minutes: float) -> Choice:
    """Choose between the methods with a finished run."""
    from lopgpn_exp.evaluation.choice import choose_method, score_method
    from lopgpn_exp.runs.saved_run import SavedRun

    methods = []
    for candidate in dict.fromkeys(outcome.trial.candidate for outcome in outcomes):
        finished = {
            outcome.trial.half: SavedRun.open(outcome.trial.job.folder)
            for outcome in outcomes
            if outcome.trial.candidate is candidate and outcome.is_finished
        }
        if finished:
            total = next(o.trial.total for o in outcomes if o.trial.candidate is candidate)
            scores = score_method(candidate.name, finished, declared_total=total, uses_edges=candidate.uses_edges)
            methods.append(scores)
    if not methods:
        failures = [o.attempt.error for o in outcomes if o.attempt is not None and o.attempt.error]
        if failures:
            raise InputError(f"no method could be trained: {failures[0]}", expected="at least one", hint="--methods gcn")
        raise InputError(
            f"no method finished within {minutes:g} minutes",
            expected="time for at least one training",
            hint=f"--minutes {max(1, math.ceil(4 * minutes))}",
        )
    return choose_method(methods)


def _build_report(choice: Choice, outcomes: list[Outcome], graph: Graph, command: str) -> ChoiceReport:
    from lopgpn_exp.data.files.survey import homophily
    from lopgpn_exp.report.choice_report import ChoiceReport

    share, by_chance = homophily(graph)
    sentence = ""
    if share is not None:
        sentence = (
            f"{share:.0%} of the edges between labelled training and validation nodes join nodes of the same class "
            f"({by_chance:.0%} by chance)."
        )
    skipped = {}
    for outcome in outcomes:
        name = outcome.trial.candidate.name
        if name not in choice.by_name:
            error = None if outcome.attempt is None else outcome.attempt.error
            skipped.setdefault(name, "no time left: more --minutes" if error is None else error.partition("\n")[0])
        elif outcome.attempt is None:
            skipped[f"{name} on the second half of the nodes"] = "no time left: more --minutes"
    reasons = {outcome.trial.candidate.name: outcome.trial.candidate.reason for outcome in outcomes}
    return ChoiceReport(choice, sentence, reasons, skipped, command)


def _write(report: ChoiceReport, outcomes: list[Outcome], output_dir: Path) -> list[Path]:
    """Write the page and the numbers to a folder whose name depends on the graph and the methods."""
    from lopgpn_exp.report.choice_report import choice_page, to_rows
    from lopgpn_exp.runs.storage import atomic_folder, write_json
    from lopgpn_exp.sweeps.sweep_plan import create_record

    record = create_record([outcome.trial.job for outcome in outcomes])
    folder = output_dir / "advice" / record.id.replace("sweep", "advice")
    effect = report.choice.graph_effect
    content = {
        "winner": report.choice.winner,
        "command": report.command,
        "sentences": report.sentences,
        "methods": to_rows(report.choice),
        "not_separated": report.choice.remaining,
        "graph": None if effect is None else effect.verdict,
        "skipped": dict(report.skipped),
        "run_ids": [outcome.trial.job.run_id for outcome in outcomes if outcome.is_finished],
    }
    with atomic_folder(folder) as temporary:
        write_json(temporary / "advice.json", content)
        page = choice_page(report, title="Which method to use")
        (temporary / "page.html").write_text(page, encoding="utf-8")
    return [folder / "page.html", folder / "advice.json"]


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
