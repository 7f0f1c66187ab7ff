"""The folder of a run: writing its files, and reading its result and its config."""

from __future__ import annotations

import logging
import re
import shlex
import traceback
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from lopgpn_exp.config.command_line import find_overrides
from lopgpn_exp.config.compose import resolve
from lopgpn_exp.config.limits import check_structure
from lopgpn_exp.config.safe_yaml import parse_yaml
from lopgpn_exp.config.schema import flatten
from lopgpn_exp.errors import InputError
from lopgpn_exp.records import SCHEMA, RunResult
from lopgpn_exp.runs.checksums import CHECKSUM_FILE, has_checksums, read_verified, verify
from lopgpn_exp.runs.storage import atomic_folder, link_or_copy, read_json, write_json

if TYPE_CHECKING:  # reading results needs no torch
    from lopgpn_exp.evaluation.evaluate import Evaluation
    from lopgpn_exp.graph import Graph

log = logging.getLogger(__name__)

KEY = re.compile(r"(?=.{1,250}$)\w[\w-]*(\.\w[\w-]*)*")  # of a config, as MLflow accepts it
LEGEND_FILE = "legend.json"
MAX_RESULT_BYTES = 2**26  # more than any training writes; parsing takes many times the size
REQUIRED_FILES = ("config.yaml", "predictions.parquet", "result.json")
OPTIONAL_FILES = ("model.ckpt", LEGEND_FILE)  # a checkpoint may be left on a cluster


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
    """Return whether a folder holds all files of a finished run, with the right checksums.

    The result is not parsed: a sweep does that once, for all of its runs.
    """
    try:
        for name in REQUIRED_FILES:
            verify(folder / name)
    except (OSError, ValueError):
        return False
    return True


def find_damage(folder: Path) -> str | None:
    """Return what is wrong with the folder of a run: a missing or damaged file, or an invalid result; else None."""
    try:
        for name in REQUIRED_FILES + tuple(name for name in OPTIONAL_FILES if (folder / name).exists()):
            verify(folder / name)
        read_result(folder)
    except InputError as error:
        return error.what
    except (OSError, ValueError) as error:
        return f"{folder / name} cannot be read ({error})"
    return None


def read_result(folder: Path, *, run_id: str | None = None) -> RunResult:
    """Read and check the `result.json` of a run folder, whose name (or `run_id`) must be the id of the run."""
    path = folder / "result.json"
    run_id = run_id or folder.resolve().name
    try:
        if (size := path.stat().st_size) > MAX_RESULT_BYTES:
            raise ValueError(f"it has {size:,} bytes")
        content = read_json(path)
        result = RunResult.from_json(content)
        if result.run_id != run_id:
            raise ValueError(f"it is the result of {result.run_id}, in the folder of {run_id}")
        if content["schema"] == SCHEMA and not has_checksums(folder):
            raise ValueError(f"its folder has no {CHECKSUM_FILE}")
        return result
    except FileNotFoundError:
        raise InputError(f"{folder} has no result.json", expected="the folder of a finished run") from None
    except (OSError, ValueError) as error:
        raise damaged_file(path, error) from None


def read_config(folder: Path) -> dict[str, Any]:
    """Read and check the `config.yaml` of a run folder."""
    try:
        return _parse_config(folder)
    except (OSError, ValueError) as error:
        raise damaged_file(folder / "config.yaml", error) from None


def _parse_config(folder: Path) -> dict[str, Any]:
    config = resolve(parse_yaml(read_verified(folder / "config.yaml").decode()))
    check_structure(config)
    for key, _ in flatten(config):
        if not KEY.fullmatch(key):
            raise ValueError(f"it has the key {key[:80]!r}")
    return config


def damaged_file(path: Path, error: Exception) -> InputError:
    """Return the error about a file of a run that cannot be read, with the command that makes the run again."""
    reason = error.what if isinstance(error, InputError) else f"{error}".partition("\n")[0] or type(error).__name__
    return InputError(
        f"{path} cannot be read ({reason[:200]})",
        expected="a file of a finished run, as this program wrote it",
        hint=repair_hint(path.parent),
    )


def repair_hint(folder: Path) -> str:
    """Return the command that makes a damaged run again."""
    try:
        location = f"output_dir={folder.parent.parent}"
        return shlex.join(["lopgpn_exp", *find_overrides(_parse_config(folder)), location, "force=true"])
    except (OSError, ValueError):  # the config is damaged too, or one of its groups is the user's own
        return f"rm -r {shlex.quote(str(folder))}, then repeat the command that made the run"
