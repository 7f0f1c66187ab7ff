"""What is known of single cells, from `known.yaml`: the one place where cells are treated by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

KEYS = ("dataset", "model", "scenario", "metric")


@dataclass(frozen=True)
class Entry:
    """Cells by their keys (a key that is not named means all), and what is to be said of them."""

    cells: Mapping[str, tuple[str, ...]]
    why: str
    tested: str = ""
    extent: str = "yes"

    def covers(self, cell: Mapping[str, Any]) -> bool:
        return all(cell[key] in values for key, values in self.cells.items())


@cache
def known() -> dict[str, tuple[Entry, ...]]:
    """`not_from_public_code` and `explanations`."""
    with files(__package__).joinpath("known.yaml").open() as file:
        content = yaml.safe_load(file)
    return {section: tuple(map(_entry, entries)) for section, entries in content.items()}


def first_covering(section: str, cell: Mapping[str, Any]) -> Entry | None:
    return next((entry for entry in known()[section] if entry.covers(cell)), None)


def _entry(node: Mapping[str, Any]) -> Entry:
    cells = {key: tuple(node[f"{key}s"]) for key in KEYS if f"{key}s" in node}
    if unknown := set(node) - {f"{key}s" for key in KEYS} - {"why", "tested", "extent"}:
        raise ValueError(f"known.yaml: {sorted(unknown)}")
    return Entry(cells, **{key: node[key] for key in ("why", "tested", "extent") if key in node})
