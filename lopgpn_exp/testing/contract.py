"""Check a model against the contract, given its class or its config."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from traceback import extract_tb
from typing import Any

from lopgpn_exp.errors import InputError, nearest
from lopgpn_exp.testing.check_types import Check, CheckReport, CheckResult, Status
from lopgpn_exp.testing.checks import CHECKS
from lopgpn_exp.testing.model_under_test import CheckSettings, ModelUnderTest, isolate_state


def check_model(model: type | str, /, *, settings: CheckSettings | None = None, **options: Any) -> CheckReport:
    """Run all checks on a model class or its import path; raise `CheckFailedError` if any fails.

    `options` are the keyword arguments of the class without `num_features` and `num_classes`.
    """
    report = run_checks(ModelUnderTest.from_class(model, options, settings))
    report.raise_on_failure()
    return report


def check_config(
    name: str, /, *overrides: str, config_dir: Path | str | None = None, settings: CheckSettings | None = None
) -> CheckReport:
    """Run all checks on the model of a config, with its options and optimiser; raise `CheckFailedError` if any fails.

    Args:
        name: as in `model=name`.
        overrides: as on the command line.
        config_dir: your own folder of configs.
    """
    report = run_checks(ModelUnderTest.from_config(name, *overrides, config_dir=config_dir, settings=settings))
    report.raise_on_failure()
    return report


def run_checks(subject: ModelUnderTest) -> CheckReport:
    """Run all checks and return their results, even if some fail."""
    return CheckReport(str(subject), tuple(iterate_checks(subject)))


def iterate_checks(subject: ModelUnderTest) -> Iterator[CheckResult]:
    """Run the checks that apply to this kind of model; yield each result as soon as it is available."""
    _validate_skips(subject.settings)
    unsuccessful: set[str] = set()
    for check in CHECKS:
        if not issubclass(subject.type, check.applies_to):
            continue
        with isolate_state():
            result = _run_check(check, subject, unsuccessful)
        if result.status in (Status.FAILED, Status.NOT_RUN):
            unsuccessful.add(check.name)
        yield result


def _run_check(check: Check, subject: ModelUnderTest, unsuccessful: set[str]) -> CheckResult:
    if reason := subject.settings.skip.get(check.name):
        return check.result(Status.SKIPPED, reason)
    if missing := [name for name in check.requires if name in unsuccessful]:
        return check.result(Status.NOT_RUN, f"requires {' and '.join(missing)}")
    try:
        problems = list(check.find_problems(subject))
    except Exception as error:  # the model may raise anything
        last = extract_tb(error.__traceback__)[-1]
        problems = [f"{type(error).__name__}: {error} ({Path(last.filename).name}, line {last.lineno})"]
    return check.result(Status.FAILED if problems else Status.PASSED, "; ".join(problems))


def _validate_skips(settings: CheckSettings) -> None:
    names = [check.name for check in CHECKS]
    for name, reason in settings.skip.items():
        if name not in names:
            close = nearest(name, names)
            raise InputError(
                f"there is no check {name!r} to skip",
                expected="one of " + ", ".join(names),
                parameter="skip",
                suggestion=f"{close}={reason}" if close else None,
            )
        if not reason:
            raise InputError(
                f"check {name!r} is skipped without a reason",
                expected="a reason, which is reported",
                parameter="skip",
                suggestion=f"{name}=REASON",
            )
