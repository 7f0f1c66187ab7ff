"""Recipes: how each block of the published table was computed, from `recipes.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, get_args, get_origin, get_type_hints

import yaml

from lopgpn_exp.paper.runs_file import RECIPE_PREFIX

CELL_KEYS = ("dataset", "model", "scenario")


@dataclass(frozen=True)
class Recipe:
    """How a block of published numbers was computed; see `recipes.yaml` for the fields."""

    name: str
    reason: str
    source: str
    cells: Mapping[str, tuple[str, ...]]
    network: Literal["trained", "untrained"] = "trained"
    measures: Literal["definition", "float32", "draws"] = "definition"
    entropy: Literal["posterior", "features"] = "posterior"
    num_draws: int = 0
    inits: int | None = None

    @property
    def variant(self) -> str:
        """The variant of its rows in `runs.parquet`."""
        return RECIPE_PREFIX + self.name

    def matches(self, cell: Mapping[str, Any]) -> bool:
        return all(cell[key] in values for key, values in self.cells.items())


@cache
def load_recipes() -> tuple[Recipe, ...]:
    with files(__package__).joinpath("recipes.yaml").open() as file:
        return tuple(map(_parse_recipe, yaml.safe_load(file)))


def find_recipe(*, dataset: str, model: str, scenario: str) -> Recipe | None:
    """Return the recipe of a block; None if the definitions give the published numbers."""
    cell = {"dataset": dataset, "model": model, "scenario": scenario}
    return next((recipe for recipe in load_recipes() if recipe.matches(cell)), None)


def _parse_recipe(node: Mapping[str, Any]) -> Recipe:
    cells = {key: tuple(node[f"{key}s"]) for key in CELL_KEYS if f"{key}s" in node}
    options = {key: value for key, value in node.items() if key not in [f"{key}s" for key in CELL_KEYS]}
    types = get_type_hints(Recipe)
    for key, value in options.items():
        if key not in types or key == "cells":
            raise ValueError(f"recipes.yaml: there is no key {key!r}")
        if get_origin(types[key]) is Literal and value not in get_args(types[key]):
            raise ValueError(f"recipes.yaml: {key} is {value!r}")
    return Recipe(cells=cells, **options)
