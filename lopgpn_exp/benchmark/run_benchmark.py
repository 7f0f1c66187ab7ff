"""Run the benchmark: execute what is missing, and keep all runs in `runs.parquet`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd

from lopgpn_exp.benchmark import BenchmarkOptions
from lopgpn_exp.benchmark.benchmark_runs import create_rows, load_benchmark, merge_rows, save_benchmark
from lopgpn_exp.benchmark.protocol_runs import compose_protocol
from lopgpn_exp.config import default_config_dir
from lopgpn_exp.errors import InputError
from lopgpn_exp.paper.run_selection import find_available_datasets
from lopgpn_exp.records import Attempt
from lopgpn_exp.report.names import dataset_name
from lopgpn_exp.runs.table import read_results
from lopgpn_exp.sweeps.executors import execute_in_parallel
from lopgpn_exp.sweeps.run_sweep import run_sweep
from lopgpn_exp.sweeps.sweep_plan import plan_runs, plan_sweep

Kind = tuple[str, str]  # a model and a dataset


def find_leaderboard() -> Path:
    """Return the runs of the leaderboard that comes with a checkout of the project."""
    path = default_config_dir().parent / "outputs" / "benchmark" / "runs.parquet"
    if not path.is_file():
        raise InputError(
            "the runs of the leaderboard are not installed here",
            expected="a checkout of the project, or the file itself",
            hint="--against FOLDER/runs.parquet",
        )
    return path


def load_stored(options: BenchmarkOptions) -> pd.DataFrame:
    """Return the runs of the output folder and, with `against`, those of another file."""
    files = [path for path in (options.against, options.runs_file) if path is not None]
    return merge_rows([load_benchmark(path) for path in dict.fromkeys(files) if path.is_file()])


def run_missing_cells(options: BenchmarkOptions) -> list[Attempt]:
    """Execute the runs that neither the output folder nor a stored file contains, and store them."""
    stored = load_stored(options)
    options = replace(options, datasets=_find_available(options.datasets))
    plans, invalid = plan_runs(compose_protocol(options))
    if invalid:
        raise InputError(str(invalid[0].error), expected="a config that can be run")
    # Runs of methods that cannot run here, such as those without features, are left out.
    jobs = plan_sweep(plans).jobs
    stored_ids = set(stored["run_id"])
    missing = [job for job in jobs if job.run_id not in stored_ids]
    if stored_ids:
        _print(f"{len(jobs) - len(missing)} of {len(jobs)} runs are stored, and not run again.")
    execute = partial(execute_in_parallel, num_workers=options.num_workers)
    configs, past_seconds = [job.config for job in missing], _mean_seconds(stored)
    measures = {plan.model: plan.measures for plan in plans}
    try:
        attempts = run_sweep(configs, execute, past_seconds=past_seconds) if missing else []
    finally:  # also if it is interrupted: what has finished is kept
        if not options.dry_run:
            _store(options, [stored, _read_rows(options, [job.run_id for job in missing], measures)])
    if not options.dry_run:
        _check_any_stored(options)
    return attempts


def add_files(options: BenchmarkOptions, added_files: Sequence[Path] = ()) -> None:
    """Add the runs of other files to those that are stored."""
    others = [load_benchmark(file) for file in added_files]
    _store(options, [load_stored(options), *others])
    _check_any_stored(options)


def _store(options: BenchmarkOptions, tables: Sequence[pd.DataFrame]) -> None:
    runs = merge_rows(tables)
    if len(runs):
        save_benchmark(options.runs_file, runs)


def _check_any_stored(options: BenchmarkOptions) -> None:
    if not options.runs_file.is_file():
        raise InputError(
            "no run of the benchmark has finished",
            expected="at least one",
            hint="lopgpn_exp benchmark --datasets cora_ml --models gcn,lop_gpn --splits 2",
        )


def _read_rows(
    options: BenchmarkOptions, run_ids: Iterable[str], measures: Mapping[str, Mapping[str, str | None]]
) -> pd.DataFrame:
    results = read_results(options.output_dir, run_ids=set(run_ids))
    return create_rows(results, protocol=options.protocol, measures=measures)


def _mean_seconds(stored: pd.DataFrame) -> dict[Kind, float]:
    """Return the mean duration of stored trainings by model and dataset, to estimate how long others will take."""
    if "seconds/train" not in stored:
        return {}
    means = stored.groupby(["model", "dataset"])["seconds/train"].mean().reset_index()
    return {(row["model"], row["dataset"]): row["seconds/train"] for row in means.to_dict("records")}


def _find_available(datasets: Sequence[str]) -> tuple[str, ...]:
    available, errors = find_available_datasets(datasets)
    for name, error in errors.items():
        _print(f"{dataset_name(name)} is left out: {error.what}")
    if not available:
        raise InputError(
            "none of the datasets is available",
            expected="their files in the data root, or a connection to download them",
            hint="LOPGPN_DATA=FOLDER lopgpn_exp benchmark",
        )
    return tuple(available)


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
