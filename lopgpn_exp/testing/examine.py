"""Asking a model for all its promises, one after the other, whatever becomes of each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from traceback import extract_tb

from lopgpn_exp.errors import InputError, nearest
from lopgpn_exp.testing.promises import PROMISES, Promise
from lopgpn_exp.testing.report import Outcome, Report, Status
from lopgpn_exp.testing.trial import Trial, one_thread_and_random_states_kept


def examined(trial: Trial) -> Report:
    return Report(str(trial), tuple(outcomes(trial)))


def outcomes(trial: Trial) -> Iterator[Outcome]:
    """What became of each promise that such a model makes, as soon as it is known."""
    _check_excused(trial)
    missing: set[str] = set()
    for promise in PROMISES:
        if not issubclass(trial.type, promise.of):
            continue
        with one_thread_and_random_states_kept():
            outcome = _outcome(promise, trial, missing)
        if outcome.status in (Status.broken, Status.untested):
            missing.add(promise.name)
        yield outcome


def _outcome(promise: Promise, trial: Trial, missing: set[str]) -> Outcome:
    if reason := trial.terms.excused.get(promise.name):
        return Outcome(promise.name, promise.promised, Status.excused, reason)
    if needed := [name for name in promise.needs if name in missing]:
        return Outcome(promise.name, promise.promised, Status.untested, f"it takes {' and '.join(needed)}")
    try:
        seen = list(promise.check(trial))
    except Exception as error:  # of the model's own, most likely: an answer like any other
        last = extract_tb(error.__traceback__)[-1]
        seen = [f"{type(error).__name__}: {error} ({Path(last.filename).name}, line {last.lineno})"]
    if seen:
        return Outcome(promise.name, promise.promised, Status.broken, "; ".join(seen), promise.look_at)
    return Outcome(promise.name, promise.promised, Status.kept)


def _check_excused(trial: Trial) -> None:
    names = [promise.name for promise in PROMISES]
    for name, reason in trial.terms.excused.items():
        if name not in names or not reason:
            raise InputError(
                f"{name!r} is excused for the reason {reason!r}",
                expected="a reason, and one of " + ", ".join(names),
                hint=nearest(name, names) or "",
            )
