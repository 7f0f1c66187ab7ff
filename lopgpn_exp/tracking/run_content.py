"""What an MLflow run contains: metrics and params in batches, and the digest of the files that they come from."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lopgpn_exp.records import RunResult

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

METRICS_PER_BATCH = 1000  # limits of MLflow
PARAMS_PER_BATCH = 100
PARAM_LENGTH = 6000
DIGEST_TAG = "digest"  # of the results that a run or a sweep shows

MetricPoint = tuple[str, float, int]  # key, value, step


def run_metrics(result: RunResult) -> Iterator[MetricPoint]:
    """Yield single values at step 0, the points of curves, and the history of the training by epoch."""
    for key, value in result.metrics.items():
        yield key, value, 0
    yield from curve_points(result)
    for phase, value in result.seconds.items():
        yield f"seconds/{phase}", value, 0
    for phase, value in result.cpu_seconds.items():
        yield f"cpu_seconds/{phase}", value, 0
    yield from training_history(result)
    yield "epochs", result.epochs, 0
    yield "peak_rss_mb", result.peak_rss_mb, 0


def curve_points(result: RunResult) -> Iterator[MetricPoint]:
    """Yield rejection curves by percent rejected, and those of prediction sets by nominal coverage in percent.

    The latter are renamed to `by_coverage/*`: metrics, which are single values, have names such as `sets/size`, too.
    """
    nominal = [round(100 * coverage) for coverage in result.curves.get("sets/nominal", [])]
    for key, curve in result.curves.items():
        if key.startswith("arc/"):
            yield from ((key, value, percent) for percent, value in enumerate(curve))
        elif key.startswith("sets/") and key != "sets/nominal":
            name = key.replace("sets/", "by_coverage/", 1)
            yield from ((name, value, percent) for percent, value in zip(nominal, curve, strict=True))


def training_history(result: RunResult) -> Iterator[MetricPoint]:
    for key, points in result.history.items():
        for epoch, value in points:
            yield key, value, int(epoch)


def log_batches(
    client: MlflowClient, mlflow_id: str, *, params: Iterable[tuple[str, Any]], metrics: Iterable[MetricPoint]
) -> None:
    """Write params and metrics in as few requests as MLflow allows."""
    from mlflow.entities import Metric, Param

    now = int(time.time() * 1000)
    all_params = [Param(key, str(value)[:PARAM_LENGTH]) for key, value in params]
    all_metrics = [Metric(key, value, now, step) for key, value, step in metrics]
    for start in range(0, len(all_params), PARAMS_PER_BATCH):
        client.log_batch(mlflow_id, params=all_params[start : start + PARAMS_PER_BATCH])
    for start in range(0, len(all_metrics), METRICS_PER_BATCH):
        client.log_batch(mlflow_id, metrics=all_metrics[start : start + METRICS_PER_BATCH])


def digest_run(folder: Path) -> str:
    """Return a hash of the result in a run folder. It changes if `force=true` makes the run again."""
    return hashlib.sha256((folder / "result.json").read_bytes()).hexdigest()


def digest_sweep(output_dir: Path, run_ids: Iterable[str]) -> str:
    """Return a hash of the results of a sweep's finished runs."""
    lines = [f"{run_id} {digest_run(output_dir / 'runs' / run_id)}" for run_id in sorted(run_ids)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def shows_result(run: Run, digest: str, result: RunResult) -> bool:
    """Return whether an MLflow run is complete and shows this result. Runs of earlier versions have no digest."""
    if run.info.status != "FINISHED":
        return False
    if DIGEST_TAG in run.data.tags:
        return run.data.tags[DIGEST_TAG] == digest
    return all(run.data.metrics.get(key) == value for key, value in result.metrics.items())
