"""Mutated files of every format that the program reads: refused with a message, or read as what they should be.

A damaged file still has the checksum of the original, so what is read from it must be the original. A hostile file is
one whose author has written matching checksums: it may say anything, but it must not run anything, and whoever reads it
gets values of the right types.
"""

import shutil
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from lopgpn_exp.evaluation.trust import Limits, fit_validation_limits
from lopgpn_exp.paper.runs_file import StoredRuns, load_runs
from lopgpn_exp.records import RunResult
from lopgpn_exp.runs.checkpoint import load_model
from lopgpn_exp.runs.checksums import write_checksums
from lopgpn_exp.runs.saved_run import SavedRun
from lopgpn_exp.runs.sweep_folder import label_variants, read_sweep
from lopgpn_exp.runs.table import curves_table, results_table
from lopgpn_exp.runs.training_cache import _read_training
from tests.support.binary_mutations import (
    mutate_checkpoint,
    mutate_reproduction,
    mutate_table,
)
from tests.support.fuzzing import Fuzzer
from tests.support.hostile import mutate
from tests.support.mutations import Mutation, mutate_json, mutate_yaml
from tests.support.published_runs import save_published
from tests.support.random_runs import save_sweep

SLOW = 4  # reading a run takes 50 ms, most of them for the command that repairs it


@pytest.fixture
def folder(tree_outputs, tmp_path) -> Path:
    """Return the folder of a finished run on a user's own graph."""
    shutil.copytree(tree_outputs, tmp_path / "outputs")
    (folder,) = (tmp_path / "outputs" / "runs").glob("[!.]*")
    return folder


def state_bytes(run: SavedRun) -> dict[str, bytes]:
    return {name: value.numpy().tobytes() for name, value in run.model.state_dict().items()}


READ: dict[str, Callable[[SavedRun], Any]] = {
    "result.json": lambda run: run.result,
    "config.yaml": lambda run: run.config,
    "legend.json": lambda run: run.legend and run.legend.to_json(),
    "predictions.parquet": lambda run: run.predictions.to_csv(),
    "model.ckpt": state_bytes,
    "SHA256SUMS": lambda run: (run.result, run.config, run.legend and run.legend.to_json(), run.predictions.to_csv()),
}


@pytest.mark.parametrize("name", READ)
def test_damaged_file_of_a_run(fuzzer: Fuzzer, folder, name):
    path = folder / name
    original, expected = path.read_bytes(), READ[name](SavedRun.open(folder))

    def read(content: bytes) -> Any:
        path.write_bytes(content)
        return READ[name](SavedRun.open(folder))

    def is_unchanged(value: Any) -> None:
        assert value == expected

    fuzzer.run(f"{name}, damaged", lambda rng: mutate(original, rng), read, check=is_unchanged, share=SLOW)


def use_result(run: SavedRun) -> RunResult:
    """Read a result as the command `results` does."""
    results_table([run.result, run.result]).to_csv()
    curves_table([run.result])
    return run.result


def is_result(result: Any) -> None:
    for value in (result.run_id, result.model, result.dataset, result.scenario, result.training_id):
        assert isinstance(value, str)
    assert all(type(value) is int for value in (result.split, result.init, result.epochs))
    numbers = chain(result.metrics.values(), result.seconds.values(), [result.peak_rss_mb], *result.curves.values())
    assert all(isinstance(value, float | int) and np.isfinite(value) for value in numbers)


def use_config(run: SavedRun) -> str:
    label_variants({"a": run.config, "b": run.config})
    return run.plan.model_class


def is_own_model(name: Any) -> None:
    assert name.startswith("lopgpn_exp.models.")


def is_legend(legend: Any) -> None:
    if legend is not None:
        assert all(isinstance(name, str) for name in (*legend.classes, *legend.features, legend.scaling))
        for array in (legend.shift, legend.scale):
            assert array is None or (array.shape == (len(legend.features),) and np.isfinite(array).all())


def is_limits(limits: Any) -> None:
    assert isinstance(limits, Limits)
    assert isinstance(limits.nodes, int)


def is_model(model: Any) -> None:
    assert isinstance(model, torch.nn.Module)


HOSTILE_RUNS: dict[str, tuple[Mutation, Callable[[SavedRun], Any], Callable[[Any], None]]] = {
    "result.json": (mutate_json, use_result, is_result),
    "config.yaml": (mutate_yaml, use_config, is_own_model),
    "legend.json": (mutate_json, lambda run: run.legend, is_legend),
    "predictions.parquet": (mutate_table, lambda run: fit_validation_limits(run.predictions), is_limits),
    "model.ckpt": (mutate_checkpoint, lambda run: run.model, is_model),
}


@pytest.mark.parametrize("name", HOSTILE_RUNS)
def test_hostile_file_of_a_run(fuzzer: Fuzzer, folder, name):
    path, original = folder / name, (folder / name).read_bytes()
    change, use, check = HOSTILE_RUNS[name]

    def read(content: bytes) -> Any:
        path.write_bytes(content)
        write_checksums(folder)
        return use(SavedRun.open(folder))

    check(read(original))
    fuzzer.run(f"{name}, hostile", lambda rng: change(original, rng), read, check=check, share=SLOW)


def test_hostile_checkpoint_outside_of_a_run(fuzzer: Fuzzer, folder, tmp_path):
    """`checkpoint=FILE`."""
    run, path = SavedRun.open(folder), tmp_path / "copy.ckpt"
    original = (folder / "model.ckpt").read_bytes()
    plan, graph = run.plan, run.graphs.training

    def read(content: bytes) -> Any:
        path.write_bytes(content)
        return load_model(path, plan, graph)

    is_model(read(original))
    fuzzer.run("checkpoint=", lambda rng: mutate_checkpoint(original, rng), read, check=is_model)


@pytest.mark.parametrize("name", ["training.json", "model.ckpt", "SHA256SUMS"])
def test_damaged_training(fuzzer: Fuzzer, folder, name):
    (training,) = (path for path in (folder.parent.parent / "trainings").iterdir() if path.is_dir())
    expected, path = _read_training(training), training / name
    original = path.read_bytes()

    def read(content: bytes) -> Any:
        path.write_bytes(content)
        return _read_training(training)

    def is_unchanged_or_missing(value: Any) -> None:
        assert value is None or value == expected

    fuzzer.run(f"training {name}, damaged", lambda rng: mutate(original, rng), read, check=is_unchanged_or_missing)


def test_hostile_training(fuzzer: Fuzzer, folder):
    (training,) = (path for path in (folder.parent.parent / "trainings").iterdir() if path.is_dir())
    path = training / "training.json"
    original = path.read_bytes()

    def read(content: bytes) -> Any:
        path.write_bytes(content)
        write_checksums(training)
        return _read_training(training)

    def is_training(value: Any) -> None:
        if value is not None:
            assert type(value.epochs) is int
            assert isinstance(value.peak_rss_mb, float | int)
            assert all(isinstance(seconds, float | int) for seconds in value.seconds.values())

    is_training(read(original))
    fuzzer.run("training.json, hostile", lambda rng: mutate_json(original, rng), read, check=is_training)


def test_hostile_sweep_record(fuzzer: Fuzzer, tmp_path):
    save_sweep(tmp_path, "sweep-1", name="sweep", run_ids=["a", "b"], labels={"a": "teleport 0.1", "b": "teleport 0.2"})
    path = tmp_path / "sweeps" / "sweep-1" / "sweep.json"
    original = path.read_bytes()

    def read(content: bytes) -> Any:
        path.write_bytes(content)
        return read_sweep(path.parent)

    def is_record(record: Any) -> None:
        names = (record.id, record.name, *record.run_ids, *record.labels, *record.labels.values())
        assert all(isinstance(name, str) for name in names)
        assert not any("/" in name for name in record.run_ids)

    is_record(read(original))
    fuzzer.run("sweep.json, hostile", lambda rng: mutate_json(original, rng), read, check=is_record)


@pytest.fixture(scope="module")
def reproduction(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("reproduction") / "runs.parquet"
    save_published(path, datasets=("cora_ml",))
    return path


def test_damaged_reproduction(fuzzer: Fuzzer, reproduction, tmp_path):
    path, original, expected = tmp_path / "runs.parquet", reproduction.read_bytes(), load_runs(reproduction)

    def read(content: bytes) -> Any:
        path.write_bytes(content)
        return load_runs(path)

    def is_unchanged(runs: Any) -> None:
        pd.testing.assert_frame_equal(runs.results, expected.results)
        pd.testing.assert_frame_equal(runs.curves, expected.curves)
        assert runs.notes == expected.notes

    fuzzer.run("runs.parquet, damaged", lambda rng: mutate(original, rng), read, check=is_unchanged)


def test_hostile_reproduction(fuzzer: Fuzzer, reproduction, tmp_path):
    path, original = tmp_path / "runs.parquet", reproduction.read_bytes()

    def read(content: bytes) -> Any:
        path.write_bytes(content)
        return load_runs(path)

    def are_runs(runs: Any) -> None:
        assert isinstance(runs, StoredRuns)
        assert all(pd.api.types.is_integer_dtype(runs.results[key]) for key in ("split", "init"))
        numbers = [name for name in runs.results if name.startswith(("test/", "ood/", "id/", "seconds/"))]
        assert all(pd.api.types.is_numeric_dtype(runs.results[name]) for name in numbers)
        assert all(isinstance(value, str) for value in runs.results["run_id"])

    fuzzer.run("runs.parquet, hostile", lambda rng: mutate_reproduction(original, rng), read, check=are_runs)
