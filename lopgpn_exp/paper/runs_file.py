"""`runs.parquet`: all runs of a reproduction in one small file, from which every table and figure is made."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from lopgpn_exp.errors import InputError
from lopgpn_exp.evaluation.statistics import CLEAN
from lopgpn_exp.paper.reproduction_notes import Notes, Repeat
from lopgpn_exp.records import RunResult
from lopgpn_exp.report.names import DATASET_NAMES
from lopgpn_exp.runs.storage import atomic_write

RUN_KEY = ["dataset", "model", "scenario", "split", "init", "variant"]  # what a run is, whatever its id
KEYS = [*RUN_KEY, "run_id"]
COSTS = ("epochs", "peak_rss_mb", "seconds/load", "seconds/prepare", "seconds/train", "seconds/evaluate")
METRICS = ("val/", "test/", "id/", "ood/", "change/")
SCENARIOS_WITHOUT_TRAINING = ("bernoulli", "gaussian")  # they evaluate the training of the clean run
METADATA_KEY = b"lopgpn_exp"
Row = Mapping[str, Any]


@dataclass(frozen=True)
class StoredRuns:
    """The content of `runs.parquet`: one row per run, and accuracy-rejection curves in long form.

    `variant` is empty for a run of the default config; otherwise it lists the overrides that make it a different run.
    """

    results: pd.DataFrame
    curves: pd.DataFrame
    notes: Notes

    @property
    def main(self) -> pd.DataFrame:
        """The default runs on the paper's datasets. Only these enter the paper's table."""
        return _select_main(self.results)

    @property
    def main_curves(self) -> pd.DataFrame:
        return _select_main(self.curves)


def load_runs(path: Path) -> StoredRuns:
    try:
        with path.open("rb") as file:
            table = pq.read_table(file)
        notes = Notes.from_json(json.loads(table.schema.metadata[METADATA_KEY]))
        frame = table.to_pandas()
        _check_columns(frame)
        training_ids = _find_training_ids(frame)
    except (OSError, pa.ArrowException, TypeError, KeyError, ValueError) as error:
        raise InputError(
            f"{path} cannot be read ({type(error).__name__}: {str(error)[:100]})",
            expected="the runs.parquet of a reproduction",
            hint="lopgpn_exp reproduce",
        ) from None
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
    rows = _read_rows(path) if extend else {}
    for result in results:
        row = _create_row(result, variants[result.run_id])
        rows[_run_key(row)] = row
    _write(path, rows, notes)


def merge_runs(path: Path, other: Path) -> Repeat:
    """Add the runs of another file to this one, and return how the runs that both contain compare.

    Where both contain a run, the one of the other file replaces ours. The comparison becomes part of the notes.
    """
    added = load_runs(other).notes
    notes = load_runs(path).notes if path.is_file() else Notes(added.numerics)
    ours, theirs = (_read_rows(file) if file.is_file() else {} for file in (path, other))
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
    curves = result.curves if result.scenario == CLEAN else {}
    return result.to_row() | {"variant": variant} | processor | curves


def _read_rows(path: Path) -> dict[tuple[Any, ...], Row]:
    """Return rows by what the run is, not by its id: a default run of another config replaces the earlier one."""
    return {_run_key(row): row for row in pq.read_table(path).to_pylist()}


def _write(path: Path, by_key: Mapping[tuple[Any, ...], Row], notes: Notes) -> None:
    rows = sorted(by_key.values(), key=lambda row: [row[key] for key in KEYS])
    filled = {column for row in rows for column, value in row.items() if value is not None}
    columns = [*KEYS, *sorted(filled - set(KEYS))]
    arrays = {column: pa.array([row.get(column) for row in rows], _arrow_type(column, rows)) for column in columns}
    metadata = {METADATA_KEY: json.dumps(asdict(notes), sort_keys=True)}
    table = pa.table(arrays).replace_schema_metadata(metadata)
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, lambda temporary: pq.write_table(table, temporary, compression="zstd", compression_level=9))


def _arrow_type(column: str, rows: Iterable[Row]) -> pa.DataType:
    if column.startswith("arc/"):
        return pa.list_(pa.float32())
    sample = next(row[column] for row in rows if row.get(column) is not None)
    return {str: pa.string(), int: pa.int64()}.get(type(sample), pa.float64())


def _check_columns(frame: pd.DataFrame) -> None:
    """Check that a parquet file with our metadata really contains runs."""
    if missing := [column for column in (*KEYS, *COSTS) if column not in frame]:
        raise ValueError(f"there is no column {missing[0]!r}")
    if not all(pd.api.types.is_integer_dtype(frame[key]) for key in ("split", "init")):
        raise ValueError("splits or initialisations are not whole numbers")


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


def _run_key(row: Row) -> tuple[Any, ...]:
    return tuple(row[key] for key in RUN_KEY)


def _seconds(row: Row) -> dict[str, float]:
    return {key: value for key, value in row.items() if key.startswith("seconds/")}
