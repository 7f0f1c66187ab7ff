"""The one exception for what a user can put right."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

USER_MISTAKE = 2


class InputError(ValueError):
    """A mistake in a config, file, graph or value: what was wrong, what was expected, what to type.

    The command line shows its text without a traceback; any other exception is a defect of ours and keeps its own.
    """

    def __init__(self, what: str, *, expected: str, hint: str = "") -> None:
        self.what, self.expected, self.hint = what, expected, hint
        lines = [what, f"  expected: {expected}"] + ([f"  try:      {hint}"] if hint else [])
        super().__init__("\n".join(lines))

    def __reduce__(self) -> tuple:  # survives the trip back from a worker process
        return _rebuild, (self.what, self.expected, self.hint)


def _rebuild(what: str, expected: str, hint: str) -> InputError:
    return InputError(what, expected=expected, hint=hint)


@contextmanager
def mistakes_told() -> Iterator[None]:
    """At the top of a command: a mistake is one message and exit code 2."""
    try:
        yield
    except InputError as error:
        sys.stderr.write(f"\nlopgpn_exp: {error}\n")
        sys.exit(USER_MISTAKE)


def nearest(name: str, options: Iterable[str]) -> str | None:
    """The option most like `name`, or None where nothing comes close."""
    matches = get_close_matches(str(name), [str(option) for option in options], n=1, cutoff=0.5)
    return matches[0] if matches else None
