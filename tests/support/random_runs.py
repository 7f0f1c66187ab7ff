"""Finished runs with random predictions, in memory or as the files that a run leaves."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from lopgpn_exp.evaluation.metrics import (
    accuracy,
    accuracy_rejection_curve,
    area_under_curve,
    expected_calibration_error,
)
from lopgpn_exp.evaluation.metrics.detection import auroc
from lopgpn_exp.records import RunResult
from lopgpn_exp.runs.checksums import write_checksums

NUM_NODES, NUM_CLASSES = 400, 4
MEASURES = ("tu", "eu")


@dataclass(frozen=True)
class RandomRun:
    """What a comparison needs of a run."""

    result: RunResult
    predictions: pd.DataFrame


def random_nodes(seed: int, *, scenario: str = "bernoulli", split: int = 0) -> pd.DataFrame:
    """Nodes of a split with the predictions of a model; measures are rounded, so that some are equal."""
    data, model = np.random.default_rng(split), np.random.default_rng([split, seed])
    labels = data.integers(NUM_CLASSES, size=NUM_NODES)
    part = data.choice(["train", "val", "test"], p=[0.1, 0.1, 0.8], size=NUM_NODES)
    coins = data.random(NUM_NODES) < 0.2
    is_ood = {"none": coins & False, "bernoulli": coins, "leave_out_classes": labels == NUM_CLASSES - 1}[scenario]
    if scenario == "leave_out_classes":
        part = np.where(is_ood & (part != "test"), "none", part)  # as the scenario does
    correct = model.random(NUM_NODES) < 0.7
    predicted = np.where(correct, labels, (labels + 1) % NUM_CLASSES)
    measures = {m: (model.normal(size=NUM_NODES) + 0.5 * is_ood - 0.3 * correct).round(1) for m in MEASURES}
    columns = {"node": np.arange(NUM_NODES), "part": part, "label": labels, "predicted": predicted}
    return pd.DataFrame(columns | {"confidence": model.uniform(0.3, 1, NUM_NODES), "is_ood": is_ood} | measures)


def compute_metrics(nodes: pd.DataFrame, scenario: str) -> dict[str, float]:
    """The metrics of a table of nodes, by the functions that evaluate runs."""
    test = nodes[nodes["part"] == "test"]
    predictable = test[test["label"] < NUM_CLASSES - 1] if scenario == "leave_out_classes" else test
    correct = (predictable["predicted"] == predictable["label"]).to_numpy()
    metrics = {"test/accuracy": accuracy(correct), "test/nll": 0.5}
    metrics["test/ece"] = expected_calibration_error(predictable["confidence"].to_numpy(), correct)
    for m in MEASURES:
        metrics[f"test/auarc/{m}"] = area_under_curve(accuracy_rejection_curve(predictable[m].to_numpy(), correct))
    if scenario != "none":
        is_ood, correct = test["is_ood"].to_numpy(), (test["predicted"] == test["label"]).to_numpy()
        metrics |= {"id/accuracy": accuracy(correct[~is_ood]), "ood/accuracy": accuracy(correct[is_ood])}
        metrics |= {f"ood/auroc/{m}": auroc(test[m].to_numpy(), is_ood) for m in MEASURES}
    return metrics


def random_run(
    model: str = "gkde",
    *,
    dataset: str = "cora",
    scenario: str = "none",
    split: int = 0,
    init: int = 0,
    seed: int | None = None,
    digest: str = "aaaa",
) -> RandomRun:
    """A run of a model on a split; `seed` of its predictions follows from model and initialisation by default."""
    nodes = random_nodes(sum(map(ord, model)) + 1000 * init if seed is None else seed, scenario=scenario, split=split)
    return RandomRun(
        make_result(model, dataset, scenario, split, init, compute_metrics(nodes, scenario), digest), nodes
    )


def make_result(
    model: str, dataset: str, scenario: str, split: int, init: int, metrics: dict[str, float], digest: str = "aaaa"
) -> RunResult:
    run_id = f"{model}-{dataset}-s{split}-i{init}-{scenario}-{digest}"
    return RunResult(
        run_id=run_id,
        model=model,
        dataset=dataset,
        split=split,
        init=init,
        scenario=scenario,
        metrics=metrics,
        curves={},
        epochs=1,
        seconds={},
        peak_rss_mb=1.0,
        versions={},
        training_id=run_id,
    )


def random_runs(model: str, *, scenarios: Sequence[str] = ("none",), splits: Iterable[int]) -> list[RandomRun]:
    return [random_run(model, scenario=scenario, split=split) for split in splits for scenario in scenarios]


def save_run(output_dir: Path, run: RandomRun) -> Path:
    """Write the files of a finished run that a comparison reads; return its folder."""
    folder = output_dir / "runs" / run.result.run_id
    folder.mkdir(parents=True, exist_ok=True)
    run.predictions.to_parquet(folder / "predictions.parquet", index=False)
    (folder / "result.json").write_text(json.dumps(run.result.to_json()))
    write_checksums(folder)
    return folder


def save_sweep(output_dir: Path, sweep_id: str, *, name: str, run_ids: list[str], **fields: object) -> None:
    folder = output_dir / "sweeps" / sweep_id
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sweep.json").write_text(json.dumps({"sweep": sweep_id, "name": name, "run_ids": run_ids, **fields}))


def save_example_runs(output_dir: Path) -> None:
    """gkde and lop_gpn on four splits and two scenarios, two inits of lop_gpn on split 0, and two sweeps."""
    for scenario in ("none", "bernoulli"):
        runs = [random_run(m, scenario=scenario, split=s) for m in ("gkde", "lop_gpn") for s in range(4)]
        for run in [*runs, random_run("lop_gpn", scenario=scenario, init=1)]:
            save_run(output_dir, run)
        run_ids = [*(run.result.run_id for run in runs), "not-finished"]
        save_sweep(output_dir, f"sweep-{scenario}1", name=f"sweep · {scenario}", run_ids=run_ids)
    (output_dir / "runs" / "unfinished-run").mkdir()
