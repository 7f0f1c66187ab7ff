"""Notes on single published cells, from `cell_notes.yaml`: the only place where cells are treated by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

CELL_KEYS = ("dataset", "model", "scenario", "metric")
TEXT_KEYS = ("reason", "tested", "extent")


@dataclass(frozen=True)
class CellNote:
    """A note on all cells that match.

    Args:
        cells: values by key; a key that is not given matches everything.
        tested: how the reason was tested; empty for a guess.
        extent: how much of the difference the reason explains: `yes`, `in part` or `no`.
    """

    cells: Mapping[str, tuple[str, ...]]
    reason: str
    tested: str = ""
    extent: str = "yes"

    def matches(self, cell: Mapping[str, Any]) -> bool:
        return all(cell[key] in values for key, values in self.cells.items())


@cache
def load_cell_notes() -> tuple[CellNote, ...]:
    with files(__package__).joinpath("cell_notes.yaml").open() as file:
        return tuple(map(_parse_note, yaml.safe_load(file) or []))


def find_note(cell: Mapping[str, Any]) -> CellNote | None:
    """Return the first note that matches a cell."""
    return next((note for note in load_cell_notes() if note.matches(cell)), None)


def _parse_note(node: Mapping[str, Any]) -> CellNote:
    if unknown := set(node) - {f"{key}s" for key in CELL_KEYS} - set(TEXT_KEYS):
        raise ValueError(f"cell_notes.yaml: there is no key {sorted(unknown)[0]!r}")
    cells = {key: tuple(node[f"{key}s"]) for key in CELL_KEYS if f"{key}s" in node}
    return CellNote(cells, **{key: node[key] for key in TEXT_KEYS if key in node})
