"""What a file says, before anything is made of it: the same for every format."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int, Shaped

from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Part

FORMATS = "a .pt file (PyG Data), an .npz file (PyG's citation layout), or tables of nodes and edges (.csv, .parquet)"
PARTS = {
    "train": Part.TRAIN,
    "training": Part.TRAIN,
    "val": Part.VAL,
    "valid": Part.VAL,
    "validation": Part.VAL,
    "test": Part.TEST,
    "none": Part.NONE,
    "": Part.NONE,
}


@dataclass
class RawGraph:
    """Nodes in the order of the file.

    Args:
        labels: name of each node's class, None where it is unknown; None altogether where the file has no labels.
        edges: as given, in node numbers: directed or not, repeated or not.
        part: `Part` of each node where the file brings a split.
        classes: names of all classes in their order, where the file has one.
        notes: what was passed over, to be told.
    """

    ids: Shaped[np.ndarray, " nodes"]
    features: Float[np.ndarray, "nodes features"]
    feature_names: tuple[str, ...]
    edges: Int[np.ndarray, "2 edges"]
    labels: list[str | None] | None
    part: Int[np.ndarray, " nodes"] | None = None
    classes: tuple[str, ...] | None = None
    notes: list[str] = field(default_factory=list)


@contextmanager
def told_of(path: Path, *, damage: tuple[type[Exception], ...], option: str = "dataset.path") -> Iterator[None]:
    """Whatever a parser makes of a damaged or foreign file becomes one message that names the file.

    Args:
        damage: what the parser raises.
        option: which value of the config named the file.
    """
    try:
        yield
    except InputError as error:
        raise InputError(f"{path}: {error.what}", expected=error.expected, hint=error.hint) from None
    except FileNotFoundError:
        expected = FORMATS if option == "dataset.path" else "a .csv or .parquet file"
        raise InputError(f"there is no file {path}", expected=expected, hint=f"{option}=FILE") from None
    except damage as error:
        detail = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise InputError(
            f"{path} cannot be read ({detail})",
            expected=f"a complete file: {FORMATS}",
            hint="write it again, and check that it opens where it was made",
        ) from None
