"""One run, from a checked config to its result on disk and in MLflow."""

from __future__ import annotations

import platform
import resource
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from lopgpn_exp import __version__
from lopgpn_exp.errors import InputError
from lopgpn_exp.experiment.build import Plan
from lopgpn_exp.experiment.identity import run_id, training_id
from lopgpn_exp.experiment.results import SCHEMA, is_complete, read_result, write_run
from lopgpn_exp.experiment.schema import Stage
from lopgpn_exp.experiment.trainings import Training, training
from lopgpn_exp.graph import Graph

if TYPE_CHECKING:  # Lightning: a finished run does without
    from lopgpn_exp.training import Fitted


@dataclass(frozen=True)
class Outcome:
    """A finished run: its folder, its result, and whether it had been finished before."""

    folder: Path
    result: dict[str, Any]
    cached: bool


@dataclass(frozen=True)
class Located:
    """A plan with its data read: now it is known which run this is."""

    plan: Plan
    clean: Graph
    trained_on: Graph
    training_id: str
    run_id: str
    seconds: float

    @property
    def folder(self) -> Path:
        return self.plan.output_dir / "runs" / self.run_id

    @property
    def is_finished(self) -> bool:
        return is_complete(self.folder)


def read_dataset(plan: Plan) -> Graph:
    return plan.read()


def locate(plan: Plan, *, read: Callable[[Plan], Graph] = read_dataset) -> Located:
    """Read the data of a plan and name the run. `read` may hand out a dataset that was read before."""
    start = time.perf_counter()
    clean = plan.split_graph(read(plan))
    trained_on = plan.scenario_transform(clean) if plan.stage is Stage.training else clean
    training_identity = training_id(plan, trained_on)
    seconds = time.perf_counter() - start
    return Located(plan, clean, trained_on, training_identity, run_id(plan, training_identity), seconds)


def run(plan: Plan, *, read: Callable[[Plan], Graph] = read_dataset) -> Outcome:
    """Carry out a plan, or find that it was carried out before."""
    torch.set_num_threads(plan.trainer["threads"])
    located = locate(plan, read=read)
    if located.is_finished and not plan.force:
        return Outcome(located.folder, read_result(located.folder), cached=True)
    return Outcome(located.folder, _carried_out(located), cached=False)


def _carried_out(located: Located) -> dict[str, Any]:
    """Train, evaluate and write; the result."""
    from lopgpn_exp.evaluation import evaluate, tested  # pandas and Lightning: a finished run does without
    from lopgpn_exp.experiment.checkpoint import load_model

    plan = located.plan
    if plan.stage is not Stage.none:
        import_module("lopgpn_exp.evaluation.detection")  # scikit-learn: now, so that no phase is charged for it
    tested(located.trained_on)  # a split with nothing to test is told before it is trained on
    trained = _trained(located)
    start = time.perf_counter()
    graph = plan.scenario_transform(located.clean) if plan.stage is Stage.evaluation else located.trained_on
    model = load_model(trained.checkpoint, plan, located.trained_on)
    evaluation = evaluate(model.predict(graph, cache_dir=_cache_dir(plan)), graph)
    if plan.stage is not Stage.none and "ood/accuracy" not in evaluation.metrics:
        raise InputError(
            f"the scenario {plan.scenario} made no test node out-of-distribution",
            expected="at least one",
            hint="ood.fraction=0.1, or more test nodes",
        )
    seconds = {"load": located.seconds, **trained.seconds, "evaluate": time.perf_counter() - start}
    result = {
        "schema": SCHEMA,
        "run_id": located.run_id,
        "model": plan.model,
        "dataset": plan.dataset,
        "split": plan.split,
        "init": plan.init,
        "scenario": plan.scenario,
        "metrics": evaluation.metrics,
        "curves": evaluation.curves,
        "epochs": trained.epochs,
        "history": trained.history,
        "seconds": {key: round(seconds[key], 4) for key in ("load", "prepare", "train", "evaluate")},
        "peak_rss_mb": max(peak_rss_mb(), trained.peak_rss_mb),
        "versions": versions(),
        "training_id": located.training_id,
    }
    write_run(
        located.folder,
        result=result,
        evaluation=evaluation,
        config=_with_data(located),
        title=plan.title,
        checkpoint=trained.checkpoint,
        graph=graph,
        cache_dir=_cache_dir(plan),
    )
    return result


def _with_data(located: Located) -> dict[str, Any]:
    """The config; of a user's own file with a hash of what it held, by which tables tell its versions apart."""
    resolved, graph = located.plan.resolved, located.clean
    if graph.legend is None:
        return resolved
    content = graph.replace(part=torch.zeros_like(graph.part)).fingerprint[:12]
    return resolved | {"dataset": {**resolved["dataset"], "data_hash": content}}


def _trained(located: Located) -> Training:
    plan = located.plan
    if plan.checkpoint is not None:
        return Training(plan.checkpoint, epochs=0, seconds={"prepare": 0.0, "train": 0.0}, peak_rss_mb=0.0)
    # A forced evaluation scenario is evaluated again, on the training it shares with the clean run.
    again = plan.force and plan.stage is not Stage.evaluation
    return training(
        plan.output_dir, located.training_id, lambda path: _train(plan, located.trained_on, path), again=again
    )


def _train(plan: Plan, graph: Graph, checkpoint: Path) -> Training:
    done = fitted(plan, graph, cache_dir=_cache_dir(plan), checkpoint_path=checkpoint)
    return Training(checkpoint, done.epochs, done.seconds, peak_rss_mb(), done.history)


def fitted(plan: Plan, graph: Graph, *, cache_dir: Path | None = None, checkpoint_path: Path | None = None) -> Fitted:
    """The planned model, fitted to a graph; nothing is written unless a place is named."""
    from lopgpn_exp.training import fit

    dims = {"num_features": graph.num_features, "num_classes": graph.num_classes}
    return fit(
        graph,
        model_class=plan.model_class,
        model_options={**plan.model_options, **dims},
        optimizer=plan.optimizer,
        seed=plan.seed,
        title=plan.title,
        cache_dir=cache_dir,
        checkpoint_path=checkpoint_path,
        **{key: value for key, value in plan.trainer.items() if key != "threads"},
    )


def _cache_dir(plan: Plan) -> Path:
    return plan.output_dir / "cache"


def peak_rss_mb() -> float:
    """Largest memory that this process has held so far."""
    status = Path("/proc/self/status")
    if status.is_file():  # Linux: what getrusage tells there begins with the memory of the process that started this
        kib = next(line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return round(int(kib) / 2**10, 1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10), 1)


def versions() -> dict[str, str]:
    packages = ("torch", "torch-geometric", "pytorch-lightning", "numpy", "scipy")
    ours = {"lopgpn_exp": __version__, "python": platform.python_version(), "processor": processor()}
    return ours | {name: version(name) for name in packages}


def processor() -> str:
    """By its name: another one rounds otherwise, and training carries that a long way."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
