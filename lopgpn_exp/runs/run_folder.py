"""The folder of a run: writing its files, and reading its result and its config."""

from __future__ import annotations

import json
import logging
import traceback
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from lopgpn_exp.config.compose import resolve
from lopgpn_exp.errors import InputError
from lopgpn_exp.records import RunResult
from lopgpn_exp.runs.storage import atomic_folder, link_or_copy, write_json

if TYPE_CHECKING:  # reading results needs no torch
    from lopgpn_exp.evaluation import Evaluation
    from lopgpn_exp.graph import Graph

log = logging.getLogger(__name__)

LEGEND_FILE = "legend.json"
REQUIRED_FILES = ("config.yaml", "predictions.parquet", "result.json")  # a checkpoint may be left on a cluster


def write_run(
    folder: Path,
    *,
    result: RunResult,
    evaluation: Evaluation,
    config: dict[str, Any],
    checkpoint: Path,
    graph: Graph,
    cache_dir: Path,
) -> None:
    """Write config, checkpoint, predictions, result, figures and page of a run: all of them or none.

    Args:
        graph: drawn on the page if it is small. Its names of nodes and classes, if any, are kept in `legend.json`,
            so that another version of its file can be read the same way.
        cache_dir: keeps the layout of the graph for the next run.
    """
    from lopgpn_exp.report.figures import save_run_figures  # deferred import: keeps reading results fast

    with atomic_folder(folder) as temporary:
        (temporary / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
        link_or_copy(checkpoint, temporary / "model.ckpt")
        if graph.legend is not None:
            write_json(temporary / LEGEND_FILE, graph.legend.to_json())
        evaluation.predictions.to_parquet(temporary / "predictions.parquet", index=False)
        save_run_figures(temporary, evaluation, title=result.title)
        page = _render_page(result, evaluation, graph=graph, cache_dir=cache_dir)
        (temporary / "page.html").write_text(page, encoding="utf-8")
        write_json(temporary / "result.json", result.to_json())


def _render_page(result: RunResult, evaluation: Evaluation, *, graph: Graph, cache_dir: Path) -> str:
    """Return the page of a run. If drawing fails the run is kept, and its page shows the error."""
    from lopgpn_exp.report.document import render_page  # deferred imports: keep reading results fast
    from lopgpn_exp.report.run_page import run_page

    try:
        return run_page(result, evaluation.predictions, graph=graph, cache_dir=cache_dir)
    except Exception:
        log.exception("The page of %s could not be drawn; its results are complete", result.title)
        text = (
            f"<h1>{escape(result.title)}</h1><p>This page could not be drawn. The results of the run are complete.</p>"
        )
        return render_page(result.title, f"{text}<pre>{escape(traceback.format_exc())}</pre>")


def is_complete(folder: Path) -> bool:
    """Return whether a run folder holds all files of a finished run; if one is missing, the run is repeated."""
    return all((folder / name).is_file() for name in REQUIRED_FILES)


def read_result(folder: Path) -> RunResult:
    """Read and check the `result.json` of a run folder."""
    path = folder / "result.json"
    try:
        return RunResult.from_json(json.loads(path.read_text()))
    except FileNotFoundError:
        raise InputError(f"{folder} has no result.json", expected="the folder of a finished run") from None
    except (OSError, ValueError) as error:
        raise damaged_file(path, error) from None


def read_config(folder: Path) -> dict[str, Any]:
    """Read and check the `config.yaml` of a run folder."""
    path = folder / "config.yaml"
    try:
        return resolve(yaml.safe_load(path.read_text()))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise damaged_file(path, error) from None


def damaged_file(path: Path, error: Exception) -> InputError:
    reason = error.what if isinstance(error, InputError) else f"{type(error).__name__}: {error}".partition("\n")[0]
    return InputError(
        f"{path} cannot be read ({reason[:200]})",
        expected="a file of a finished run, written by this version",
        hint=f"run it again with force=true, or remove the folder: rm -r '{path.parent}'",
    )
