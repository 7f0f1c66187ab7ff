"""How cost grows with the graph: `synthetic` at constant degree, each size in a process of its own.

python -m benchmarks.scaling 10000      one size, its figures as JSON on the last line
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

EDGES_A_NODE = 10  # so that the largest graph has 10^6 nodes and 10^7 edges
EPOCHS = 10
QUANTITIES = {
    "ppr": "PPR matrix",
    "epoch": "epoch",
    "evaluate": "evaluation",
    "memory_mb": "memory above the libraries'",
}

Record = dict[str, Any]


def measure(sizes: list[int], *, threads: int) -> Iterator[Record]:
    for size in sizes:
        command = [sys.executable, "-m", "benchmarks.scaling", str(size), str(threads)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
        figures = json.loads(done.stdout.splitlines()[-1])
        yield from (
            {"what": what, "num_nodes": size, "value": value, "threads": threads} for what, value in figures.items()
        )


def exponents(records: list[Record]) -> dict[str, float]:
    """Slope of the least-squares line through the points of each quantity, both axes logarithmic."""
    found = {}
    for what in QUANTITIES:
        points = [(math.log(r["num_nodes"]), math.log(r["value"])) for r in records if r["what"] == what]
        if len(points) > 1:
            x_mean, y_mean = (sum(axis) / len(points) for axis in zip(*points, strict=True))
            found[what] = sum((x - x_mean) * (y - y_mean) for x, y in points) / sum(
                (x - x_mean) ** 2 for x, _ in points
            )
    return found


def one_size(num_nodes: int, threads: int) -> dict[str, float]:
    import psutil
    import torch

    from benchmarks.epochs import planned
    from lopgpn_exp.evaluation import evaluate
    from lopgpn_exp.experiment.runner import peak_rss_mb
    from lopgpn_exp.graph import ppr_matrix

    torch.set_num_threads(threads)
    chosen = planned(
        "model=lop_gpn",
        "dataset=synthetic",
        f"dataset.num_nodes={num_nodes}",
        f"dataset.num_edges={EDGES_A_NODE * num_nodes}",
        "dataset.num_features=128",
    )
    small = planned("model=lop_gpn", "dataset=synthetic", "dataset.num_nodes=1000", "dataset.num_edges=3000").load()
    _fit(chosen, small, epochs=1)  # imports and compiled kernels, so that neither is on the clock
    libraries = psutil.Process().memory_info().rss / 2**20  # now, while the peak may be that of an import
    graph = chosen.load()
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        ppr_matrix(graph, cache_dir=Path(folder))
        built = time.perf_counter()
        fitted = _fit(chosen, graph, epochs=EPOCHS, cache_dir=Path(folder))
        trained = time.perf_counter()
        evaluate(fitted.module.model.predict(graph, cache_dir=Path(folder)), graph)
    return {
        "ppr": built - start,
        "epoch": fitted.seconds["train"] / EPOCHS,
        "evaluate": time.perf_counter() - trained,
        "memory_mb": peak_rss_mb() - libraries,
    }


def _fit(chosen: Any, graph: Any, *, epochs: int, cache_dir: Path | None = None) -> Any:
    from lopgpn_exp.training import fit_by_gradient

    sizes = {"num_features": graph.num_features, "num_classes": graph.num_classes}
    return fit_by_gradient(
        graph,
        model_class=chosen.model_class,
        model_options={**chosen.model_options, **sizes},
        optimizer={**chosen.optimizer, "warmup_epochs": 0},
        seed=0,
        max_epochs=epochs,
        accelerator="cpu",
        progress=False,
        cache_dir=cache_dir,
    )


if __name__ == "__main__":
    sys.stdout.write(json.dumps(one_size(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)) + "\n")
