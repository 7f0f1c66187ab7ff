"""A check of the contract, its result, and the report on a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from lopgpn_exp.models import Model
from lopgpn_exp.testing.model_under_test import ModelUnderTest

CheckFunction = Callable[[ModelUnderTest], Iterator[str]]  # yields a description of each problem


class Status(StrEnum):
    PASSED = "passed"
    FAILED = "FAILED"
    NOT_RUN = "not run"  # a check that it requires did not pass
    SKIPPED = "skipped"  # by the caller, with a reason


class CheckFailedError(AssertionError):
    """Some checks failed."""


@dataclass(frozen=True)
class Check:
    """One property of a model that the framework relies on.

    Args:
        description: the property, as a statement.
        advice: where the cause of a failure usually is.
        requires: names of checks that must pass first.
        applies_to: the kind of model that is checked.
    """

    name: str
    description: str
    advice: str
    requires: tuple[str, ...]
    applies_to: type
    find_problems: CheckFunction

    def result(self, status: Status, details: str) -> CheckResult:
        return CheckResult(self.name, self.description, status, details, self.advice)


def check(
    description: str, *, advice: str, requires: tuple[str, ...] = ("predict_twice",), applies_to: type = Model
) -> Callable[[CheckFunction], Check]:
    """Decorator that turns a function `check_NAME` into the check NAME."""

    def decorate(function: CheckFunction) -> Check:
        name = function.__name__.removeprefix("check_")
        return Check(name, description, advice, requires, applies_to, function)

    return decorate


@dataclass(frozen=True)
class CheckResult:
    """The result of one check; `details` is what was observed, or why the check was not run or skipped."""

    name: str
    description: str
    status: Status
    details: str
    advice: str

    def __str__(self) -> str:
        lines = [f"  {self.status:8} {self.name:17} {self.description}"]
        if self.status is Status.FAILED:
            lines += [f"{'':11}observed: {self.details}", f"{'':11}advice:   {self.advice}"]
        elif self.details:
            lines.append(f"{'':11}{self.details}")
        return "\n".join(lines)

    @property
    def message(self) -> str:
        """The text of the error that a failure raises."""
        return f"{self.name}: {self.details}\n  expected: {self.description}\n  advice:   {self.advice}"

    def raise_on_failure(self) -> None:
        if self.status is Status.FAILED:
            raise CheckFailedError(self.message)


@dataclass(frozen=True)
class CheckReport:
    """The results of all checks of a model, in the order in which they ran."""

    model: str
    results: tuple[CheckResult, ...]

    def __getitem__(self, name: str) -> CheckResult:
        return next(result for result in self.results if result.name == name)

    def __str__(self) -> str:
        return "\n".join([self.model, *map(str, self.results), self.summary])

    @property
    def summary(self) -> str:
        """Counts by status, such as `20 checks: 18 passed, 1 failed, 1 not run`."""
        counts = Counter(result.status for result in self.results)
        parts = ", ".join(f"{counts[status]} {status.lower()}" for status in Status if counts[status])
        return f"{len(self.results)} checks: {parts}"

    @property
    def failed(self) -> list[str]:
        """Names of the checks that failed."""
        return [result.name for result in self.results if result.status is Status.FAILED]

    def raise_on_failure(self) -> None:
        """Raise one error that describes all failures, if there are any."""
        if self.failed:
            messages = [self[name].message for name in self.failed]
            raise CheckFailedError("\n".join([self.model, *messages]))
