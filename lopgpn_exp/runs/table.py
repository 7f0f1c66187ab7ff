"""Finished runs as tables: one row per run, and their curves in long form."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from lopgpn_exp.errors import InputError
from lopgpn_exp.records import RUN_KEYS, RunResult
from lopgpn_exp.runs.run_folder import read_result
from lopgpn_exp.runs.skipped_runs import SkippedRuns, read_folders


def scan_results(
    output_dir: Path | str = "outputs", *, run_ids: Collection[str] | None = None
) -> tuple[list[RunResult], SkippedRuns]:
    """Read the results of the finished runs below a folder, ordered by run id; return also what is left out."""
    folders = sorted((Path(output_dir) / "runs").glob("[!.]*"))
    return read_folders([folder for folder in folders if run_ids is None or folder.name in run_ids], read_result)


def read_results(output_dir: Path | str = "outputs", *, run_ids: Collection[str] | None = None) -> list[RunResult]:
    """Read the results of the finished runs below a folder, ordered by run id; see `scan_results`."""
    return scan_results(output_dir, run_ids=run_ids)[0]


def results_table(results: Iterable[RunResult]) -> pd.DataFrame:
    """Return one row per run: what it is, its metrics, epochs, seconds and memory."""
    rows = [result.to_row() for result in results]
    return pd.DataFrame(rows, columns=None if rows else list(RUN_KEYS))


def curves_table(results: Iterable[RunResult]) -> pd.DataFrame:
    """Return the accuracy-rejection curves in long form: one row per run, measure and percent rejected."""
    frames = [
        pd.DataFrame({"percent": range(len(curve)), "accuracy": curve}).assign(
            measure=name.removeprefix("arc/"), **{key: getattr(result, key) for key in RUN_KEYS}
        )
        for result in results
        for name, curve in result.curves.items()
        if name.startswith("arc/")
    ]
    if not frames:
        return pd.DataFrame(columns=["percent", "accuracy", "measure", *RUN_KEYS])
    return pd.concat(frames, ignore_index=True)


def load_results(
    output_dir: Path | str = "outputs", *, run_ids: Collection[str] | None = None, **filters: Any
) -> pd.DataFrame:
    """Return one row per finished run: what it is, its metrics, epochs, seconds and memory.

    Runs with damaged files are left out with a warning that names them.

    Args:
        filters: values or lists of values of the columns, such as `model="lop_gpn"`, `split=[0, 1]`.
    """
    results, skipped = scan_results(output_dir, run_ids=run_ids)
    if skipped.damaged:
        warnings.warn(skipped.describe(), stacklevel=2)
    chosen = select_rows(results_table(results), **filters)
    return chosen.dropna(axis="columns", how="all") if len(chosen) else chosen  # metrics of other runs


def select_rows(table: pd.DataFrame, **filters: Any) -> pd.DataFrame:
    """Return the rows of `results_table` with certain values; see `load_results`."""
    for column, values in filters.items():
        if column not in table:
            raise InputError(f"there is no column {column!r}", expected="one of " + ", ".join(table.columns))
        table = table[table[column].isin([values] if isinstance(values, str | int | float) else list(values))]
    return table.reset_index(drop=True)


def load_curves(output_dir: Path | str = "outputs", *, run_ids: Collection[str] | None = None) -> pd.DataFrame:
    """Return the accuracy-rejection curves of finished runs: one row per run, measure and percent rejected."""
    return curves_table(read_results(output_dir, run_ids=run_ids))
