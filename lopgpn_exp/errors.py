"""The exception for everything that a user can fix."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from functools import partial
from typing import Any


class InputError(ValueError):
    """A mistake in a config, file, graph or value: what is wrong, what was expected, what to type.

    The command line prints it without a traceback. Any other exception is a bug and keeps its traceback.

    Args:
        what: what is wrong.
        expected: what would be right.
        hint: what to type. The layers below `config` name the parameter instead, from which a hint is derived.
        parameter: name of the argument that is wrong.
        suggestion: a value of that argument that would work.
    """

    def __init__(
        self, what: str, *, expected: str, hint: str = "", parameter: str = "", suggestion: Any = None
    ) -> None:
        self.what, self.expected, self.hint = what, expected, hint
        self.parameter, self.suggestion = parameter, suggestion
        lines = [what, f"  expected: {expected}"] + ([f"  try:      {hint}"] if hint else [])
        super().__init__("\n".join(lines))

    def __reduce__(self) -> tuple[Any, ...]:  # for pickle: worker processes send errors back
        details = {"expected": self.expected, "hint": self.hint}
        return partial(type(self), **details, parameter=self.parameter, suggestion=self.suggestion), (self.what,)

    def with_hint(self, hint: str, *, what: str | None = None) -> InputError:
        """Return a copy with another hint and, if given, another description of what is wrong."""
        rebuild, _ = self.__reduce__()
        return rebuild(what or self.what, hint=hint)


class FailedRunsError(Exception):
    """Some runs of a sweep failed; each failure has been reported already."""


def check_parameter(name: str, value: object, is_valid: bool, *, expected: str, suggestion: Any) -> None:
    """Raise an InputError about an argument unless its value is valid."""
    if not is_valid:
        raise InputError(f"{name} is {value}", expected=expected, parameter=name, suggestion=suggestion)


def nearest(name: str, options: Iterable[str]) -> str | None:
    """Return the option most similar to `name`, or None if nothing comes close."""
    matches = get_close_matches(str(name), [str(option) for option in options], n=1, cutoff=0.5)
    return matches[0] if matches else None
