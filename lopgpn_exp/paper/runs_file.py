"""`runs.parquet`: all runs of a reproduction in one small file, from which every table and figure is made."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from lopgpn_exp.errors import InputError
from lopgpn_exp.evaluation.statistics import CLEAN
from lopgpn_exp.paper.reproduction_notes import Notes, Repeat
from lopgpn_exp.paper.verified_parquet import read_parquet, write_parquet
from lopgpn_exp.records import RunResult
from lopgpn_exp.report.names import DATASET_NAMES

RUN_KEY = ["dataset", "model", "scenario", "split", "init", "variant"]  # what a run is, whatever its id
KEYS = [*RUN_KEY, "run_id"]
BLOCK = ["dataset", "model", "scenario"]
COSTS = ("epochs", "peak_rss_mb", "seconds/load", "seconds/prepare", "seconds/train", "seconds/evaluate")
METRICS = ("val/", "test/", "id/", "ood/", "change/")
SCENARIOS_WITHOUT_TRAINING = ("bernoulli", "gaussian")  # they evaluate the training of the clean run
RECIPE_PREFIX = "recipe="  # of the variant of a run that was evaluated by a recipe
METADATA_KEY = b"lopgpn_exp"
Row = Mapping[str, Any]


@dataclass(frozen=True)
class StoredRuns:
    """The content of `runs.parquet`: one row per run, and accuracy-rejection curves in long form.

    `variant` is empty for a run of the default config; otherwise it lists the overrides that make it a different run,
    or names the recipe that a run was evaluated by (see `recipes`).
    """

    results: pd.DataFrame
    curves: pd.DataFrame
    notes: Notes

    @property
    def num_runs(self) -> int:
        """Number of runs, without the evaluations by recipe."""
        return int((~self._is_recipe).sum())

    @property
    def _is_recipe(self) -> pd.Series:
        return self.results["variant"].str.startswith(RECIPE_PREFIX)

    @property
    def main(self) -> pd.DataFrame:
        """The default runs on the paper's datasets. Only these enter the paper's table."""
        return _select_main(self.results)

    @property
    def by_recipe(self) -> pd.DataFrame:
        """The main runs, but evaluated by recipe in each block whose runs were all evaluated so; see `variant`."""
        main, parts = self.main, []
        recipes = dict(list(self.results[self._is_recipe].groupby(BLOCK)))
        for block, runs in main.groupby(BLOCK):
            rows = recipes.get(block)
            is_covered = rows is not None and _runs_of(rows) >= _runs_of(runs)
            parts.append(rows if is_covered else runs)
        return pd.concat(parts, ignore_index=True) if parts else main

    @property
    def main_curves(self) -> pd.DataFrame:
        return _select_main(self.curves)


def load_runs(path: Path) -> StoredRuns:
    with _wrap_read_errors(path):
        table, notes = _read(path)
        frame = table.to_pandas()
        training_ids = _find_training_ids(frame)
    curves = [column for column in frame if column.startswith("arc/")]
    results = frame.drop(columns=curves).assign(training_id=training_ids)
    return StoredRuns(results, _unfold_curves(frame, curves), notes)


def save_runs(
    path: Path, results: Iterable[RunResult], *, variants: Mapping[str, str], notes: Notes, extend: bool = False
) -> None:
    """Write runs to a file. Curves are kept for clean runs, since only those are drawn.

    Args:
        variants: for each run id, the overrides that make it different from a default run, or "".
        extend: keep the runs that the file already contains.
    """
    rows, _ = _read_rows(path) if extend else ({}, None)
    for result in results:
        row = _create_row(result, variants[result.run_id])
        rows[_run_key(row)] = row
    _write(path, rows, notes)


def merge_runs(path: Path, other: Path) -> Repeat:
    """Add the runs of another file to this one, and return how the runs that both contain compare.

    Where both contain a run, the one of the other file replaces ours. The comparison becomes part of the notes.
    """
    theirs, added = _read_rows(other)
    ours, notes = _read_rows(path) if path.is_file() else ({}, Notes(added.numerics, split_name=added.split_name))
    pairs = [(ours[key], row) for key, row in theirs.items() if key in ours]
    for first, second in pairs:
        if first["run_id"] != second["run_id"]:
            raise InputError(
                f"{other} contains the run {second['run_id']}, which is {first['run_id']} in {path}",
                expected="runs of the same config and the same data",
            )
    repeat = _compare_repeated([pair for pair in pairs if _seconds(pair[0]) != _seconds(pair[1])])
    notes = notes.merge(added)
    if repeat.runs:
        notes = notes.merge(Notes(notes.numerics, repeats=[repeat]))
    _write(path, ours | theirs, notes)
    return repeat


def _compare_repeated(pairs: Sequence[tuple[Row, Row]]) -> Repeat:
    differences = [(_largest_difference(first, second), second["split"]) for first, second in pairs]
    differing = [(difference, split) for difference, split in differences if difference is not None]
    return Repeat(
        runs=len(pairs),
        same=len(pairs) - len(differing),
        splits=sorted({split for _, split in differing}),
        largest=max((difference for difference, _ in differing), default=0.0),
    )


def _largest_difference(first: Row, second: Row) -> float | None:
    """Return the largest difference of an accuracy or AUC-ROC in points, or None if all metrics are identical."""
    metrics = [key for key in {**first, **second} if key.startswith(METRICS)]
    if all(first.get(key) == second.get(key) for key in metrics):
        return None
    shown = [key for key in metrics if key.endswith("/accuracy") or key.startswith("ood/auroc/")]
    pairs = [(first.get(key), second.get(key)) for key in shown]
    return max((100 * abs(a - b) for a, b in pairs if a is not None and b is not None), default=0.0)


def _create_row(result: RunResult, variant: str) -> dict[str, Any]:
    processor = {key: value for key, value in result.versions.items() if key == "processor"}
    is_kept = result.scenario == CLEAN
    curves = {key: curve for key, curve in result.curves.items() if is_kept and key.startswith("arc/")}
    return result.to_row() | {"variant": variant} | processor | curves


@contextmanager
def _wrap_read_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException, TypeError, KeyError, ValueError, MemoryError, RecursionError) as error:
        detail = " ".join(str(error).split())[:100]
        raise InputError(
            f"{path} cannot be read ({type(error).__name__}: {detail})",
            expected="the runs.parquet of a reproduction, as it was written",
            hint="restore the file, or make it again: lopgpn_exp reproduce",
        ) from None


def _read(path: Path) -> tuple[pa.Table, Notes]:
    """Read a file after verifying its checksums, and check that it really contains runs."""
    table = read_parquet(path)
    notes = Notes.from_json(json.loads((table.schema.metadata or {})[METADATA_KEY]))
    if missing := [column for column in (*KEYS, *COSTS) if column not in table.column_names]:
        raise ValueError(f"there is no column {missing[0]!r}")
    for column in table.schema:
        if not _has_valid_type(column) or (column.name in KEYS and table[column.name].null_count):
            raise ValueError(f"the column {column.name[:40]!r} has type {column.type}, or values are missing")
    return table, notes


def _has_valid_type(column: pa.Field) -> bool:
    """Return whether a column has the type that `_write` gives it; large columns of text may be of another variant."""
    types = pa.types
    if column.name in ("split", "init"):
        return types.is_integer(column.type)
    if column.name in (*KEYS, "training_id", "processor"):
        return types.is_string(column.type) or types.is_large_string(column.type)
    if column.name.startswith("arc/"):
        return types.is_list(column.type) and types.is_floating(column.type.value_type)
    return types.is_floating(column.type) or types.is_integer(column.type)


def _read_rows(path: Path) -> tuple[dict[tuple[Any, ...], Row], Notes]:
    """Return rows by what the run is, not by its id: a default run of another config replaces the earlier one."""
    with _wrap_read_errors(path):
        table, notes = _read(path)
        return {_run_key(row): row for row in table.to_pylist()}, notes


def _write(path: Path, by_key: Mapping[tuple[Any, ...], Row], notes: Notes) -> None:
    rows = sorted(by_key.values(), key=lambda row: [row[key] for key in KEYS])
    filled = {column for row in rows for column, value in row.items() if value is not None}
    columns = [*KEYS, *sorted(filled - set(KEYS))]
    arrays = {column: pa.array([row.get(column) for row in rows], _arrow_type(column, rows)) for column in columns}
    metadata = {METADATA_KEY: json.dumps(asdict(notes), sort_keys=True)}
    write_parquet(path, pa.table(arrays).replace_schema_metadata(metadata))


def _arrow_type(column: str, rows: Iterable[Row]) -> pa.DataType:
    if column.startswith("arc/"):
        return pa.list_(pa.float32())
    sample = next(row[column] for row in rows if row.get(column) is not None)
    return {str: pa.string(), int: pa.int64()}.get(type(sample), pa.float64())


def _find_training_ids(frame: pd.DataFrame) -> pd.Series:
    """Return the training of each run. Earlier versions recorded none, but only the feature scenarios share one."""
    recorded = frame["training_id"] if "training_id" in frame else pd.Series(index=frame.index, dtype=object)
    own = recorded.fillna(frame["run_id"])
    group = [key for key in RUN_KEY if key != "scenario"]
    clean = frame.assign(training_id=own)[frame["scenario"] == CLEAN].set_index(group)["training_id"]
    shared = clean.reindex(pd.MultiIndex.from_frame(frame[group])).set_axis(frame.index)
    is_shared = recorded.isna() & frame["scenario"].isin(SCENARIOS_WITHOUT_TRAINING) & shared.notna()
    return own.where(~is_shared, shared)


def _unfold_curves(frame: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Return one row per run, measure and percent rejected."""
    parts = []
    for column in columns:
        runs = frame[frame[column].notna()]
        part = runs[KEYS].assign(measure=column.removeprefix("arc/"), accuracy=runs[column])
        parts.append(part.explode("accuracy", ignore_index=True))
    if not any(map(len, parts)):
        return pd.DataFrame(columns=[*KEYS, "measure", "accuracy", "percent"])
    long = pd.concat(parts, ignore_index=True).astype({"accuracy": "float64"})
    return long.assign(percent=long.groupby([*KEYS, "measure"]).cumcount())


def _select_main(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[(frame["variant"] == "") & frame["dataset"].isin(list(DATASET_NAMES))]


def _runs_of(rows: pd.DataFrame) -> set[tuple[int, int]]:
    return set(zip(rows["split"], rows["init"], strict=True))


def _run_key(row: Row) -> tuple[Any, ...]:
    return tuple(row[key] for key in RUN_KEY)


def _seconds(row: Row) -> dict[str, float]:
    return {key: value for key, value in row.items() if key.startswith("seconds/")}
