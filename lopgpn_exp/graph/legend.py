"""What the numbers of a graph stand for in the file it came from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped


@dataclass(frozen=True, eq=False)
class Legend:
    """The user's own names, kept from the file that was read to the tables that are written.

    Args:
        nodes: id of each node, texts or whole numbers.
        classes: name of each class, those that a scenario leaves out last.
        features: name of each feature column.
        shift, scale: what was subtracted from each column and what it was then divided by, so that another version of
            the file is read on the same scale; None where features are as in the file or scaled row by row.
        scaling: which of the scalings of `data.custom` made the features.
    """

    nodes: Shaped[np.ndarray, " nodes"]
    classes: tuple[str, ...]
    features: tuple[str, ...]
    scaling: str = "none"
    shift: Float[np.ndarray, " features"] | None = None
    scale: Float[np.ndarray, " features"] | None = None

    def fingerprint_text(self) -> str:
        """For a graph's fingerprint: tables that name nodes otherwise are other tables, and a run that scaled its file
        otherwise reads the next version otherwise, though its features are the same."""
        return json.dumps([list(map(str, self.nodes)), self.as_json()])

    def as_json(self) -> dict[str, Any]:
        """All but the nodes, which differ between versions of a graph."""
        return {
            "classes": list(self.classes),
            "features": list(self.features),
            "scaling": self.scaling,
            "shift": None if self.shift is None else self.shift.tolist(),
            "scale": None if self.scale is None else self.scale.tolist(),
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Legend:
        return cls(
            nodes=np.empty(0, dtype=object),
            classes=tuple(map(str, stored["classes"])),
            features=tuple(map(str, stored["features"])),
            scaling=str(stored["scaling"]),
            shift=None if stored["shift"] is None else np.asarray(stored["shift"], dtype=np.float64),
            scale=None if stored["scale"] is None else np.asarray(stored["scale"], dtype=np.float64),
        )
