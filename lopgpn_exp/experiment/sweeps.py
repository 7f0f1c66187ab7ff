"""A sweep as something that can be found again: its runs, its tables and its page in a folder of its own."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from lopgpn_exp.errors import InputError
from lopgpn_exp.experiment.files import folder_written_at_once, write_json
from lopgpn_exp.experiment.jobs import Job

if TYPE_CHECKING:
    import pandas as pd

# What runs of one model are averaged over, or what changes no number of theirs.
PAGE = "page.html"
RECORD = "sweep.json"
KIND = ["model", "dataset", "scenario"]  # runs of one kind are averaged
NOT_SET_APART_BY = {
    *("split.index", "init", "inits", "trainer.progress", "force", "dry_run", "data_root", "output_dir"),
    *("tracking.enabled", "tracking.uri", "tracking.experiment"),
}


@dataclass(frozen=True)
class Sweep:
    """The same runs are the same sweep, whenever it is started.

    `labels` tells, of each run whose model the sweep runs with several values, which it has: `teleport 0.2`.
    """

    id: str
    name: str
    run_ids: tuple[str, ...]
    labels: Mapping[str, str]
    folder: Path

    def labelled(self, runs: pd.DataFrame) -> pd.DataFrame:
        """The sweep's own runs, in which a model with other values is another model."""
        labels = runs["run_id"].map(lambda run_id: f" {label}" if (label := self.labels.get(run_id)) else "")
        return runs.assign(model=runs["model"] + labels)

    def write(self, results: pd.DataFrame, curves: pd.DataFrame) -> Path:
        """`sweep.json`, the tables and the page, all or none of them; where the page is."""
        from lopgpn_exp.report.aggregate import sweep_tables
        from lopgpn_exp.report.pages import sweep_page

        with folder_written_at_once(self.folder) as scratch:
            record = {"sweep": self.id, "name": self.name, "run_ids": list(self.run_ids), "labels": dict(self.labels)}
            write_json(scratch / RECORD, record)
            for name, table in sweep_tables(results, curves).items():
                table.to_csv(scratch / name, index=False)
            (scratch / PAGE).write_text(sweep_page(results, curves, title=self.name), encoding="utf-8")
        return self.folder / PAGE


def read_sweep(folder: Path) -> Sweep:
    """The record that a sweep leaves."""
    path = folder / RECORD
    try:
        content = json.loads(path.read_text())
        labels = dict(content.get("labels", {}))
        return Sweep(str(content["sweep"]), str(content["name"]), tuple(content["run_ids"]), labels, folder)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(
            f"{path} cannot be read ({type(error).__name__}: {error})", expected="the file that a sweep leaves"
        ) from None


def sweep_of(jobs: Sequence[Job], output_dir: Path) -> Sweep:
    run_ids = tuple(job.run_id for job in jobs)
    digest = hashlib.blake2b(" ".join(sorted(run_ids)).encode(), digest_size=8).hexdigest()
    models, datasets = (sorted({job.kind[i] for job in jobs}) for i in (0, 1))
    name = f"sweep · {', '.join(models)} · {', '.join(datasets)} · {len(jobs)} runs"
    labels = dict(_labels({job.run_id: job.config for job in jobs}))
    return Sweep(f"sweep-{digest}", name, run_ids, labels, output_dir / "sweeps" / f"sweep-{digest}")


def told_apart(results: pd.DataFrame, output_dir: Path) -> pd.DataFrame:
    """Finished runs of all kinds, in which a model with other values is another model, as in a sweep."""
    same = results[results.duplicated([*KIND, "split", "init"], keep=False)][KIND].drop_duplicates()
    chosen = results.merge(same)["run_id"]  # a config is read only where several runs would be taken for one
    configs = {run_id: yaml.safe_load((output_dir / "runs" / run_id / "config.yaml").read_text()) for run_id in chosen}
    return Sweep("", "", tuple(chosen), dict(_labels(configs)), output_dir).labelled(results)


def _labels(configs: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """By run id: of runs with the same model, dataset and scenario, the values in which they differ."""
    groups = defaultdict(list)
    for run_id, config in configs.items():
        values = {key: value for key, value in flattened(config) if key not in NOT_SET_APART_BY}
        groups[tuple(config[group]["name"] for group in ("model", "dataset", "ood"))].append((run_id, values))
    for members in groups.values():
        keys = sorted({key for _, values in members for key in values})
        apart = [key for key in keys if len({str(values.get(key)) for _, values in members}) > 1]
        for run_id, values in members if apart else []:
            yield run_id, " ".join(f"{key.rpartition('.')[2]} {values.get(key)}" for key in apart)


def flattened(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Leaves of a nested config by their dotted path."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from flattened(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
