"""The folder of a sweep, and labels for runs of one model with several settings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lopgpn_exp.config.limits import scenario_name
from lopgpn_exp.config.schema import ADDED_OPTIONS, LABEL_IGNORED_KEYS, flatten
from lopgpn_exp.errors import InputError
from lopgpn_exp.records import SweepRecord
from lopgpn_exp.runs.run_folder import read_config
from lopgpn_exp.runs.skipped_runs import SkippedRuns, read_folders
from lopgpn_exp.runs.storage import atomic_folder, read_json, write_csv, write_json

if TYPE_CHECKING:
    import pandas as pd

RECORD_FILE = "sweep.json"
PAGE_FILE = "page.html"
GROUP_KEYS = ["model", "dataset", "scenario"]  # runs that share these are averaged


def write_sweep(folder: Path, record: SweepRecord, results: pd.DataFrame, curves: pd.DataFrame) -> Path:
    """Write the record, the tables and the page of a sweep, all of them or none; returns the path of the page."""
    from lopgpn_exp.evaluation.statistics import build_sweep_tables
    from lopgpn_exp.report.sweep_page import sweep_page

    with atomic_folder(folder) as temporary:
        write_json(temporary / RECORD_FILE, record.to_json())
        for name, table in build_sweep_tables(results, curves).items():
            write_csv(temporary / name, table)
        (temporary / PAGE_FILE).write_text(sweep_page(results, curves, title=record.name), encoding="utf-8")
    return folder / PAGE_FILE


def read_sweep(folder: Path) -> SweepRecord:
    """Read the record of a sweep."""
    path = folder / RECORD_FILE
    try:
        return SweepRecord.from_json(read_json(path))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} cannot be read ({type(error).__name__}: {error})", expected="the record of a sweep"
        ) from None


def label_variants(configs: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return labels by run id: the settings in which runs of the same model, dataset and scenario differ."""
    groups = defaultdict(list)
    for run_id, config in configs.items():
        values = ADDED_OPTIONS | {key: value for key, value in flatten(config) if key not in LABEL_IGNORED_KEYS}
        names = (config["model"]["name"], config["dataset"]["name"], scenario_name(config))
        groups[names].append((run_id, values))
    labels = {}
    for members in groups.values():
        keys = sorted({key for _, values in members for key in values})
        differing = [key for key in keys if len({str(values.get(key)) for _, values in members}) > 1]
        for run_id, values in members if differing else []:
            labels[run_id] = " ".join(f"{key.rpartition('.')[2]} {values.get(key)}" for key in differing)
    return labels


def label_models(runs: pd.DataFrame, labels: Mapping[str, str]) -> pd.DataFrame:
    """Return a table in which the labels are part of the model's name: `lop_gpn teleport 0.2`."""
    suffixes = runs["run_id"].map(lambda run_id: f" {labels[run_id]}" if run_id in labels else "")
    return runs.assign(model=runs["model"] + suffixes)


def label_saved_runs(results: pd.DataFrame, output_dir: Path) -> tuple[pd.DataFrame, SkippedRuns]:
    """Apply `label_models` to finished runs. Reads only the configs of runs that differ in nothing but settings.

    A run whose config cannot be read is left out: the mean that it belongs to is unknown.
    """
    repeated = results[results.duplicated([*GROUP_KEYS, "split", "init"], keep=False)][GROUP_KEYS].drop_duplicates()
    folders = [output_dir / "runs" / run_id for run_id in results.merge(repeated)["run_id"]]
    configs, skipped = read_folders(folders, lambda folder: (folder.name, read_config(folder)))
    results = results[~results["run_id"].isin(list(skipped.damaged))]
    if results.empty:
        raise next(iter(skipped.damaged.values()))
    return label_models(results, label_variants(dict(configs))), skipped
