"""What a run leaves behind, and reading it back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from lopgpn_exp.errors import InputError
from lopgpn_exp.experiment.files import folder_written_at_once, link_or_copy, write_json

if TYPE_CHECKING:  # whoever reads results needs no torch
    from lopgpn_exp.evaluation import Evaluation

SCHEMA = 1
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
) -> None:
    """`config.yaml`, `model.ckpt`, `predictions.parquet`, `result.json` and the figures, all or none of them."""
    from lopgpn_exp.report.figures import save_figures

    with folder_written_at_once(folder) as scratch:
        (scratch / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
        if checkpoint is not None:
            link_or_copy(checkpoint, scratch / "model.ckpt")
        evaluation.predictions.to_parquet(scratch / "predictions.parquet", index=False)
        save_figures(scratch, evaluation, title=title)
        write_json(scratch / "result.json", result)


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
