"""What a run leaves behind, and reading it back."""

from __future__ import annotations

import json
import logging
import traceback
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from lopgpn_exp.errors import InputError
from lopgpn_exp.experiment.files import folder_written_at_once, link_or_copy, write_json

if TYPE_CHECKING:  # whoever reads results needs no torch
    from lopgpn_exp.evaluation import Evaluation
    from lopgpn_exp.graph import Graph

log = logging.getLogger(__name__)

SCHEMA = 1
LEGEND = "legend.json"
FILES = ("config.yaml", "predictions.parquet", "result.json")  # a checkpoint may be left behind on a cluster
KEYS = (
    *("schema", "run_id", "model", "dataset", "split", "init", "scenario"),
    *("metrics", "curves", "epochs", "seconds", "peak_rss_mb", "versions"),
)


def write_run(
    folder: Path,
    *,
    result: dict[str, Any],
    evaluation: Evaluation,
    config: dict[str, Any],
    title: str,
    checkpoint: Path | None,
    graph: Graph | None = None,
    cache_dir: Path | None = None,
) -> None:
    """`config.yaml`, `model.ckpt`, `predictions.parquet`, `result.json`, the figures and the page, all or none of them.

    A graph with names of its own leaves `legend.json` too, by which another version of its file can be read.

    `graph` is drawn in the page, if it is there and small; `cache_dir` keeps its layout for the next run.
    """
    from lopgpn_exp.report.figures import save_figures

    with folder_written_at_once(folder) as scratch:
        (scratch / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
        if checkpoint is not None:
            link_or_copy(checkpoint, scratch / "model.ckpt")
        if graph is not None and graph.legend is not None:
            write_json(scratch / LEGEND, graph.legend.as_json())
        evaluation.predictions.to_parquet(scratch / "predictions.parquet", index=False)
        save_figures(scratch, evaluation, title=title)
        text = _page(result, evaluation, title=title, graph=graph, cache_dir=cache_dir)
        (scratch / "page.html").write_text(text, encoding="utf-8")
        write_json(scratch / "result.json", result)


def _page(
    result: dict[str, Any], evaluation: Evaluation, *, title: str, graph: Graph | None, cache_dir: Path | None
) -> str:
    """A drawing is no reason to lose a run: what went wrong is logged, and is what the page then says."""
    from lopgpn_exp.report.page import page
    from lopgpn_exp.report.pages import run_page

    try:
        return run_page(result, evaluation.predictions, title=title, graph=graph, cache_dir=cache_dir)
    except Exception:
        log.exception("The page of %s could not be drawn; its results are whole", title)
        text = f"<h1>{escape(title)}</h1><p>This page could not be drawn; the results of the run are whole.</p>"
        return page(title, f"{text}<pre>{escape(traceback.format_exc())}</pre>")


def is_complete(folder: Path) -> bool:
    """Whether a run folder holds everything that a finished run leaves; one that lost a file is run again."""
    return all((folder / name).is_file() for name in FILES)


def read_result(folder: Path) -> dict[str, Any]:
    """`result.json` of a run folder, of the schema that this version writes."""
    path = folder / "result.json"
    try:
        result = json.loads(path.read_text())
        schema = result["schema"]
    except FileNotFoundError:
        raise InputError(f"{folder} holds no result.json", expected="the folder of a finished run") from None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(
            f"{path} cannot be read ({type(error).__name__}: {error})",
            expected="the result of a finished run",
            hint=f"run it again with force=true, or remove the folder: rm -r '{folder}'",
        ) from None
    if schema != SCHEMA:
        raise InputError(
            f"{path} has schema {schema}",
            expected=f"schema {SCHEMA}, which this version reads and writes",
            hint=f"run it again with force=true, or remove the folder: rm -r '{folder}'",
        )
    if missing := [key for key in KEYS if key not in result]:
        raise InputError(
            f"{path} has no {missing[0]!r}",
            expected="the result of a finished run",
            hint=f"run it again with force=true, or remove the folder: rm -r '{folder}'",
        )
    return result
