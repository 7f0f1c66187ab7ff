"""The names of nodes, classes and features in the file that a graph was read from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped


@dataclass(frozen=True, eq=False)
class Legend:
    """Maps the integers of a graph to the names in its source file, which output tables use.

    Args:
        nodes: id of each node, strings or integers.
        classes: name of each class; classes that a scenario leaves out come last.
        features: name of each feature column.
        scaling: the scaling of `lopgpn_exp.data.files` that was applied to the features.
        shift, scale: what was subtracted from each column, and what the result was divided by; another version of the
            file is scaled in the same way. None if features are unscaled or scaled by row.
        unlabelled: what stands in the file for the label of a node whose class is unknown. Used in messages only.
        scaling_note: why this scaling was chosen, if it was. Used in messages only.
    """

    nodes: Shaped[np.ndarray, " nodes"]
    classes: tuple[str, ...]
    features: tuple[str, ...]
    scaling: str = "none"
    shift: Float[np.ndarray, " features"] | None = None
    scale: Float[np.ndarray, " features"] | None = None
    unlabelled: str = "-1"
    scaling_note: str = ""

    def fingerprint_text(self) -> str:
        """Return the text that the fingerprint of a graph includes: names and scaling affect the files of a run."""
        return json.dumps([list(map(str, self.nodes)), self.to_json()])

    def to_json(self) -> dict[str, Any]:
        """Return everything except the nodes, which differ between versions of a graph."""
        return {
            "classes": list(self.classes),
            "features": list(self.features),
            "scaling": self.scaling,
            "shift": None if self.shift is None else self.shift.tolist(),
            "scale": None if self.scale is None else self.scale.tolist(),
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Legend:
        """Return the legend that `to_json` stored, without nodes.

        Raises:
            ValueError, KeyError, TypeError: if it is something else.
        """
        classes, features = stored["classes"], stored["features"]
        if not all(isinstance(names, list) and all(isinstance(n, str) for n in names) for names in (classes, features)):
            raise ValueError("classes or features are not lists of names")
        shift, scale = (_read_numbers(stored, key, len(features)) for key in ("shift", "scale"))
        if (shift is None) != (scale is None):
            raise ValueError("only one of shift and scale is given")
        nodes = np.empty(0, dtype=object)
        return cls(nodes, tuple(classes), tuple(features), str(stored["scaling"]), shift, scale)


def _read_numbers(stored: Mapping[str, Any], key: str, count: int) -> Float[np.ndarray, " features"] | None:
    if stored[key] is None:
        return None
    numbers = np.asarray(stored[key], dtype=np.float64)
    if numbers.shape != (count,) or not np.isfinite(numbers).all():
        raise ValueError(f"{key} is not a finite number for each of {count} features")
    return numbers
