"""Runs of a benchmark with known values, for the tests of the leaderboard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

DECLARED = {"total": "tu", "aleatoric": "au", "epistemic": "eu"}


def benchmark_rows(
    values: Mapping[str, Sequence[float]],
    *,
    metric: str,
    dataset: str = "cora_ml",
    scenario: str = "none",
    protocol: str = "per_class_20",
    declared: Mapping[str, str] = DECLARED,
) -> pd.DataFrame:
    """Return one run per model and split, which has this metric alone."""
    rows = [
        {"protocol": protocol, "dataset": dataset, "scenario": scenario, "model": model, "split": split, "init": 0}
        | {"run_id": f"{model}-{dataset}-s{split}-{scenario}", metric: value, **declared}
        | {"peak_rss_mb": 500.0, "cpu_seconds/train": 2.0, "cpu_seconds/predict": 0.1}
        for model, series in values.items()
        for split, value in enumerate(series)
    ]
    return pd.DataFrame(rows)
