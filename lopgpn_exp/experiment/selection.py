"""Words to runs: what each side of a comparison names. Without pandas and torch, so that a wrong name is quick."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lopgpn_exp.errors import InputError, nearest
from lopgpn_exp.experiment.results import read_result
from lopgpn_exp.experiment.sweeps import read_sweep

COLUMNS = ("model", "dataset", "scenario", "split", "init")
MLFLOW_ID = re.compile(r"[0-9a-f]{32}")
A_SIDE = "a run id (or how it begins), the folder of a run, a sweep id, a filter, or an MLflow run id"
A_FILTER = "model=lop_gpn,dataset=cora_ml"


@dataclass(frozen=True)
class Side:
    """Finished runs under one name: their `result.json`, each with the folder it was read from."""

    label: str
    kind: str
    runs: list[dict[str, Any]] = field(repr=False)
    missing: int = 0  # runs of a sweep that are not finished


def select(words: Sequence[str], output_dir: Path, *, uri: str | None = None) -> list[Side]:
    """`uri` is where MLflow ids are looked up; None: in the output folder's own database."""
    return _told_apart([_side(word, output_dir, uri) for word in words])


def _side(word: str, output_dir: Path, uri: str | None) -> Side:
    """The first that fits: run, sweep, filter, MLflow run. A beginning that fits several is no name of any."""
    runs, sweeps = (_folders(output_dir / kind) for kind in ("runs", "sweeps"))
    ambiguous: list[str] = []
    if word in runs:
        return _run(runs[word])
    if word and (Path(word) / "result.json").is_file():
        return _run(Path(word))
    for folders, read in ((runs, _run), (sweeps, lambda folder: _sweep(folder, runs))):
        begun = [word] if word in folders else [name for name in folders if word and name.startswith(word)]
        if len(begun) == 1:
            return read(folders[begun[0]])
        ambiguous += begun
    if "=" in word:
        return Side(word, "filter", _filtered(word, runs))
    if MLFLOW_ID.fullmatch(word):
        return _mlflow_run(word, output_dir, uri, runs)
    if ambiguous:
        raise InputError(
            f"{word!r} is how {len(ambiguous)} names begin: {', '.join(ambiguous[:3])}"
            + ", ..." * (len(ambiguous) > 3),
            expected="one, or a filter for several",
            hint=f"{ambiguous[0]}, or {A_FILTER}",
        )
    raise _unknown(word, [*runs, *sweeps], output_dir)


def _unknown(word: str, names: list[str], output_dir: Path) -> InputError:
    if "/" in word or (word and Path(word).is_dir()):
        return InputError(f"{word} is not the folder of a finished run", expected="a folder with a result.json")
    if not names:
        return InputError(
            f"{output_dir / 'runs'} holds no runs",
            expected="the output folder of finished runs",
            hint="python -m lopgpn_exp, or --output-dir FOLDER",
        )
    near = nearest(word, names)
    model = nearest(word, {name.partition("-")[0] for name in names})  # the word that a run id begins with
    hint = near or (f"model={model}" if model else A_FILTER)
    return InputError(f"nothing in {output_dir} is named {word!r}", expected=A_SIDE, hint=hint)


def _run(folder: Path) -> Side:
    result = _read(folder)
    return Side(" · ".join(_parts(result)[:4]), "run", [result])


def _read(folder: Path) -> dict[str, Any]:
    return read_result(folder) | {"folder": folder}


def _parts(result: dict[str, Any]) -> list[str]:
    """A run's title in its parts, then what is not in the title."""
    title = [result["model"], result["dataset"], f"split {result['split']}", result["scenario"]]
    return [*title, f"init {result['init']}", result["run_id"].rpartition("-")[2]]


def _sweep(folder: Path, runs: dict[str, Path]) -> Side:
    sweep = read_sweep(folder)
    side = _group(sweep.name, "sweep", sweep.run_ids, runs)
    for run in side.runs:  # a model that the sweep runs with several values is several models
        run["model"] += f" {label}" if (label := sweep.labels.get(run["run_id"])) else ""
    return side


def _mlflow_run(mlflow_id: str, output_dir: Path, uri: str | None, runs: dict[str, Path]) -> Side:
    """What a run's page in the UI is of: a run, a sweep, or a model's means over one.

    A sweep is read from its own record: a run that two sweeps share is in MLflow under the newer one.
    """
    from lopgpn_exp.experiment.tracking import tags_of  # MLflow: seconds

    tags = tags_of(mlflow_id, uri=uri, output_dir=output_dir)
    kind, run_id = tags.get("kind", "run"), tags.get("run_id", "")
    if kind == "sweep":
        return _sweep(output_dir / "sweeps" / run_id, runs)
    if kind == "summary":
        side = _sweep(output_dir / "sweeps" / tags["sweep"], runs)
        chosen = [r for r in side.runs if (r["model"], r["dataset"]) == (tags["model"], tags["dataset"])]
        return Side(f"{tags['model']} of {tags['sweep'][:10]}", "model of a sweep", chosen)
    if run_id not in runs:
        raise InputError(f"the run {run_id or mlflow_id} of MLflow is not in {output_dir}", expected="a finished run")
    return _run(runs[run_id])


def _group(label: str, kind: str, run_ids: Sequence[str], runs: dict[str, Path]) -> Side:
    found = list(_finished(runs[run_id] for run_id in run_ids if run_id in runs))
    if not found:
        raise InputError(
            f"none of the {len(run_ids)} runs of {label!r} is finished here",
            expected="at least one",
            hint="run the sweep again, or --output-dir FOLDER",
        )
    return Side(label, kind, found, missing=len(run_ids) - len(found))


def _filtered(word: str, runs: dict[str, Path]) -> list[dict[str, Any]]:
    """`model=lop_gpn,split=0+1+2`: runs whose columns have one of the values."""
    wanted: dict[str, set[str]] = {}
    for term in word.split(","):
        column, _, values = term.partition("=")
        if column not in COLUMNS:
            near = nearest(column, COLUMNS)
            raise InputError(
                f"there is no column {column!r} in the filter {word!r}",
                expected="some of " + ", ".join(COLUMNS),
                hint=f"{near}={values}" if near else A_FILTER,
            )
        if column in wanted:
            raise InputError(
                f"{column} comes twice in the filter {word!r}",
                expected="each column once, several values joined by +",
                hint=f"{column}={'+'.join(sorted(wanted[column]))}+{values}",
            )
        wanted[column] = set(values.split("+"))
    left = list(_finished(runs.values()))
    for column, values in wanted.items():
        known = {str(run[column]) for run in left}
        if wrong := sorted(values - known):
            near = nearest(wrong[0], known)
            raise InputError(
                f"no finished run matches {column}={wrong[0]} of the filter {word!r}",
                expected="one of " + ", ".join(sorted(known)) if known else "finished runs in the output folder",
                hint=f"{column}={near}" if near else "",
            )
        left = [run for run in left if str(run[column]) in values]
    return left


def _finished(folders: Any) -> Iterator[dict[str, Any]]:
    for folder in folders:
        try:
            yield _read(folder)
        except InputError:  # not finished, or of another version: running it again says so
            continue


def _folders(parent: Path) -> dict[str, Path]:
    return {path.name: path for path in sorted(parent.glob("[!.]*")) if path.is_dir()}


def _told_apart(sides: list[Side]) -> list[Side]:
    """Labels that differ: of runs alone, just the parts in which they do; what is still the same gets a number."""
    if all(side.kind == "run" for side in sides):
        parts = [_parts(side.runs[0]) for side in sides]
        apart = [i for i in range(len(parts[0])) if len({p[i] for p in parts}) > 1]
        hash_at = len(parts[0]) - 1
        apart = [0, hash_at] if apart == [hash_at] else [i for i in apart if i != hash_at]
        labels = [" · ".join(p[i] for i in apart) or side.label for p, side in zip(parts, sides, strict=True)]
    else:
        labels = [side.label for side in sides]
    seen: Counter[str] = Counter()
    for i, label in enumerate(labels):
        seen[label] += 1
        labels[i] = label if seen[label] == 1 else f"{label} ({seen[label]})"
    return [Side(label, side.kind, side.runs, side.missing) for label, side in zip(labels, sides, strict=True)]
