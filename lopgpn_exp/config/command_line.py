"""The command line that makes the run of a stored config again."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from lopgpn_exp.config.compose import compose_config
from lopgpn_exp.config.limits import REQUIRED_KEYS
from lopgpn_exp.config.schema import flatten

# Keys that are added when a run is stored, and keys that do not affect its result.
IGNORED_KEYS = re.compile(r"tracking\..*|.*\.(code|data)_hash|output_dir|force|dry_run|inits|trainer\.progress")


def find_overrides(config: Mapping[str, Any]) -> list[str]:
    """Return the overrides that compose a config.

    Raises:
        InputError: if one of its groups is not among our config files.
    """
    groups = tuple(f"{group}={config[group]['name']}" for group in REQUIRED_KEYS)
    default = _compose(groups)
    values = [(key, value) for key, value in flatten(config) if not IGNORED_KEYS.fullmatch(key)]
    changed = [(key, value) for key, value in values if key not in default or default[key] != value]
    return [*groups, *(f"{'' if key in default else '+'}{key}={_format(value)}" for key, value in changed)]


@cache
def _compose(groups: tuple[str, ...]) -> dict[str, Any]:
    return dict(flatten(compose_config(groups)))


def _format(value: Any) -> str:
    """Return a value in the syntax of an override."""
    if isinstance(value, list):
        return f"[{','.join(map(_format, value))}]"
    if isinstance(value, str) and not re.fullmatch(r"[\w./-]+", value, re.ASCII):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return value if isinstance(value, str) else json.dumps(value)
