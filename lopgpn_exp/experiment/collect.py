"""Every finished run as one table."""

from __future__ import annotations

import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pandas as pd

from lopgpn_exp.errors import InputError
from lopgpn_exp.experiment.files import folder_written_at_once
from lopgpn_exp.experiment.results import is_complete, read_result

KEYS = ["model", "dataset", "scenario", "split", "init", "run_id"]


def read_results(output_dir: Path | str = "outputs", *, run_ids: Collection[str] | None = None) -> list[dict[str, Any]]:
    """`result.json` of the finished runs below a folder, in the order of their names. What cannot be read is left out:
    it is not finished, or of another schema, and running it again says so."""
    results = []
    for folder in sorted((Path(output_dir) / "runs").glob("[!.]*")):
        if run_ids is not None and folder.name not in run_ids:
            continue
        try:
            results.append(read_result(folder))
        except InputError:
            continue
    return results


def load_results(
    output_dir: Path | str = "outputs", *, run_ids: Collection[str] | None = None, **filters: Any
) -> pd.DataFrame:
    """One row a finished run: what it is, its metrics, epochs, seconds and memory.

    Args:
        filters: values or lists of values of the columns, such as `model="lop_gpn"`, `split=[0, 1]`.
    """
    rows = [
        {key: result[key] for key in KEYS}
        | result["metrics"]
        | {"epochs": result["epochs"], "peak_rss_mb": result["peak_rss_mb"]}
        | {f"seconds/{phase}": value for phase, value in result["seconds"].items()}
        for result in read_results(output_dir, run_ids=run_ids)
    ]
    table = pd.DataFrame(rows, columns=None if rows else KEYS)
    for column, wanted in filters.items():
        if column not in table:
            raise InputError(f"there is no column {column!r}", expected="one of " + ", ".join(table.columns))
        table = table[table[column].isin([wanted] if isinstance(wanted, str | int | float) else list(wanted))]
    return table.reset_index(drop=True)


def load_curves(output_dir: Path | str = "outputs", *, run_ids: Collection[str] | None = None) -> pd.DataFrame:
    """Accuracy-rejection curves in long form: one row a run, measure and percent rejected."""
    frames = [
        pd.DataFrame({"percent": range(len(curve)), "accuracy": curve}).assign(
            measure=name.removeprefix("arc/"), **{key: result[key] for key in KEYS}
        )
        for result in read_results(output_dir, run_ids=run_ids)
        for name, curve in result["curves"].items()
    ]
    return (
        pd.concat(frames, ignore_index=True)
        if frames
        else pd.DataFrame(columns=["percent", "accuracy", "measure", *KEYS])
    )


def pack(file: Path, output_dir: Path, run_ids: Collection[str], *, models: bool = False) -> None:
    """The folders of some runs as one zip file; checkpoints, the largest part, only if asked for."""
    temporary = file.with_name(f".{file.name}.part")
    try:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
            for run_id in run_ids:
                for path in sorted((output_dir / "runs" / run_id).iterdir()):
                    if models or path.name != "model.ckpt":
                        archive.write(path, f"{run_id}/{path.name}")
        temporary.replace(file)
    except OSError as error:
        raise InputError(f"{file} cannot be written ({error.strerror})", expected="a writable place") from None
    finally:
        temporary.unlink(missing_ok=True)


def unpack(file: Path, output_dir: Path) -> tuple[int, int]:
    """Bring packed runs into an output folder, each whole or not at all; how many came, how many were there already."""
    try:
        with zipfile.ZipFile(file) as archive:
            members: dict[str, list[str]] = {}
            for name in archive.namelist():
                run_id, _, rest = name.partition("/")
                if not rest or "/" in rest or run_id in ("", ".", "..") or run_id.startswith("."):
                    raise InputError(f"{file} holds {name!r}", expected="a file made by --pack")
                members.setdefault(run_id, []).append(rest)
            new = [run_id for run_id in members if not is_complete(output_dir / "runs" / run_id)]
            for run_id in new:
                with folder_written_at_once(output_dir / "runs" / run_id) as scratch:
                    for name in members[run_id]:
                        (scratch / name).write_bytes(archive.read(f"{run_id}/{name}"))
                    read_result(scratch)
    except (OSError, zipfile.BadZipFile) as error:
        raise InputError(f"{file} cannot be read ({error})", expected="a file made by --pack") from None
    return len(new), len(members) - len(new)
