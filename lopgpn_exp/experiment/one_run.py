"""The one run that a command is about."""

from __future__ import annotations

from pathlib import Path

from lopgpn_exp.errors import InputError
from lopgpn_exp.experiment.finished import Finished, open_run
from lopgpn_exp.experiment.selection import select


def one_run(word: str, output_dir: Path, *, uri: str | None = None) -> Finished:
    """The run that a word names, as in `lopgpn_exp.compare`: a run id or how it begins, a folder, an MLflow id."""
    (side,) = select([word], output_dir, uri=uri)
    if len(side.runs) != 1:
        raise InputError(f"{word!r} names {len(side.runs)} runs", expected="one", hint=str(side.runs[0]["run_id"]))
    return open_run(side.runs[0]["folder"])
