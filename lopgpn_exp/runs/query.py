"""Find the runs that an argument of a command refers to. Needs neither pandas nor torch: a typo is reported fast."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from lopgpn_exp.errors import InputError, nearest
from lopgpn_exp.records import RunResult
from lopgpn_exp.runs.saved_run import SavedRun
from lopgpn_exp.runs.skipped_runs import read_folders
from lopgpn_exp.runs.sweep_folder import read_sweep

FILTER_COLUMNS = ("model", "dataset", "scenario", "split", "init")
MLFLOW_ID = re.compile(r"[0-9a-f]{32}")
SELECTION = "a run id (or its beginning), the folder of a run, a sweep id, a filter, or an MLflow run id"

ReadTags = Callable[[str], Mapping[str, str]]


@dataclass(frozen=True)
class RunSelection:
    """Finished runs under one label.

    Args:
        kind: `run`, `sweep`, `filter` or `model of a sweep`.
        num_missing: runs of a sweep that are not finished.
        damaged: errors by id of runs that are left out, because their files cannot be read.
    """

    label: str
    kind: str
    runs: list[SavedRun] = field(repr=False)
    num_missing: int = 0
    damaged: Mapping[str, InputError] = field(default_factory=dict)

    @property
    def description(self) -> str:
        if self.kind == "run":
            return self.runs[0].result.run_id
        missing = f", {self.num_missing} more not finished" if self.num_missing else ""
        damaged = f", {len(self.damaged)} more with damaged files" if self.damaged else ""
        return f"{self.kind}, {len(self.runs)} run{'s' * (len(self.runs) != 1)}{missing}{damaged}"


def find_run(word: str, output_dir: Path, *, read_tags: ReadTags, is_trusted: bool = False) -> SavedRun:
    """Return the one run that a word refers to.

    Args:
        is_trusted: see `SavedRun`.
    """
    (selection,) = select_runs([word], output_dir, read_tags=read_tags)
    if len(selection.runs) != 1:
        raise InputError(
            f"{word!r} matches {len(selection.runs)} runs",
            expected="exactly one run",
            parameter="run",
            suggestion=selection.runs[0].result.run_id,
        )
    return replace(selection.runs[0], is_trusted=is_trusted)


def select_runs(words: Sequence[str], output_dir: Path, *, read_tags: ReadTags) -> list[RunSelection]:
    """Return the runs that each word refers to, with distinct labels.

    Args:
        read_tags: returns the MLflow tags of an MLflow run id.
    """
    return _make_labels_unique([_select(word, output_dir, read_tags) for word in words])


def _select(word: str, output_dir: Path, read_tags: ReadTags) -> RunSelection:
    """Try in this order: run, sweep, filter, MLflow run. Ambiguous prefixes match nothing."""
    runs, sweeps = (_subfolders(output_dir / kind) for kind in ("runs", "sweeps"))
    ambiguous: list[str] = []
    if word in runs:
        return _select_run(runs[word])
    if word and (Path(word) / "result.json").is_file():
        return _select_run(Path(word))
    for folders, select in ((runs, _select_run), (sweeps, lambda folder: _select_sweep(folder, runs))):
        matches = [word] if word in folders else [name for name in folders if word and name.startswith(word)]
        if len(matches) == 1:
            return select(folders[matches[0]])
        ambiguous += matches
    if "=" in word:
        finished, skipped = read_folders(runs.values(), SavedRun.open)
        return RunSelection(word, "filter", _filter_runs(word, finished), damaged=skipped.damaged)
    if MLFLOW_ID.fullmatch(word):
        return _select_by_tags(read_tags(word), output_dir, runs)
    if ambiguous:
        raise InputError(
            f"{word!r} is the beginning of {len(ambiguous)} names: {', '.join(ambiguous[:3])}"
            + ", ..." * (len(ambiguous) > 3),
            expected="one of them (the newest is suggested), or a filter for several",
            parameter="run",
            suggestion=max(ambiguous, key=lambda name: (runs | sweeps)[name].stat().st_mtime),
        )
    raise _no_match(word, [*runs, *sweeps], output_dir)


def _no_match(word: str, names: list[str], output_dir: Path) -> InputError:
    if "/" in word or (word and Path(word).is_dir()):
        return InputError(f"{word} is not the folder of a finished run", expected="a folder with a result.json")
    if not names:
        return InputError(
            f"there are no runs in {output_dir / 'runs'}",
            expected="the output folder of finished runs",
            parameter="output_dir",
        )
    close = nearest(word, names)
    model = nearest(word, {name.partition("-")[0] for name in names})  # a run id begins with the model
    return InputError(
        f"{word!r} matches no run in {output_dir}",
        expected=SELECTION,
        parameter="run",
        suggestion=close or (f"model={model}" if model else names[0]),
    )


def _select_run(folder: Path) -> RunSelection:
    run = SavedRun.open(folder)
    return RunSelection(run.result.title, "run", [run])


def _select_sweep(folder: Path, runs: dict[str, Path]) -> RunSelection:
    sweep = read_sweep(folder)
    folders = [runs[run_id] for run_id in sweep.run_ids if run_id in runs]
    finished, skipped = read_folders(folders, SavedRun.open)
    if not finished:
        raise InputError(
            f"none of the {len(sweep.run_ids)} runs of {sweep.name!r} is finished here",
            expected="at least one finished run",
            hint="repeat the command that started the sweep",
        )
    labelled = [_label_model(run, sweep.labels.get(run.result.run_id)) for run in finished]
    num_missing = len(sweep.run_ids) - len(finished) - len(skipped.damaged)
    return RunSelection(sweep.name, "sweep", labelled, num_missing, skipped.damaged)


def _label_model(run: SavedRun, label: str | None) -> SavedRun:
    """Return the run under another model name if the sweep runs its model with several settings."""
    return run if label is None else replace(run, result=replace(run.result, model=f"{run.result.model} {label}"))


def _select_by_tags(tags: Mapping[str, str], output_dir: Path, runs: dict[str, Path]) -> RunSelection:
    """Return what a run in the MLflow UI shows: a run, a sweep, or the means of one model over a sweep.

    A sweep is read from its own record: MLflow lists a run that two sweeps share under the newer one only.
    """
    kind = tags.get("kind", "run")
    name = tags.get("sweep" if kind == "summary" else "run_id", "")
    folders = _subfolders(output_dir / "sweeps") if kind in ("sweep", "summary") else runs
    if name not in folders:
        raise InputError(f"the {kind} {name} of MLflow is not in {output_dir}", expected="a finished run or sweep")
    if kind not in ("sweep", "summary"):
        return _select_run(folders[name])
    sweep = _select_sweep(folders[name], runs)
    if kind == "sweep":
        return sweep
    key = (tags.get("model", ""), tags.get("dataset", ""))
    members = [run for run in sweep.runs if (run.result.model, run.result.dataset) == key]
    if not members:
        raise InputError(f"no run of {key[0]} on {key[1]} in {name} is finished here", expected="at least one")
    return RunSelection(f"{key[0]} of {name[:10]}", "model of a sweep", members, damaged=sweep.damaged)


def _filter_runs(word: str, selected: list[SavedRun]) -> list[SavedRun]:
    """Return the runs that match a filter such as `model=lop_gpn,split=0+1+2`."""
    for column, values in _parse_filter(word).items():
        valid_values = {str(getattr(run.result, column)) for run in selected}
        if unmatched := sorted(values - valid_values):
            close = nearest(unmatched[0], valid_values)
            raise InputError(
                f"no finished run matches {column}={unmatched[0]} of the filter {word!r}",
                expected="one of " + ", ".join(sorted(valid_values)) if valid_values else "finished runs",
                hint=f"{column}={close}" if close else "",
            )
        selected = [run for run in selected if str(getattr(run.result, column)) in values]
    return selected


def _parse_filter(word: str) -> dict[str, set[str]]:
    columns: dict[str, set[str]] = {}
    for term in word.split(","):
        column, _, values = term.partition("=")
        if column not in FILTER_COLUMNS:
            close = nearest(column, FILTER_COLUMNS)
            raise InputError(
                f"there is no column {column!r} in the filter {word!r}",
                expected="some of " + ", ".join(FILTER_COLUMNS),
                hint=f"{close}={values}" if close else "model=lop_gpn",
            )
        if column in columns:
            raise InputError(
                f"{column} occurs twice in the filter {word!r}",
                expected="each column once, with several values joined by +",
                hint=f"{column}={'+'.join(sorted(columns[column]))}+{values}",
            )
        columns[column] = set(values.split("+"))
    return columns


def _subfolders(parent: Path) -> dict[str, Path]:
    return {path.name: path for path in sorted(parent.glob("[!.]*")) if path.is_dir()}


def _make_labels_unique(selections: list[RunSelection]) -> list[RunSelection]:
    """Label single runs by the parts in which they differ; number labels that are still the same."""
    labels = [selection.label for selection in selections]
    if all(selection.kind == "run" for selection in selections):
        labels = _label_single_runs([selection.runs[0].result for selection in selections])
    counts: Counter[str] = Counter()
    for i, label in enumerate(labels):
        counts[label] += 1
        labels[i] = label if counts[label] == 1 else f"{label} ({counts[label]})"
    return [replace(selection, label=label) for label, selection in zip(labels, selections, strict=True)]


def _label_single_runs(results: Sequence[RunResult]) -> list[str]:
    rows = [
        [r.model, r.dataset, f"split {r.split}", r.scenario, f"init {r.init}", r.run_id.rpartition("-")[2]]
        for r in results
    ]
    differing = [i for i in range(len(rows[0])) if len({row[i] for row in rows}) > 1]
    hash_column = len(rows[0]) - 1
    columns = [0, hash_column] if differing == [hash_column] else [i for i in differing if i != hash_column]
    return [" · ".join(row[i] for i in columns) or r.title for row, r in zip(rows, results, strict=True)]
