"""Import an object by its dotted path: the `_target_` of a config, the model class of a checkpoint."""

from __future__ import annotations

from functools import reduce
from importlib import import_module
from typing import Any


def import_target(path: str) -> Any:
    """Return the object at `path`: a member of a module, or a nested attribute such as a class inside a class."""
    module, _, name = path.rpartition(".")
    attributes = [name]
    while True:
        try:
            return reduce(getattr, attributes, import_module(module))
        except ModuleNotFoundError as error:
            outer, _, last = module.rpartition(".")
            if not outer or error.name != module:  # the module exists, but something that it imports does not
                raise
            module, attributes = outer, [last, *attributes]
