"""All runs of a reproduction in one small file, from which every table and figure can be made again."""

from __future__ import annotations

import json
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


@dataclass(frozen=True)
class Runs:
    """Runs and their accuracy-rejection curves.

    `variant` is empty for a run of the default config; else it names the overrides that make it another run. `notes`
    holds what the runs cannot tell: `numerics`, their numerics version; `left_out`, the datasets that could not be
    had; `stretches`, how long the command took each time it ran some of them.
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
    # By what a run is, not by its id: a default run of another config takes the old one's place, never half of it.
    kept = {_kind_of(row): row for row in pq.read_table(path).to_pylist()} if extend else {}
    new = (_row(result, variants[result["run_id"]]) for result in results)
    rows = list((kept | {_kind_of(row): row for row in new}).values())
    columns = [*KEYS, *sorted({column for row in rows for column in row} - set(KEYS))]
    rows.sort(key=lambda row: [row[key] for key in KEYS])
    table = pa.table(
        {column: pa.array([row.get(column) for row in rows], _kind(column, rows)) for column in columns}
    ).replace_schema_metadata({NOTES: json.dumps(dict(notes), sort_keys=True)})
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.part")
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
        | {f"seconds/{phase}": value for phase, value in result["seconds"].items()}
        | (result["curves"] if result["scenario"] == "none" else {})
    )


def load_runs(path: Path) -> Runs:
    try:
        table = pq.read_table(path)
        notes = json.loads(table.schema.metadata[NOTES])
    except (OSError, pa.ArrowException, TypeError, KeyError, ValueError) as error:
        raise InputError(
            f"{path} cannot be read ({type(error).__name__})",
            expected="the runs.parquet of a reproduction",
            hint="make reproduce-tables",
        ) from None
    frame = table.to_pandas()
    arcs = [column for column in frame if column.startswith("arc/")]
    return Runs(frame.drop(columns=arcs), _long(frame, arcs), notes)


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
