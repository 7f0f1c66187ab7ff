"""Computing time and memory of runs."""

from __future__ import annotations

import pandas as pd


def summarise_costs(results: pd.DataFrame) -> pd.DataFrame:
    """Return one row per model: runs, trainings, hours of training and other phases, mean epochs, peak memory in MB.

    Runs with the same `training_id` share one training, whose hours and epochs count once.
    """
    is_first = ~results.duplicated(["model", "training_id"])
    runs = results.assign(
        is_training=is_first,
        training=(results["seconds/prepare"] + results["seconds/train"]).where(is_first, 0.0),
        other=results["seconds/load"] + results["seconds/evaluate"],
        training_epochs=results["epochs"].where(is_first),
    )
    return runs.groupby("model").agg(
        runs=("run_id", "count"),
        trainings=("is_training", "sum"),
        train_hours=("training", lambda seconds: seconds.sum() / 3600),
        other_hours=("other", lambda seconds: seconds.sum() / 3600),
        mean_epochs=("training_epochs", "mean"),
        peak_mb=("peak_rss_mb", "max"),
    )
