"""How the cost of LOP-GPN grows with the graph: `synthetic` at constant degree, each size in a process of its own.

python -m benchmarks.scaling 10000      one size; the last line is its measurements as JSON
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

EDGES_PER_NODE, NUM_FEATURES = 5, 32  # so that 10^7 nodes need less than 20 GiB
MEMORY_LIMIT_GIB = 64  # the bound that is checked beforehand is several times what is needed
NUM_EPOCHS = 10
# Names of the measured quantities, by their key in bench.json.
QUANTITIES = {
    "ppr": "PPR matrix",
    "epoch": "epoch",
    "evaluate": "evaluation",
    "memory_mb": "memory beyond libraries",
}

Record = dict[str, Any]


def measure_scaling(sizes: list[int], *, threads: int) -> Iterator[Record]:
    """Yield one record per number of nodes and quantity."""
    for size in sizes:
        command = [sys.executable, "-m", "benchmarks.scaling", str(size), str(threads)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
        values = json.loads(done.stdout.splitlines()[-1])
        yield from (
            {"what": key, "num_nodes": size, "value": value, "threads": threads} for key, value in values.items()
        )


def fit_exponents(records: list[Record]) -> dict[str, float]:
    """Return the exponent of each quantity: the slope of the least-squares line with both axes logarithmic."""
    exponents = {}
    for key in QUANTITIES:
        points = [(math.log(r["num_nodes"]), math.log(r["value"])) for r in records if r["what"] == key]
        if len(points) > 1:
            x_mean, y_mean = (sum(axis) / len(points) for axis in zip(*points, strict=True))
            covariance = sum((x - x_mean) * (y - y_mean) for x, y in points)
            exponents[key] = covariance / sum((x - x_mean) ** 2 for x, _ in points)
    return exponents


def measure_size(num_nodes: int, threads: int) -> dict[str, float]:
    """Return all quantities of one size, measured in this process."""
    # Deferred imports: the process that starts the measurements does not need them.
    import psutil
    import torch

    from benchmarks.epochs import plan_training
    from lopgpn_exp.evaluation.evaluate import evaluate
    from lopgpn_exp.graph import ppr_matrix
    from lopgpn_exp.runs.execute import fit_model
    from lopgpn_exp.runs.machine import peak_rss_mb

    torch.set_num_threads(threads)
    overrides = ["model=lop_gpn", "dataset=synthetic", f"model.memory_limit_gib={MEMORY_LIMIT_GIB}"]
    small = ["dataset.num_nodes=1000", "dataset.num_edges=3000"]
    warm_up = plan_training(*overrides, *small, num_epochs=1)
    fit_model(warm_up, warm_up.load_graphs().clean)  # imports and compiles, so that neither is measured
    libraries = psutil.Process().memory_info().rss / 2**20  # the current value: the peak may be that of an import
    size = [f"dataset.num_nodes={num_nodes}", f"dataset.num_edges={EDGES_PER_NODE * num_nodes}"]
    plan = plan_training(*overrides, *size, f"dataset.num_features={NUM_FEATURES}", num_epochs=NUM_EPOCHS)
    graph = plan.load_graphs().clean
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        ppr_matrix(graph, cache_dir=Path(folder), memory_limit_gib=MEMORY_LIMIT_GIB)
        ppr_seconds = time.perf_counter() - start
        result = fit_model(plan, graph, cache_dir=Path(folder))
        start = time.perf_counter()
        evaluate(result.module.model.predict(graph, cache_dir=Path(folder)), graph)
        evaluate_seconds = time.perf_counter() - start
    return {
        "ppr": ppr_seconds,
        "epoch": result.seconds["train"] / NUM_EPOCHS,
        "evaluate": evaluate_seconds,
        "memory_mb": peak_rss_mb() - libraries,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measure_size(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)) + "\n")
