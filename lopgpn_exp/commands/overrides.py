"""Prepare the command line of a run for Hydra: options first, and values quoted where its grammar needs that."""

from __future__ import annotations

import os
import re
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from lopgpn_exp.commands.dispatch import PROGRAM, ArgumentParser
from lopgpn_exp.config.compose import check_config_dir
from lopgpn_exp.config.schema import PATH_KEYS
from lopgpn_exp.errors import InputError

MAX_DEPTH = 50
# What has a meaning of its own in Hydra's grammar, so that it is not quoted: quotes, lists, dicts, interpolations, and
# the functions of https://hydra.cc/docs/advanced/override_grammar/extended/
FUNCTIONS = "choice|range|interval|glob|sort|shuffle|tag|extend_list|int|float|str|bool|json_str"
SYNTAX = re.compile(rf"""\s*(['"\[{{]|({FUNCTIONS})\s*\()|.*\$\{{""", re.DOTALL)

FLAGS = (
    ("--resolve",),
    ("--run", "-r"),
    ("--help", "-h"),
    ("--hydra-help",),
    ("--version",),
    ("--shell-completion", "-sc"),
)
INFO = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")


def prepare_arguments(arguments: list[str]) -> list[str]:
    """Return the arguments for Hydra. It requires all overrides on one side of the options; people use both.

    Of Hydra's options, `--experimental-rerun` (it unpickles a file) and `--config-path` are not accepted.
    """
    parser = ArgumentParser(
        prog=f"{PROGRAM} run",
        usage=f"{PROGRAM} run [-m] [--config-dir DIR] [KEY=VALUE ...]",
        add_help=False,
        allow_abbrev=False,
    )
    parser.add_argument("--multirun", "-m", action="store_true")
    parser.add_argument("--config-dir", "-cd", type=Path)
    parser.add_argument("--config-name", "-cn")
    parser.add_argument("--cfg", "-c", choices=("job", "hydra", "all"))
    parser.add_argument("--package", "-p")
    parser.add_argument("--info", "-i", nargs="?", const="all", choices=INFO)
    for names in FLAGS:
        parser.add_argument(*names, action="store_true")
    parser.add_argument("overrides", nargs="*")
    options = parser.parse_intermixed_args(arguments)
    if options.config_dir is not None:
        options.config_dir = Path(os.path.expanduser(options.config_dir))
        check_config_dir(options.config_dir)
    if (options.package or options.resolve) and not (options.cfg or options.help):
        raise InputError("--package and --resolve only change what is shown", expected="--cfg job too")
    words = []
    for action in parser._actions:
        value = getattr(options, action.dest)
        if action.option_strings and value:
            words += [action.option_strings[0]] + [str(value)] * (action.nargs != 0)
    is_sweep = options.multirun or "hydra.mode=MULTIRUN" in options.overrides
    return [*words, *quote_overrides(options.overrides, is_sweep=is_sweep)]


def quote_overrides(words: list[str], *, is_sweep: bool) -> list[str]:
    """Return overrides that Hydra can read: a value that it cannot read is quoted if that is unambiguous.

    Args:
        is_sweep: whether a comma separates values; otherwise it is part of a path.
    """
    return [_quote_override(word, is_sweep=is_sweep) for word in words]


def _quote_override(word: str, *, is_sweep: bool) -> str:
    _check_depth(word)
    if _is_readable(word, is_sweep=is_sweep):
        return word
    key, separator, value = word.partition("=")
    values = value.split(",") if is_sweep else [value]
    readable = (_is_readable(f"{key}={part}", is_sweep=is_sweep) for part in values)
    quoted = ",".join(part if is_valid else _quote(part) for part, is_valid in zip(values, readable, strict=True))
    if not separator or any(map(SYNTAX.match, values)) or not _is_readable(f"{key}={quoted}", is_sweep=is_sweep):
        raise InputError(
            f"{word[:200]!r} is not a valid override",
            expected="group=option or group.key=value; a value with special characters in quotes",
            hint=f"\"{key[:200]}='VALUE'\"" if separator else "lopgpn_exp run --help",
        )
    return f"{key}={quoted}"


def _is_readable(word: str, *, is_sweep: bool) -> bool:
    """Return whether Hydra reads an override as it is meant: a path is not a number, nor a list of values."""
    try:
        override = OverridesParser.create().parse_override(word)
    except HydraException:
        return False
    except ValueError as error:  # a number with too many digits
        raise InputError(f"{word[:50]}... cannot be read ({error})", expected="a shorter value") from None
    if override.key_or_group not in PATH_KEYS:
        return True
    if override.is_sweep_override():
        return is_sweep or SYNTAX.match(word.partition("=")[2]) is not None
    return not isinstance(override.value(), bool | int | float)


def _check_depth(word: str) -> None:
    depth = 0
    for character in word:
        depth += (character in "[{(") - (character in "]})")
        if depth > MAX_DEPTH:
            raise InputError(
                f"{word.partition('=')[0][:200]} is nested more than {MAX_DEPTH} levels deep",
                expected="a plain value, a list or a dict",
            )


def _quote(value: str) -> str:
    """Return a value in quotes; a backslash is only special in front of a quote."""
    escaped = re.sub(r"(\\*)('|$)", lambda match: match[1] * 2 + ("\\'" if match[2] else ""), value)
    return f"'{escaped}'"
