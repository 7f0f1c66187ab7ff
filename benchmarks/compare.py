"""Compare two files bench.json: the ratio of every measurement, and which of them are slower beyond their spread."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.timing import Record
from lopgpn_exp.errors import InputError

# What identifies a measurement in each part of bench.json; `epochs` and `scaling` also depend on the threads.
KEYS = {
    "epochs": ("model", "dataset", "what", "threads"),
    "scaling": ("what", "num_nodes", "threads"),
    "runs": ("model", "dataset"),
    "startup": ("what",),
}
SINGLE_SPREAD = 0.1  # assumed of a measurement that was made once

Content = dict[str, Any]


def read_benchmark(path: Path) -> Content:
    """Read a bench.json, also of an earlier version, which has fewer parts."""
    try:
        content = json.loads(path.read_text())
        index_records(content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"{path} cannot be read ({reason})", expected="the bench.json of a benchmark") from None
    return content


def index_records(content: Content) -> dict[tuple[str, ...], Record]:
    """Return the measurements by what they are, their part of the file first."""
    return {
        (part, *(str(record[key]) for key in keys)): record
        for part, keys in KEYS.items()
        for record in content.get(part, [])
    }


def format_comparison(old: Content, new: Content) -> str:
    """Return one line per measurement that both files have: old, new, their ratio, and whether it is a regression.

    A measurement is slower, or faster, if the ratio differs from 1 by more than both spreads together.
    """
    before, after = index_records(old), index_records(new)
    shared = [key for key in after if key in before]
    lines = [f"{'':50s}{'old':>12s}{'new':>12s}{'new/old':>9s}"]
    num_slower = 0
    for key in shared:
        values = [_value(before[key]), _value(after[key])]
        ratio, spread = values[1] / values[0], _spread(before[key]) + _spread(after[key])
        verdict = "slower" if ratio > 1 + spread else "faster" if ratio < 1 - spread else ""
        num_slower += verdict == "slower"
        lines.append(f"{' '.join(key):50s}{values[0]:12.4g}{values[1]:12.4g}{ratio:9.2f}  {verdict}".rstrip())
    if old.get("machine") != new.get("machine"):
        lines.append("The machines differ: compare the ratios with those of the floor and of importing torch.")
    lines.append(f"{num_slower} of {len(shared)} measurements are slower by more than their spread.")
    return "\n".join(lines) + "\n"


def _value(record: Record) -> float:
    return float(record["seconds"] if "seconds" in record else record["value"])


def _spread(record: Record) -> float:
    return float(record["spread"]) if record.get("repeats", 1) > 1 else SINGLE_SPREAD
