"""Whole commands, each in a process of its own: runs from process start to result, and the start-up of commands.

Every repeat goes through all commands, so that a slow minute of the machine affects them alike.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.timing import Record, summarise_times

DATASET = "digits"  # embedded, so that every machine measures the same
RUN_MODELS = ("lop_gpn", "gpn_sym", "appnp", "gkde", "matern_ggp")
PROGRAM = (sys.executable, "-m", "lopgpn_exp")
REFERENCE = "import torch"  # of the start-up times
COMMANDS = ("help", "score", "predict", "explain", "finished run")


@dataclass(frozen=True)
class Usage:
    """Seconds that a process took: on the clock, and of all cores."""

    wall: float
    cpu: float


def measure_runs(models: Sequence[str], *, repeats: int) -> Iterator[Record]:
    """Yield one record per model: a first run in an empty output folder, with everything that it writes.

    `seconds` is on the clock, `cpu` of all cores, and `training` the part of `seconds` that goes into preparation and
    epochs.
    """
    if models:
        with tempfile.TemporaryDirectory() as folder:  # reads libraries from disk, and compiles what is compiled once
            _run_once(models[0], Path(folder))
    usages: dict[str, list[Usage]] = {model: [] for model in models}
    trainings: dict[str, list[float]] = {model: [] for model in models}
    for _ in range(repeats):
        for model in models:
            with tempfile.TemporaryDirectory() as folder:
                usages[model].append(_run_once(model, Path(folder)))
                phases = json.loads((_find_run(Path(folder)) / "result.json").read_text())["seconds"]
                trainings[model].append(phases["prepare"] + phases["train"])
    for model in models:
        yield {
            "model": model,
            "dataset": DATASET,
            **summarise_times([usage.wall for usage in usages[model]]),
            "cpu": statistics.median(usage.cpu for usage in usages[model]),
            "training": statistics.median(trainings[model]),
        }


def measure_startup(names: Sequence[str], *, repeats: int) -> Iterator[Record]:
    """Yield one record for importing torch and one per command, which all show the same finished run.

    `ratio` is the multiple of importing torch.
    """
    if not names:
        return
    with tempfile.TemporaryDirectory() as folder:
        _run_once(RUN_MODELS[0], Path(folder))
        commands = {REFERENCE: [sys.executable, "-c", REFERENCE]}
        commands |= {name: _build_command(name, _find_run(Path(folder)).name) for name in names}
        usages: dict[str, list[Usage]] = {name: [] for name in commands}
        for _ in range(repeats):
            for name, command in commands.items():
                usages[name].append(time_process(command, Path(folder)))
    summaries = {name: summarise_times([usage.wall for usage in values]) for name, values in usages.items()}
    for name, summary in summaries.items():
        cpu = statistics.median(usage.cpu for usage in usages[name])
        yield {"what": name, **summary, "cpu": cpu, "ratio": summary["seconds"] / summaries[REFERENCE]["seconds"]}


def time_process(command: Sequence[str], folder: Path) -> Usage:
    """Run a command in a folder and return what it took; a command that fails is an error."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return Usage(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def _build_command(name: str, run: str) -> list[str]:
    arguments = {"help": ["--help"], "explain": ["explain", run, "5"], "finished run": _run_arguments(RUN_MODELS[0])}
    return [*PROGRAM, *arguments.get(name, [name, run])]


def _run_once(model: str, folder: Path) -> Usage:
    return time_process([*PROGRAM, *_run_arguments(model)], folder)


def _run_arguments(model: str) -> list[str]:
    return [f"model={model}", f"dataset={DATASET}"]


def _find_run(folder: Path) -> Path:
    """Return the only run in the output folder of a working folder."""
    (run,) = (folder / "outputs" / "runs").glob("[!.]*")
    return run
