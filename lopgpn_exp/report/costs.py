"""What all runs took."""

from __future__ import annotations

import pandas as pd

SHARED = ("bernoulli", "gaussian")  # scenarios that evaluate the clean run's training: its seconds are counted there


def costs(results: pd.DataFrame) -> pd.DataFrame:
    """By model: runs, trainings, hours of training and of loading and evaluating, mean epochs, largest memory in MB."""
    own = ~results["scenario"].isin(SHARED)
    seconds = results.assign(
        training=(results["seconds/prepare"] + results["seconds/train"]).where(own, 0.0),
        rest=results["seconds/load"] + results["seconds/evaluate"],
        own=own,
        own_epochs=results["epochs"].where(own),
    )
    return seconds.groupby("model").agg(
        runs=("run_id", "count"),
        trainings=("own", "sum"),
        train_hours=("training", lambda s: s.sum() / 3600),
        other_hours=("rest", lambda s: s.sum() / 3600),
        mean_epochs=("own_epochs", "mean"),
        peak_mb=("peak_rss_mb", "max"),
    )
