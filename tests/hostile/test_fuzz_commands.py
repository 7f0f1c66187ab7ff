"""Mutated files through the commands: each ends with its result or with one message, whatever the file says."""

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from lopgpn_exp.data.datasets.synthetic import block_model
from lopgpn_exp.errors import InputError
from lopgpn_exp.paper import paper_report
from lopgpn_exp.runs.archive import pack_runs
from lopgpn_exp.runs.checksums import has_checksums, write_checksums
from tests.support.binary_mutations import (
    mutate_archive,
    mutate_checkpoint,
    mutate_pyg_file,
    mutate_reproduction,
    mutate_table,
)
from tests.support.fuzzing import FuzzCounts, Fuzzer
from tests.support.hostile import MARKER, mutate
from tests.support.mutations import mutate_csv, mutate_json, mutate_yaml
from tests.support.published_runs import save_published
from tests.support.tables import write_tables

SHARE = 150  # of the number of files per format, but at least one
TRAINING = ["trainer.max_epochs=3", "trainer.progress=false", "tracking=none", "output_dir=new"]
CUSTOM = ["dataset=custom", *TRAINING]


@dataclass(frozen=True)
class Case:
    """A command and the file that is mutated before it is called.

    Args:
        words: the command, with RUN for the id of the run.
        file: a file of the run's folder, or of the current one.
        mutate: how a hostile author changes the file.
        has_checksum: whether damage to the file is noticed.
    """

    words: list[str]
    file: str
    mutate: Callable[[bytes, random.Random], bytes]
    has_checksum: bool = True


CASES = {
    "predict, checkpoint": Case(["predict", "RUN"], "model.ckpt", mutate_checkpoint),
    "predict, config": Case(["predict", "RUN"], "config.yaml", mutate_yaml),
    "predict --graph, legend": Case(["predict", "RUN", "--graph", "trees"], "legend.json", mutate_json),
    "score, predictions": Case(["score", "RUN"], "predictions.parquet", mutate_table),
    "explain, checkpoint": Case(["explain", "RUN", "tree 001"], "model.ckpt", mutate_checkpoint),
    "bounds, predictions": Case(["bounds", "RUN", "--draws", "20"], "predictions.parquet", mutate_table),
    "compare, result": Case(["compare", "RUN", "RUN"], "result.json", mutate_json),
    "compare, predictions": Case(["compare", "RUN", "RUN", "--all"], "predictions.parquet", mutate_table),
    "results, result": Case(["results"], "result.json", mutate_json),
    "results --pack, result": Case(["results", "--pack", "packed.zip"], "result.json", mutate_json),
    "results --unpack": Case(["results", "--unpack", "runs.zip", "--output-dir", "new"], "runs.zip", mutate_archive),
    "run checkpoint=": Case(
        [*CUSTOM, "dataset.path=trees", "checkpoint=copy.ckpt"], "copy.ckpt", mutate_checkpoint, False
    ),
    "dataset=custom, nodes": Case([*CUSTOM, "dataset.path=trees"], "trees/nodes.csv", mutate_csv, False),
    "dataset=custom, edges": Case([*CUSTOM, "dataset.path=trees"], "trees/edges.csv", mutate_csv, False),
    "dataset=custom, pt": Case([*CUSTOM, "dataset.path=graph.pt"], "graph.pt", mutate_pyg_file, False),
    "reproduce --add": Case(["reproduce", "--report", "--add", "runs.parquet"], "runs.parquet", mutate_reproduction),
}
QUICK = ("predict, checkpoint", "results, result", "results --unpack", "dataset=custom, nodes")
NAMES = list(CASES) if "LOPGPN_FUZZ" in os.environ else QUICK
PROCESSES = (
    "results, result",
    "predict, config",
    "score, predictions",
    "dataset=custom, pt",
    "results --unpack",
    "compare, result",
)


@pytest.fixture
def run_id(tree_outputs, tmp_path, monkeypatch) -> str:
    """Write all files that the commands read into the current folder, and return the id of the run."""
    shutil.copytree(tree_outputs, tmp_path / "outputs")
    (folder,) = (tmp_path / "outputs" / "runs").glob("[!.]*")
    pack_runs(tmp_path / "runs.zip", tmp_path / "outputs", [folder.name], with_models=True)
    shutil.copy(folder / "model.ckpt", tmp_path / "copy.ckpt")
    (tmp_path / "trees").mkdir()
    write_tables(tmp_path / "trees")
    graph = block_model(num_nodes=100, num_edges=200, num_classes=3, num_features=4, signal=2.0, seed=1)
    torch.save({"x": graph.features, "edge_index": graph.edge_index, "y": graph.labels}, tmp_path / "graph.pt")
    save_published(tmp_path / "runs.parquet", datasets=("cora_ml",))
    monkeypatch.chdir(tmp_path)
    without_figures = partial(paper_report.write_report, figures=False)  # they take 15 s
    monkeypatch.setattr(paper_report, "write_report", without_figures)
    return folder.name


class Call:
    """Calls the command of a case with the content of its file.

    Args:
        run: runs the program with some words: exit code, output and errors.
    """

    def __init__(self, case: Case, run_id: str, run: Callable[..., tuple[int, str, str]]) -> None:
        self.words = [run_id if word == "RUN" else word for word in case.words]
        in_run = Path("outputs/runs") / run_id / case.file
        self.path = (in_run if in_run.exists() else Path(case.file)).resolve()
        self.run, self.original = run, self.path.read_bytes()

    def __call__(self, content: bytes, *, is_hostile: bool = True) -> tuple[str, bytes]:
        """Return what the command prints and writes; raise an InputError if it refuses the file."""
        for folder in ("new", "outputs/reproduction", "outputs/cache"):
            shutil.rmtree(folder, ignore_errors=True)
        written = Path("predictions.csv")
        written.unlink(missing_ok=True)
        self.path.write_bytes(content)
        if is_hostile and has_checksums(self.path.parent):
            write_checksums(self.path.parent)
        code, out, err = self.run(*self.words)
        assert "Traceback" not in out + err, out + err
        assert "\x1b[2J" not in out + err
        assert code in (0, 2), err
        if code == 2:
            raise InputError(err, expected="a valid file")
        return out, written.read_bytes() if written.exists() else b""


@pytest.mark.parametrize("name", NAMES)
def test_command_with_a_hostile_file(command, fuzzer: Fuzzer, run_id, name):
    call = Call(CASES[name], run_id, command)
    call(call.original)
    change = CASES[name].mutate
    fuzzer.run(name, lambda rng: change(call.original, rng), call, check=is_output, share=SHARE)


def is_output(value: Any) -> None:
    assert value[0]


@pytest.mark.parametrize("name", [name for name in NAMES if CASES[name].has_checksum])
def test_command_with_a_damaged_file(command, fuzzer: Fuzzer, run_id, name):
    call = Call(CASES[name], run_id, command)
    read = partial(call, is_hostile=False)
    expected = read(call.original)

    def is_unchanged(value: Any) -> None:
        assert value == expected

    fuzzer.run(f"{name}, damaged", lambda rng: mutate(call.original, rng), read, check=is_unchanged, share=SHARE)


@pytest.mark.parametrize("name", PROCESSES if "LOPGPN_FUZZ" in os.environ else PROCESSES[:1])
def test_process_with_a_hostile_file(fuzzer: Fuzzer, run_id, name):
    def run(*words: str) -> tuple[int, str, str]:
        done = subprocess.run([sys.executable, "-m", "lopgpn_exp", *words], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout, done.stderr

    call = Call(CASES[name], run_id, run)
    counts, start = FuzzCounts(f"{name} (process)", files=1), time.perf_counter()
    try:
        is_output(call(CASES[name].mutate(call.original, random.Random(name))))
        counts.read = 1
    except InputError:
        counts.refused = 1
    counts.seconds = time.perf_counter() - start
    fuzzer.report(asdict(counts))
    assert not Path(MARKER).exists()
