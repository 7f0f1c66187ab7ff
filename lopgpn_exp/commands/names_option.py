"""Options that commands share: lists of names, and whole numbers."""

from __future__ import annotations

from collections.abc import Collection

from lopgpn_exp.errors import InputError, nearest


def parse_names(text: str, valid_names: Collection[str], option: str) -> tuple[str, ...]:
    """Return the names of a list separated by commas, in the order of `valid_names`; `all` stands for all of them."""
    if text == "all":
        return tuple(valid_names)
    names, expected = text.replace(",", " ").split(), "some of " + ", ".join(valid_names)
    for name in names:
        if name not in valid_names:
            close = nearest(name, valid_names)
            raise InputError(
                f"{option} contains {name!r}", expected=expected, hint=f"{option} {close}" if close else ""
            )
    if not names:
        raise InputError(f"{option} is empty", expected=expected, hint=f"{option} {next(iter(valid_names))}")
    return tuple(name for name in valid_names if name in names)


def parse_number(text: str, option: str, largest: int) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= largest:
        raise InputError(f"{option} is {text!r}", expected=f"a whole number from 1 to {largest}", hint=f"{option} 2")
    return int(text)
