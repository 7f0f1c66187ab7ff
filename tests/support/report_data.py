"""A small run and a small sweep to render: graph, posterior, evaluation and result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from lopgpn_exp.data.datasets.synthetic import block_model
from lopgpn_exp.data.scenarios import bernoulli, leave_out_classes
from lopgpn_exp.data.splits import random_split
from lopgpn_exp.evaluation.evaluate import Evaluation, evaluate
from lopgpn_exp.graph import Graph
from lopgpn_exp.posterior import Categorical, Dirichlet, Posterior
from lopgpn_exp.records import RunResult
from lopgpn_exp.report.run_page import run_page

ALL_MEASURES = ["tu", "au", "eu", "eu_pc", "eu_so", "lconf"]


class DirichletWithVacuity(Dirichlet):
    """A posterior with a measure of its own."""

    extra_measures = ("vacuity",)

    def vacuity(self) -> Tensor:
        return self.alpha.shape[1] / self.alpha_0.double()


class ExampleRun(NamedTuple):
    result: RunResult
    evaluation: Evaluation
    graph: Graph

    def page(self, *, predictions: pd.DataFrame | None = None, **changes: object) -> str:
        """Render the page of the run, with other predictions or other values of the result if given."""
        table = self.evaluation.predictions if predictions is None else predictions
        return run_page(replace(self.result, **changes), table, graph=self.graph, cache_dir=None)


def example_graph(scenario: str) -> Graph:
    graph = block_model(num_nodes=300, num_edges=700, num_classes=5, num_features=8, signal=2.0, seed=3)
    graph = random_split(graph, index=0, train=0.2, val=0.2, test=0.6)
    if scenario == "leave_out_classes":
        return leave_out_classes(graph, left_out_classes=2)
    if scenario == "bernoulli":
        return bernoulli(graph, fraction=0.1, seed=0)
    return graph


def example_posterior(graph: Graph, kind: str) -> Posterior:
    """Random pseudo-counts, larger for the true class."""
    generator = torch.Generator().manual_seed(0)
    alpha = torch.rand(300, graph.num_classes, generator=generator, dtype=torch.float64) * 4 + 0.2
    favoured = graph.labels.clamp(max=graph.num_classes - 1)
    alpha[torch.arange(300), favoured] += 6 * torch.rand(300, generator=generator, dtype=torch.float64)
    if kind == "categorical":
        return Categorical(torch.log(alpha / alpha.sum(dim=1, keepdim=True)))
    return {"dirichlet": Dirichlet, "vacuity": DirichletWithVacuity}[kind](alpha)


def example_run(scenario: str = "bernoulli", kind: str = "dirichlet") -> ExampleRun:
    graph = example_graph(scenario)
    evaluation = evaluate(example_posterior(graph, kind), graph)
    result = RunResult(
        run_id="x",
        model="lop_gpn",
        dataset="own",
        split=0,
        init=0,
        scenario=scenario,
        metrics=evaluation.metrics,
        curves=evaluation.curves,
        epochs=12,
        seconds={"load": 0.1, "prepare": 0.2, "train": 3.4, "evaluate": 0.3},
        peak_rss_mb=512.0,
        versions={"python": "3.11"},
        training_id="x",
    )
    return ExampleRun(result, evaluation, graph)


def example_sweep(
    splits: int = 4, models: Sequence[str] = ("gpn_rw", "lop_gpn", "mine")
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the results and curves of a sweep over models, splits and two scenarios, with random metrics."""
    rng = np.random.default_rng(0)
    rows, curves = [], []
    for scenario in ("none", "gaussian"):
        for number, model in enumerate(models):
            for split in range(splits):
                key = {"model": model, "dataset": "own", "scenario": scenario, "split": split, "init": 0, "run_id": "r"}
                row = key | {f"test/{m}": rng.uniform(0.1, 0.9) for m in ("accuracy", "ece", "brier", "nll")}
                if scenario != "none":
                    row |= {"id/accuracy": rng.uniform(0.7, 0.9), "ood/auroc/tu": 0.6 + 0.1 * number}
                    row["ood/auroc/eu"] = rng.uniform(0.5, 0.9)
                row |= {"epochs": 10 * (number + 1), "peak_rss_mb": 100.0 + number, "training_id": f"{model}-{split}"}
                row |= {"seconds/load": 0.1, "seconds/prepare": 0.0, "seconds/train": 2.0, "seconds/evaluate": 0.1}
                rows.append(row)
                for measure in ("tu", "eu"):
                    height = np.sort(rng.uniform(0.5, 1.0, 100))
                    curves.append(pd.DataFrame({"percent": range(100), "accuracy": height, "measure": measure} | key))
    return pd.DataFrame(rows), pd.concat(curves, ignore_index=True)
