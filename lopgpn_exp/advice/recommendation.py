"""From the outcomes of trials to a recommendation: choose, describe, and write the page and the numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from lopgpn_exp.advice.candidates import Candidate
from lopgpn_exp.advice.trials import Outcome
from lopgpn_exp.data.files.survey import homophily
from lopgpn_exp.errors import InputError
from lopgpn_exp.evaluation.choice import Choice, choose_method, score_method
from lopgpn_exp.graph import Graph
from lopgpn_exp.report.choice_report import ChoiceReport, choice_page, to_rows
from lopgpn_exp.runs.saved_run import SavedRun
from lopgpn_exp.runs.storage import atomic_folder, write_json
from lopgpn_exp.sweeps.sweep_plan import create_record

NO_TIME = "no time left: more --minutes"


def choose_from_outcomes(outcomes: Sequence[Outcome], *, minutes: float) -> Choice:
    """Choose between the methods that have a finished run; raise an InputError if none has.

    Args:
        minutes: the time that was given, for the message.
    """
    methods = []
    for candidate in _candidates(outcomes):
        trials = [outcome.trial for outcome in outcomes if outcome.trial.candidate is candidate and outcome.is_finished]
        if trials:
            runs = {trial.half: SavedRun.open(trial.job.folder) for trial in trials}
            total = trials[0].total
            methods.append(score_method(candidate.name, runs, declared_total=total, uses_edges=candidate.uses_edges))
    if methods:
        return choose_method(methods)
    failed = [outcome.attempt for outcome in outcomes if outcome.attempt is not None and outcome.attempt.error]
    if failed:
        details = failed[0].job.folder / "error.txt"  # not there if the disk is full
        raise InputError(
            f"no method could be trained: {_describe_error(failed[0].error)}",
            expected="at least one" + (f"; the details are in {details}" if details.is_file() else ""),
        )
    raise InputError(
        f"no method finished within {minutes:g} minutes",
        expected="time for at least one training",
        hint=f"--minutes {max(1, math.ceil(4 * minutes))}",
    )


def build_report(choice: Choice, outcomes: Sequence[Outcome], graph: Graph, command: str) -> ChoiceReport:
    """Return what to tell the user.

    Args:
        graph: without the labels of its test nodes.
        command: trains the recommended method.
    """
    skipped: dict[str, str] = {}
    for outcome in outcomes:
        name = outcome.trial.candidate.name
        if outcome.is_finished:
            continue
        reason = NO_TIME if outcome.attempt is None else _describe_error(outcome.attempt.error)
        skipped.setdefault(f"{name} on one half of the nodes" if name in choice.by_name else name, reason)
    reasons = {candidate.name: candidate.reason for candidate in _candidates(outcomes)}
    return ChoiceReport(choice, _describe_edges(graph), reasons, skipped, command)


def _describe_edges(graph: Graph) -> str:
    share, by_chance = homophily(graph)
    if share is None:
        return "No edge joins two labelled nodes outside of the test nodes."
    return (
        f"{share:.0%} of the edges between labelled nodes (without test nodes) join nodes of the same class "
        f"({by_chance:.0%} by chance)."
    )


def write_advice(report: ChoiceReport, outcomes: Sequence[Outcome], output_dir: Path) -> list[Path]:
    """Write the page and the numbers to a folder whose name depends on the graph, the methods and their options."""
    record = create_record([outcome.trial.job for outcome in outcomes])
    folder = output_dir / "advice" / record.id.replace("sweep", "advice")
    choice = report.choice
    content = {
        "winner": choice.winner,
        "command": report.command,
        "sentences": report.sentences,
        "methods": to_rows(choice),
        "not_separated": choice.remaining,
        "graph": None if choice.graph_effect is None else choice.graph_effect.verdict,
        "skipped": dict(report.skipped),
        "run_ids": [outcome.trial.job.run_id for outcome in outcomes if outcome.is_finished],
    }
    with atomic_folder(folder) as temporary:
        write_json(temporary / "advice.json", content)
        (temporary / "page.html").write_text(choice_page(report, title="Which method to use"), encoding="utf-8")
    return [folder / "page.html", folder / "advice.json"]


def _candidates(outcomes: Sequence[Outcome]) -> list[Candidate]:
    """Return the candidates in the order of their first trials, from the simplest to the most complex."""
    return list(dict.fromkeys(outcome.trial.candidate for outcome in outcomes))


def _describe_error(text: str | None) -> str:
    """Return what was wrong and what was expected as one line."""
    what, _, details = (text or "").partition("\n")
    expected = [line.strip() for line in details.splitlines() if line.startswith("  expected:")]
    return "; ".join([what, *expected])
