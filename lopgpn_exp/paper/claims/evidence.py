"""A claim, and our results in the forms that the rules need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from lopgpn_exp.evaluation.statistics import CLEAN, mark_best
from lopgpn_exp.paper.table1 import compute_cells, compute_percent_means
from lopgpn_exp.report.names import DATASET_NAMES, MODEL_NAMES

HOLDS, PARTLY, FAILS, OPEN = "holds", "holds in part", "does not hold", "not decided"
LOP, GPNS = "lop_gpn", ("gpn_sym", "gpn_rw")


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, where it is made and in which words, the rule that decides it, and the outcome."""

    name: str
    section: str
    quote: str
    rule: str
    verdict: str
    evidence: str


class Evidence:
    """Our results in percent: means per cell, and accuracy-rejection curves of clean runs, per split and averaged."""

    def __init__(self, results: pd.DataFrame, curves: pd.DataFrame) -> None:
        self.results, self.means, self.cells = results, compute_percent_means(results), compute_cells(results)
        self.datasets = [name for name in DATASET_NAMES if name in set(results["dataset"])]
        clean = curves[curves["scenario"] == CLEAN]
        keys = ["dataset", "measure", "percent", "split", "model"]
        self.split_curves = 100 * clean.groupby(keys)["accuracy"].mean().unstack()
        self.mean_curves = self.split_curves.groupby(["dataset", "measure", "percent"]).mean()

    def mean(self, dataset: str, model: str, scenario: str, metric: str) -> float:
        return self.cells[dataset, model, scenario, metric].mean

    def clean_accuracy(self, dataset: str, model: str) -> float:
        return self.mean(dataset, model, CLEAN, "test/accuracy")

    def lop_curve(self, dataset: str, measure: str) -> np.ndarray:
        return self.mean_curves[LOP].xs((dataset, measure)).to_numpy()

    def count_best(self, scenario: str, metrics: Sequence[str]) -> dict[str, int]:
        """Return in how many cells of a scenario, over datasets and metrics, each model is best."""
        present = [metric for metric in metrics if metric in self.results]
        marks = mark_best(self.results[self.results["scenario"] == scenario], present)
        best = [model for (_, model, _, _), mark in marks.items() if mark == "best"]
        return {model: best.count(model) for model in MODEL_NAMES if model in best}


def grade(share: float, *, holds_from: float, partly_from: float) -> str:
    """Return the verdict for the share of cases in which a claim is true."""
    return OPEN if pd.isna(share) else HOLDS if share >= holds_from else PARTLY if share >= partly_from else FAILS


def join_names(datasets: Sequence[str]) -> str:
    return ", ".join(DATASET_NAMES[name] for name in datasets)
