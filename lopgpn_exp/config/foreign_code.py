"""Find the code that a stored config names and that is not part of this package, and check that it is unchanged."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import cache, reduce
from operator import getitem
from typing import Any

import yaml

from lopgpn_exp.config import default_config_dir
from lopgpn_exp.config.code_hash import add_code_hash, is_optimizer
from lopgpn_exp.config.limits import REQUIRED_KEYS
from lopgpn_exp.config.signature import import_callable
from lopgpn_exp.errors import InputError


def find_foreign_targets(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the targets of a config that none of our own config files names, by their place in the config.

    Optimisers of models do not count: they are classes of torch (see `method`).
    """
    groups = {group: config[group] for group in (*REQUIRED_KEYS, "posthoc") if isinstance(config.get(group), Mapping)}
    targets = dict(_find_targets(groups))
    return {path: str(target) for path, target in targets.items() if target not in _own_targets(path.split(".")[0])}


def _find_targets(node: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every `_target_` of a nested config with the place of its node."""
    for key, value in node.items():
        if isinstance(value, Mapping) and not is_optimizer(prefix.rstrip("."), key):
            if "_target_" in value or (not prefix and key in REQUIRED_KEYS):
                yield f"{prefix}{key}", value.get("_target_")
            yield from _find_targets(value, f"{prefix}{key}.")


def check_code(config: Mapping[str, Any], group: str) -> None:
    """Import the target of a group or of a node within, and check that its code is what the config was stored with.

    Raises:
        InputError: if the code has changed, if the config has no record of it, or if it is part of Python.
    """
    node = reduce(getitem, group.split("."), config)
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
    groups = ("model", "posthoc") if group in ("model", "posthoc") else (group,)
    files = [path for name in groups for path in (default_config_dir() / name).glob("*.yaml")]
    nodes = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) or {} for path in files}
    return [target for _, target in _find_targets(nodes, ".")]
