"""What became of each promise, and saying so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    kept = "kept"
    broken = "BROKEN"
    untested = "untested"  # what it takes is itself broken
    excused = "excused"  # the caller's word, with a reason


class BrokenPromiseError(AssertionError):
    """Which promise, what was seen, and what to look at."""


@dataclass(frozen=True)
class Outcome:
    """What became of one promise; `details` is what was seen, why it could not be tested, or why it is excused."""

    name: str
    promised: str
    status: Status
    details: str = ""
    look_at: str = ""

    def __str__(self) -> str:
        lines = [f"  {self.status:9} {self.name:16} {self.promised}"]
        if self.status is Status.broken:
            lines += [f"{'':12}seen: {self.details}", f"{'':12}look at: {self.look_at}"]
        elif self.details:
            lines.append(f"{'':12}{self.details}")
        return "\n".join(lines)

    def raise_if_broken(self) -> None:
        if self.status is Status.broken:
            raise BrokenPromiseError(self.message)

    @property
    def message(self) -> str:
        return f"{self.name}: {self.details}\n  promised: {self.promised}\n  look at:  {self.look_at}"


@dataclass(frozen=True)
class Report:
    """All promises of a model, in the order in which they were tested."""

    model: str
    outcomes: tuple[Outcome, ...]

    def __getitem__(self, name: str) -> Outcome:
        return next(outcome for outcome in self.outcomes if outcome.name == name)

    def __str__(self) -> str:
        return "\n".join([self.model, *map(str, self.outcomes), summary(self.outcomes)])

    @property
    def broken(self) -> list[str]:
        return self._named(Status.broken)

    @property
    def untested(self) -> list[str]:
        return self._named(Status.untested)

    def raise_if_broken(self) -> None:
        """One error with all that was seen."""
        if self.broken:
            messages = [self[name].message for name in self.broken]
            raise BrokenPromiseError("\n".join([self.model, *messages]))

    def _named(self, status: Status) -> list[str]:
        return [outcome.name for outcome in self.outcomes if outcome.status is status]


def summary(outcomes: Iterable[Outcome]) -> str:
    """`16 promises: 14 kept, 1 broken, 1 untested`."""
    counts = Counter(outcome.status for outcome in outcomes)
    told = ", ".join(f"{counts[status]} {status.lower()}" for status in Status if counts[status])
    return f"{counts.total()} promises: {told}"
