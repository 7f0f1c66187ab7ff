"""A claim, and our results in the forms that the rules ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from lopgpn_exp.report.names import DATASET_NAMES, MODEL_NAMES
from lopgpn_exp.report.table1 import marks, percent_means

HOLDS, PARTLY, FAILS, OPEN = "holds", "holds in part", "does not hold", "not decided"
LOP, GPNS = "lop_gpn", ("gpn_sym", "gpn_rw")


@dataclass(frozen=True)
class Claim:
    """What the paper says (a few of its words), where, by which rule it is decided, and with which outcome."""

    name: str
    where: str
    words: str
    rule: str
    verdict: str
    evidence: str


class Evidence:
    """Our results in the forms that the rules ask for."""

    def __init__(self, results: pd.DataFrame, curves: pd.DataFrame) -> None:
        self.results, self.means = results, percent_means(results)
        self.datasets = [name for name in DATASET_NAMES if name in set(results["dataset"])]
        clean = curves[curves["scenario"] == "none"]
        keys = ["dataset", "measure", "percent", "split", "model"]
        self.by_split = 100 * clean.groupby(keys)["accuracy"].mean().unstack()
        self.arcs = self.by_split.groupby(["dataset", "measure", "percent"]).mean()

    def value(self, dataset: str, model: str, scenario: str, metric: str) -> float:
        return float(self.means.loc[(dataset, model, scenario, metric), "mean"])

    def accuracy(self, dataset: str, model: str) -> float:
        return self.value(dataset, model, "none", "test/accuracy")

    def best(self, scenario: str, metrics: Sequence[str]) -> pd.Series:
        """How many cells of a scenario, over datasets and metrics, each model is best in."""
        present = [metric for metric in metrics if metric in self.results]
        found = marks(self.results[self.results["scenario"] == scenario], present)
        best = [key[1] for key, mark in found.items() if mark == "best"]
        return pd.Series({model: best.count(model) for model in MODEL_NAMES if model in best})


def graded(share: float, all_of_it: float, some: float) -> str:
    return OPEN if pd.isna(share) else HOLDS if share >= all_of_it else PARTLY if share >= some else FAILS


def names(datasets: Sequence[str]) -> str:
    return ", ".join(DATASET_NAMES[name] for name in datasets)
