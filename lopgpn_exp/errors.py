"""The exception for everything that a user can fix."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from functools import partial
from math import inf, isfinite
from typing import Any

# Control characters but newline and tab, line separators, and characters that change the direction of text.
_HIDDEN = (*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0), 0x061C, 0x200E, 0x200F)
_HIDDEN += (*range(0x2028, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000), 0xFEFF)
_ESCAPES = {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in _HIDDEN}


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


def check_in_range(
    name: str, value: float, *, low: float, high: float | None = None, reason: str = "", suggestion: Any
) -> None:
    """Raise an InputError unless `low <= value <= high`; without `high`, any finite number from `low` is valid.

    Args:
        reason: why there is an upper limit.
    """
    is_valid = low <= value and (isfinite(value) if high is None else value <= high)
    if high is None or high == inf:
        expected = f"{low:,} or more"
    elif not reason:
        expected = f"{low:,} to {high:,}"
    else:
        expected = f"at most {high:,}: {reason}" if value >= low else f"{low:,} or more"
    check_parameter(name, value, is_valid, expected=expected, suggestion=suggestion)


def printable(text: str) -> str:
    """Return `text` with control characters as escapes (`\\x1b`), so that text from a file cannot steer a terminal."""
    return text.translate(_ESCAPES)


def nearest(name: str, options: Iterable[str]) -> str | None:
    """Return the option most similar to `name`, or None if nothing comes close."""
    matches = get_close_matches(str(name), [str(option) for option in options], n=1, cutoff=0.5)
    return matches[0] if matches else None
