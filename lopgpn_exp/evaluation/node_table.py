"""The table of nodes that every run keeps: its columns, and the check of a table that was read from a file."""

from __future__ import annotations

import numpy as np
import pandas as pd

REQUIRED_COLUMNS = ("node", "part", "label", "predicted", "confidence", "is_ood")
NODE_COLUMNS = (*REQUIRED_COLUMNS, "id", "label_name", "predicted_name")  # all others are measures
PARTS = ("none", "train", "val", "test")  # the names of `graph.Part`, which needs torch


def check_node_table(table: pd.DataFrame) -> None:
    """Raise a ValueError unless a table of nodes, as read from a file, has the columns and types of a valid one."""
    types = pd.api.types
    if missing := [name for name in REQUIRED_COLUMNS if name not in table]:
        raise ValueError(f"there is no column {missing[0]!r}")
    if not all(types.is_integer_dtype(table[name]) for name in ("node", "label", "predicted")):
        raise ValueError("nodes or classes are not whole numbers")
    if not types.is_bool_dtype(table["is_ood"]) or not table["part"].isin(PARTS).all():
        raise ValueError("is_ood or part has other values than expected")
    if not (table["node"] == np.arange(len(table))).all():
        raise ValueError("the nodes are not numbered in order")
    for name in ("confidence", *find_measures(table)):
        if not types.is_float_dtype(table[name]) or not np.isfinite(table[name]).all():
            raise ValueError(f"{str(name)[:40]!r} has values that are not finite numbers")


def find_measures(table: pd.DataFrame) -> list[str]:
    """Return the columns of a table of nodes that are measures."""
    return [column for column in table.columns if column not in NODE_COLUMNS]
