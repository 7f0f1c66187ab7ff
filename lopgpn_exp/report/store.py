"""All runs of a reproduction in one small file, from which every table and figure can be made again."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from lopgpn_exp.errors import InputError
from lopgpn_exp.report.names import DATASET_NAMES

KEYS = ["dataset", "model", "scenario", "split", "init", "variant", "run_id"]
NOTES = b"lopgpn_exp"
COSTS = ("epochs", "peak_rss_mb", "seconds/load", "seconds/prepare", "seconds/train", "seconds/evaluate")
METRICS = ("val/", "test/", "id/", "ood/", "change/")


@dataclass(frozen=True)
class Runs:
    """Runs and their accuracy-rejection curves.

    `variant` is empty for a run of the default config; else it names the overrides that make it another run. `notes`
    holds what the runs cannot tell: `numerics`, their numerics version; `left_out`, the datasets that could not be
    had; `stretches`, how long the command took each time it ran some of them; `repeats`, how runs made twice compare.
    """

    results: pd.DataFrame
    curves: pd.DataFrame
    notes: dict[str, Any]

    @property
    def main(self) -> pd.DataFrame:
        """Default runs on the paper's datasets: what enters the paper's table, and nothing else does."""
        return self.results[(self.results["variant"] == "") & self.results["dataset"].isin(list(DATASET_NAMES))]

    @property
    def main_curves(self) -> pd.DataFrame:
        return self.curves[(self.curves["variant"] == "") & self.curves["dataset"].isin(list(DATASET_NAMES))]


def save_runs(
    path: Path,
    results: Sequence[Mapping[str, Any]],
    *,
    variants: Mapping[str, str],
    notes: Mapping[str, Any],
    extend: bool = False,
) -> None:
    """Write the `result.json` of some runs; curves only of clean ones, which alone are drawn.

    Args:
        variants: of each run id, the overrides that tell it from a default run, or "".
        extend: whether the runs that the file holds already stay in it.
    """
    kept = _rows(path) if extend else {}
    new = (_row(result, variants[result["run_id"]]) for result in results)
    _write(path, kept | {_kind_of(row): row for row in new}, notes)


def add_runs(path: Path, other: Path) -> dict[str, Any]:
    """Take the runs of another such file into this one, and say how those that both hold compare.

    Of a run that both hold the other file's stays, with its seconds. Returns, and notes under `repeats`, how many runs
    were made twice (`runs`: those whose seconds are others too), in how many of them no metric differs by a bit
    (`same`), and for the rest their splits and the largest difference of an accuracy or an AUC-ROC in points (`splits`,
    `largest`).
    """
    old, added = load_runs(path).notes if path.is_file() else {}, load_runs(other).notes
    kept, new = (_rows(file) if file.is_file() else {} for file in (path, other))
    both = [(kept[kind], row) for kind, row in new.items() if kind in kept]
    for first, second in both:
        if first["run_id"] != second["run_id"]:
            raise InputError(
                f"{other} holds the run {second['run_id']}, which is {first['run_id']} here",
                expected="runs of the same config and the same data",
            )
    twice = [(first, second) for first, second in both if _seconds(first) != _seconds(second)]
    apart = [(difference, row["split"]) for first, row in twice if (difference := _apart(first, row)) is not None]
    repeat = {
        "runs": len(twice),
        "same": len(twice) - len(apart),
        "splits": sorted({split for _, split in apart}),
        "largest": max((difference for difference, _ in apart), default=0.0),
    }
    lists = {key: _joined(old.get(key, []), added.get(key, [])) for key in ("variants", "stretches", "repeats")}
    if twice:
        lists["repeats"] = _joined(lists["repeats"], [repeat])
    left_out = {**added.get("left_out", {}), **old.get("left_out", {})}
    _write(path, kept | new, {**added, **old, **lists, "left_out": left_out})
    return repeat


def _rows(path: Path) -> dict[tuple[Any, ...], dict[str, Any]]:
    """By what a run is, not by its id: a default run of another config takes the old one's place, never half of it."""
    return {_kind_of(row): row for row in pq.read_table(path).to_pylist()}


def _seconds(row: Mapping[str, Any]) -> dict[str, float]:
    return {key: value for key, value in row.items() if key.startswith("seconds/")}


def _joined(first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
    return [*first, *(each for each in second if each not in first)]


def _apart(first: Mapping[str, Any], second: Mapping[str, Any]) -> float | None:
    """None if two runs have the same metrics to the bit; else the largest difference of those that tables show."""
    metrics = [key for key in {**first, **second} if key.startswith(METRICS)]
    if all(first.get(key) == second.get(key) for key in metrics):
        return None
    shown = [key for key in metrics if key.endswith("/accuracy") or key.startswith("ood/auroc/")]
    pairs = [(first.get(key), second.get(key)) for key in shown]
    return max((100 * abs(one - two) for one, two in pairs if None not in (one, two)), default=0.0)


def _write(path: Path, by_kind: Mapping[tuple[Any, ...], Mapping[str, Any]], notes: Mapping[str, Any]) -> None:
    rows = list(by_kind.values())
    filled = {column for row in rows for column, value in row.items() if value is not None}
    columns = [*KEYS, *sorted(filled - set(KEYS))]
    rows.sort(key=lambda row: [row[key] for key in KEYS])
    table = pa.table(
        {column: pa.array([row.get(column) for row in rows], _kind(column, rows)) for column in columns}
    ).replace_schema_metadata({NOTES: json.dumps(dict(notes), sort_keys=True)})
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    pq.write_table(table, temporary, compression="zstd", compression_level=9)
    temporary.replace(path)


def _kind_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[key] for key in KEYS if key != "run_id")


def _row(result: Mapping[str, Any], variant: str) -> dict[str, Any]:
    return (
        {key: result[key] for key in KEYS if key != "variant"}
        | {"variant": variant}
        | result["metrics"]
        | {"epochs": result["epochs"], "peak_rss_mb": result["peak_rss_mb"]}
        | {key: result["versions"][key] for key in ("processor",) if key in result.get("versions", {})}
        | {f"seconds/{phase}": value for phase, value in result["seconds"].items()}
        | (result["curves"] if result["scenario"] == "none" else {})
    )


def load_runs(path: Path) -> Runs:
    try:
        with path.open("rb") as file:
            table = pq.read_table(file)
        notes = json.loads(table.schema.metadata[NOTES])
        frame = table.to_pandas()
        _check(frame, notes)
    except (OSError, pa.ArrowException, TypeError, KeyError, ValueError) as error:
        raise InputError(
            f"{path} cannot be read ({type(error).__name__}: {str(error)[:100]})",
            expected="the runs.parquet of a reproduction",
            hint="make reproduce-tables",
        ) from None
    arcs = [column for column in frame if column.startswith("arc/")]
    return Runs(frame.drop(columns=arcs), _long(frame, arcs), notes)


def _check(frame: pd.DataFrame, notes: Any) -> None:
    """Whether this is a file of runs at all, and not another one with our mark."""
    if missing := [column for column in (*KEYS, *COSTS) if column not in frame]:
        raise ValueError(f"no column {missing[0]!r}")
    if not isinstance(notes, dict) or not isinstance(notes.get("numerics"), int):
        raise ValueError("no numerics version")
    if not all(pd.api.types.is_integer_dtype(frame[key]) for key in ("split", "init")):
        raise ValueError("splits or initialisations are no whole numbers")


def _kind(column: str, rows: Sequence[Mapping[str, Any]]) -> pa.DataType:
    if column.startswith("arc/"):
        return pa.list_(pa.float32())
    sample = next(row[column] for row in rows if row.get(column) is not None)
    return {str: pa.string(), int: pa.int64()}.get(type(sample), pa.float64())


def _long(frame: pd.DataFrame, arcs: Sequence[str]) -> pd.DataFrame:
    """One row a run, measure and percent rejected."""
    parts = []
    for column in arcs:
        present = frame[frame[column].notna()]
        curves = present[KEYS].assign(measure=column.removeprefix("arc/"), accuracy=present[column])
        parts.append(curves.explode("accuracy", ignore_index=True))
    if not parts or not sum(map(len, parts)):
        return pd.DataFrame(columns=[*KEYS, "measure", "accuracy", "percent"])
    long = pd.concat(parts, ignore_index=True).astype({"accuracy": "float64"})
    return long.assign(percent=long.groupby([*KEYS, "measure"]).cumcount())
