"""`runs.parquet` of the benchmark: one row per run, from which leaderboard, audit and page are made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from lopgpn_exp import NUMERICS_VERSION
from lopgpn_exp.benchmark.protocols import PROTOCOLS
from lopgpn_exp.errors import InputError
from lopgpn_exp.measures import ROLES
from lopgpn_exp.paper.verified_parquet import read_parquet, write_parquet
from lopgpn_exp.records import NAME, RunResult

RUN_KEY = ["protocol", "dataset", "model", "scenario", "split", "init"]  # what a run is, whatever its id
DECLARED = [role for role in ROLES if role != "other"]  # columns: the measure that the method declares for each kind
TEXT = [*RUN_KEY[:4], "run_id", "training_id", "processor", *DECLARED]
COSTS = ("epochs", "peak_rss_mb", "seconds/", "cpu_seconds/")
METRICS = ("val/accuracy", "test/", "error/", "id/", "ood/accuracy", "ood/auroc/", "ood/aupr/", "shift/")
VERSION_KEY = b"lopgpn_exp_benchmark"
MAX_NAME_LENGTH = 200  # names of runs are names of folders
MAX_NUMBER = 1e15  # larger ones are not metrics or costs, and their sums could overflow


def create_rows(
    results: Iterable[RunResult], *, protocol: str, measures: Mapping[str, Mapping[str, str | None]]
) -> pd.DataFrame:
    """Return one row per run, with the metrics and costs that the benchmark uses.

    Args:
        measures: by model, the measure that it declares for each kind of uncertainty.
    """
    rows = []
    for result in results:
        row = {"protocol": protocol, "processor": result.versions.get("processor", ""), **result.to_row()}
        kept = {key: value for key, value in row.items() if key in (*TEXT, *RUN_KEY) or key.startswith(COSTS + METRICS)}
        rows.append(kept | {role: measures[result.model].get(role) or "" for role in DECLARED})
    return pd.DataFrame(rows)


def load_benchmark(path: Path) -> pd.DataFrame:
    """Read stored runs after verifying checksums, columns and values. The file may be from someone else."""
    try:
        table = read_parquet(path)
        version = (table.schema.metadata or {})[VERSION_KEY].decode()
        _check_columns(table)
        runs = table.to_pandas()
        _check_values(runs)
    except (OSError, pa.ArrowException, TypeError, KeyError, ValueError, MemoryError, RecursionError) as error:
        detail = " ".join(str(error).split())[:100]
        raise InputError(
            f"{path} cannot be read ({type(error).__name__}: {detail})",
            expected="the runs.parquet of a benchmark, as it was written",
            hint="restore the file, or make it again: lopgpn_exp benchmark",
        ) from None
    if version != str(NUMERICS_VERSION):
        raise InputError(
            f"{path} has numerics version {version}",
            expected=f"version {NUMERICS_VERSION}: numbers have changed since",
            hint="lopgpn_exp benchmark",
        )
    return runs


def save_benchmark(path: Path, runs: pd.DataFrame) -> None:
    """Write runs in a fixed order, so that the same runs give the same file."""
    runs = runs.sort_values([*RUN_KEY, "run_id"])
    columns = [*RUN_KEY, *sorted(set(runs.columns) - set(RUN_KEY))]
    table = pa.Table.from_pandas(runs[columns].dropna(axis="columns", how="all"), preserve_index=False)
    write_parquet(path, table.replace_schema_metadata({VERSION_KEY: str(NUMERICS_VERSION).encode()}))


def merge_rows(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return all runs; a run in a later table replaces that of an earlier one."""
    filled = [table for table in tables if len(table)]
    if not filled:
        return pd.DataFrame(columns=[*RUN_KEY, "run_id"])
    return pd.concat(filled, ignore_index=True).drop_duplicates(RUN_KEY, keep="last").reset_index(drop=True)


def _check_columns(table: pa.Table) -> None:
    """Raise a ValueError if a column is missing or has another type than `save_benchmark` gives it."""
    if missing := [column for column in (*RUN_KEY, "run_id", *DECLARED) if column not in table.column_names]:
        raise ValueError(f"there is no column {missing[0]!r}")
    for column in table.schema:
        types: Any = pa.types
        if column.name in TEXT:
            is_valid = types.is_string(column.type) or types.is_large_string(column.type)
        elif column.name in ("split", "init"):
            is_valid = types.is_integer(column.type)
        else:
            is_valid = types.is_floating(column.type) or types.is_integer(column.type)
        if not is_valid or (column.name in RUN_KEY and table[column.name].null_count):
            raise ValueError(f"the column {column.name[:40]!r} has type {column.type}, or values are missing")


def _check_values(runs: pd.DataFrame) -> None:
    """Raise a ValueError about a name that is not one, an unknown protocol, or a number that is not finite."""
    for column in (*RUN_KEY[:4], "run_id", *DECLARED):
        for name in runs[column].dropna().unique():
            is_undeclared = column in DECLARED and not name
            if not is_undeclared and (not NAME.fullmatch(name) or len(name) > MAX_NAME_LENGTH):
                raise ValueError(f"{column} is {name[:40]!r}")
    if unknown := sorted(set(runs["protocol"]) - set(PROTOCOLS)):
        raise ValueError(f"there is no protocol {unknown[0]!r}")
    numbers = runs.select_dtypes("number")
    if too_large := [str(column) for column in numbers if (np.abs(numbers[column]) > MAX_NUMBER).any()]:
        raise ValueError(f"the column {too_large[0][:40]!r} has a number that is infinite or too large")
