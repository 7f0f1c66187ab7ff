"""Whether MLflow shows a finished run already, read from its SQLite file: importing MLflow takes two seconds."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lopgpn_exp.records import RunResult
from lopgpn_exp.tracking.dashboards import read_dashboards, select_links
from lopgpn_exp.tracking.run_content import DIGEST_TAG, digest_run, run_metrics
from lopgpn_exp.tracking.store import database_file, default_uri, server_address, ui_command

EXPERIMENT = "SELECT experiment_id FROM experiments WHERE name = ? AND lifecycle_stage = 'active'"
EXPERIMENT_TAGS = "SELECT key, value FROM experiment_tags WHERE experiment_id = ?"
RUNS = """
SELECT runs.status, digest.value
FROM runs JOIN tags ON tags.run_uuid = runs.run_uuid AND tags.key = 'run_id'
LEFT JOIN tags AS digest ON digest.run_uuid = runs.run_uuid AND digest.key = ?
WHERE runs.experiment_id = ? AND runs.lifecycle_stage = 'active' AND tags.value = ?
"""


@dataclass(frozen=True)
class RecordedRun:
    """Where MLflow shows a run: links of the dashboards by name, and the command that serves them."""

    links: dict[str, str]
    ui: str | None


def find_recorded_run(
    tracking: Mapping[str, Any], output_dir: Path, folder: Path, result: RunResult
) -> RecordedRun | None:
    """Return where an SQLite store shows a result; None if it does not show it completely, or if that is unknown.

    Args:
        tracking: the config group, with tracking turned on.
    """
    uri = tracking["uri"] or default_uri(output_dir)
    database = database_file(uri)
    if database is None or not database.is_file():
        return None
    try:
        with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
            ((experiment_id,),) = connection.execute(EXPERIMENT, [tracking["experiment"]])
            tags = dict(connection.execute(EXPERIMENT_TAGS, [experiment_id]).fetchall())
            runs = connection.execute(RUNS, [DIGEST_TAG, experiment_id, result.run_id]).fetchall()
    except (sqlite3.Error, ValueError):  # another version of MLflow, or no such experiment
        return None
    dashboards = read_dashboards(tags)
    charted = {metric for dashboard in dashboards if dashboard.dataset is None for metric in dashboard.metrics}
    if runs != [("FINISHED", digest_run(folder))] or not {key for key, _, _ in run_metrics(result)} <= charted:
        return None
    links = select_links(dashboards, server_address(uri), str(experiment_id), [result.dataset])
    return RecordedRun(links, ui_command(uri, output_dir, is_default=not tracking["uri"]))
