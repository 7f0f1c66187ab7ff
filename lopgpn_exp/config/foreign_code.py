"""Find the code that a stored config names and that is not part of this package, and check that it is unchanged."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

import yaml

from lopgpn_exp.config import default_config_dir
from lopgpn_exp.config.code_hash import add_code_hash
from lopgpn_exp.config.limits import REQUIRED_KEYS
from lopgpn_exp.config.signature import import_callable
from lopgpn_exp.errors import InputError


def find_foreign_targets(config: Mapping[str, Any]) -> dict[str, str]:
    """Return, by group, the targets of a config that none of our own config files names."""
    targets = {group: config[group].get("_target_") for group in REQUIRED_KEYS if isinstance(config[group], Mapping)}
    return {group: str(target) for group, target in targets.items() if target not in _own_targets(group)}


def check_code(config: Mapping[str, Any], group: str) -> None:
    """Import the target of a group, and check that its code is the code that the config was stored with.

    Raises:
        InputError: if the code has changed, if the config has no record of it, or if it is part of Python.
    """
    node = config[group]
    stored = {key: node.get(key) for key in ("code_version", "code_hash")}
    if not any(stored.values()):
        raise InputError(
            f"{group}._target_ is {node['_target_']}, and the run has no record of its code",
            expected="the code_hash or code_version of each class and function that is not part of lopgpn_exp",
            hint="repeat the command that made the run",
        )
    imported = import_callable(node["_target_"], group)
    if str(imported.__module__).partition(".")[0] in sys.stdlib_module_names:  # a code_version would stand for anything
        raise InputError(
            f"{group}._target_ is {node['_target_']}, which is part of Python",
            expected=f"a {group} of your own",
            hint="do not use this run: it was not made by this program",
        )
    current = add_code_hash(node, group)
    if any(current.get(key) != value for key, value in stored.items()):
        raise InputError(
            f"the code of {node['_target_']} has changed since the run was made",
            expected="the same code, or a run with the new one",
            hint="repeat the command that made the run",
        )


@cache
def _own_targets(group: str) -> list[str | None]:
    """Return the targets that our config files name. A list, since a target from a file may have no hash."""
    files = (default_config_dir() / group).glob("*.yaml")
    nodes = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in files]
    return [node["_target_"] for node in nodes if "_target_" in node]
