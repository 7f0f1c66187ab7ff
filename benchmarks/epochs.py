"""Seconds an epoch (training step and validation): the plain baseline, the project's own training, and the floor."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from hydra import compose, initialize_config_dir

from benchmarks.baseline import PLAIN, PlainTraining
from benchmarks.floor import bandwidth, floor
from lopgpn_exp.cli import config_dir
from lopgpn_exp.experiment import schema
from lopgpn_exp.experiment.build import Plan, plan
from lopgpn_exp.graph import Graph, Part
from lopgpn_exp.training import NodeClassification, fit_by_gradient

OWN_EPOCHS = 50  # of one measurement: Lightning's start is spread over them, as over the hundreds of a training

Record = dict[str, Any]


def planned(*overrides: str) -> Plan:
    schema.register()
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        return plan(compose("config", overrides=list(overrides)))


def measure(
    models: list[str], datasets: list[list[str]], *, repeats: int, threads: int, cache_dir: Path
) -> Iterator[Record]:
    """Interleaved: each repeat times all three, so that a slow minute of the machine hits them alike."""
    torch.set_num_threads(threads)
    stream = bandwidth()
    for dataset in datasets:
        graph: Graph | None = None
        for name in models:
            chosen = planned(f"model={name}", *dataset)
            graph = graph or chosen.load()
            with tempfile.TemporaryDirectory() as folder:
                timers = _timers(chosen, graph, stream, cache_dir, Path(folder))
                for timer in timers.values():  # compile, open the database, fill caches
                    timer()
                seconds = {what: [] for what in timers}
                for _ in range(repeats):
                    for what, timer in timers.items():
                        seconds[what].append(timer())
            yield from _records(name, chosen.dataset, seconds, threads=threads)


def _timers(chosen: Plan, graph: Graph, stream: float, cache_dir: Path, folder: Path) -> dict[str, Any]:
    options = {**chosen.model_options, "num_features": graph.num_features, "num_classes": graph.num_classes}
    optimizer = {**chosen.optimizer, "warmup_epochs": 0}
    torch.manual_seed(0)
    module = NodeClassification(model_class=chosen.model_class, model_options=options, **optimizer)
    module.model.observe(graph.labels[graph.nodes(Part.TRAIN)])
    train, val = (
        module.model.prepare(graph, nodes=graph.nodes(part), cache_dir=cache_dir) for part in (Part.TRAIN, Part.VAL)
    )
    plain = PlainTraining(
        PLAIN[chosen.model](module.model, graph), graph, learning_rate=optimizer["learning_rate"], folder=folder
    )

    def baseline() -> float:
        start = time.perf_counter()
        plain.epoch()
        return time.perf_counter() - start

    def project() -> float:
        fitted = fit_by_gradient(
            graph,
            model_class=chosen.model_class,
            model_options=options,
            optimizer=optimizer,
            seed=0,
            max_epochs=OWN_EPOCHS,
            patience=OWN_EPOCHS + 1,
            accelerator="cpu",
            progress=False,
            cache_dir=cache_dir,
        )
        return fitted.seconds["train"] / fitted.epochs

    return {"baseline": baseline, "project": project, "floor": floor(module.model, train, val, stream)}


def _records(model: str, dataset: str, seconds: dict[str, list[float]], *, threads: int) -> Iterator[Record]:
    """`ratio` is how many times the project's time this is; `spread` half the range of the middle half, relative."""
    medians = {what: statistics.median(values) for what, values in seconds.items()}
    for what, values in seconds.items():
        low, _, high = statistics.quantiles(values, n=4) if len(values) > 1 else (values[0],) * 3
        yield {
            "model": model,
            "dataset": dataset,
            "what": what,
            "seconds": medians[what],
            "ratio": medians[what] / medians["project"],
            "spread": (high - low) / 2 / medians[what],
            "repeats": len(values),
            "threads": threads,
        }
