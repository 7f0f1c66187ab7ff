"""Seconds per epoch (a training step and a validation): the plain baseline, the project's training, and the floor."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from benchmarks.baseline import PLAIN, PlainTraining
from benchmarks.floor import build_floor, measure_bandwidth
from benchmarks.timing import Record, summarise_times
from lopgpn_exp.config.compose import compose_config
from lopgpn_exp.config.plan import RunPlan, plan_run
from lopgpn_exp.graph import Graph, Part
from lopgpn_exp.runs.execute import fit_model
from lopgpn_exp.training import NodeClassification

NUM_EPOCHS = 50  # per measurement; the start of Lightning is divided by them, as by the hundreds of a real training


def plan_training(*overrides: str, num_epochs: int) -> RunPlan:
    """Return the plan of a training of exactly `num_epochs` epochs, each with a validation."""
    trainer = {
        "max_epochs": num_epochs,
        "patience": num_epochs + 1,
        "validate_every": 1,
        "accelerator": "cpu",
        "progress": "false",
    }
    settings = [f"trainer.{key}={value}" for key, value in trainer.items()]
    return plan_run(compose_config([*overrides, *settings, "++model.optimizer.warmup_epochs=0"]))


def measure_epochs(
    models: list[str], datasets: list[list[str]], *, repeats: int, threads: int, cache_dir: Path
) -> Iterator[Record]:
    """Yield the measurements of every model on every dataset.

    Each repeat times all three implementations, so that a slow minute of the machine affects them alike.
    """
    torch.set_num_threads(threads)
    bandwidth = measure_bandwidth()
    for dataset in datasets:
        graph: Graph | None = None
        for model in models:
            plan = plan_training(f"model={model}", *dataset, num_epochs=NUM_EPOCHS)
            graph = graph or plan.load_graphs().clean
            with tempfile.TemporaryDirectory() as folder:
                timers = _build_timers(plan, graph, bandwidth, cache_dir, Path(folder))
                for timer in timers.values():  # compiles, opens the database and fills the caches
                    timer()
                seconds: dict[str, list[float]] = {name: [] for name in timers}
                for _ in range(repeats):
                    for name, timer in timers.items():
                        seconds[name].append(timer())
            yield from summarise(model, plan.dataset, seconds, threads=threads)


def _build_timers(
    plan: RunPlan, graph: Graph, bandwidth: float, cache_dir: Path, folder: Path
) -> dict[str, Callable[[], float]]:
    """Return functions that return the seconds of one epoch."""
    options = {**plan.model_options, "num_features": graph.num_features, "num_classes": graph.num_classes}
    torch.manual_seed(0)
    module = NodeClassification(model_class=plan.model_class, model_options=options, **plan.optimizer.options())
    module.model.observe(graph.labels[graph.nodes(Part.TRAIN)])
    train, val = (
        module.model.prepare(graph, nodes=graph.nodes(part), cache_dir=cache_dir) for part in (Part.TRAIN, Part.VAL)
    )
    plain_model = PLAIN[plan.model](module.model, graph)
    plain = PlainTraining(plain_model, graph, learning_rate=plan.optimizer.options()["learning_rate"], folder=folder)

    def baseline() -> float:
        start = time.perf_counter()
        plain.run_epoch()
        return time.perf_counter() - start

    def project() -> float:
        result = fit_model(plan, graph, cache_dir=cache_dir)
        return result.seconds["train"] / result.epochs

    return {"baseline": baseline, "project": project, "floor": build_floor(module.model, train, val, bandwidth)}


def summarise(model: str, dataset: str, seconds: dict[str, list[float]], *, threads: int) -> Iterator[Record]:
    """Yield one record per implementation.

    `seconds` is the median, `ratio` its multiple of the project's median, and `spread` half the interquartile range
    relative to the median.
    """
    summaries = {name: summarise_times(values) for name, values in seconds.items()}
    for name, summary in summaries.items():
        ratio = summary["seconds"] / summaries["project"]["seconds"]
        yield {"model": model, "dataset": dataset, "what": name, **summary, "ratio": ratio, "threads": threads}
