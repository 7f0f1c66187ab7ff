"""Choose a method by its runs on held-back nodes: scores with intervals, and a rule that ends with one method.

The rule goes through `CRITERIA` in order. At each, the methods that are significantly worse than the best one drop out
(paired bootstrap over nodes, Holm's correction, 5 %). Of those that remain at the end, the simplest is chosen: the
first in the order in which the methods are given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean

import numpy as np
import pandas as pd
from jaxtyping import Float

from lopgpn_exp.evaluation.bootstrap import NUM_SAMPLES, build_node_metrics, compute_metric, draw_counts
from lopgpn_exp.evaluation.differences import FinishedRun
from lopgpn_exp.evaluation.statistics import TIED_ABOVE, adjust_holm, t_test
from lopgpn_exp.measures import choose_measure

ACCURACY, REJECTION, CALIBRATION = "accuracy", "rejection", "calibration"
CRITERIA = {ACCURACY: +1, REJECTION: +1, CALIBRATION: -1}  # +1: higher is better
WITHOUT_INTERVAL = ("test/nll", "test/brier")  # the table of nodes has no probabilities
COST_PHASES = ("prepare", "train", "evaluate")


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % interval and, for a difference, its p-value."""

    value: float
    low: float
    high: float
    p: float = 1.0


@dataclass(frozen=True)
class Sampled:
    """A score on one half of the validation nodes, and its values in bootstrap samples of these nodes."""

    value: float
    samples: Float[np.ndarray, " samples"]


@dataclass(frozen=True)
class MethodScores:
    """What the runs of one method measured on held-back nodes.

    Args:
        uses_edges: whether its predictions depend on the edges of the graph.
        halves: scores by half of the validation nodes and by criterion.
        nodes: number of held-back nodes in all halves.
        means: metrics without an interval, averaged over halves.
        seconds, peak_mb: mean duration of preparing, training and evaluating a run, and the largest memory of one.
    """

    name: str
    uses_edges: bool
    halves: Mapping[int, Mapping[str, Sampled]]
    nodes: int
    means: Mapping[str, float]
    seconds: float
    peak_mb: float

    def estimate(self, criterion: str) -> Estimate:
        """Return the mean over halves. Their nodes are different, so the squares of their errors add up.

        All scores are shares: the part of a normal interval that is outside of 0 to 1 is cut off.
        """
        estimate = _combine([scores[criterion] for scores in self.halves.values()])
        return replace(estimate, low=max(0.0, estimate.low), high=min(1.0, estimate.high))

    def compare(self, other: MethodScores, criterion: str) -> Estimate:
        """Return the difference `self - other` on the halves that both have, paired by node."""
        return _combine(
            [
                Sampled(mine.value - theirs.value, mine.samples - theirs.samples)
                for half, scores in self.halves.items()
                if half in other.halves
                for mine, theirs in [(scores[criterion], other.halves[half][criterion])]
            ]
        )


def _combine(scores: Sequence[Sampled]) -> Estimate:
    value = fmean(score.value for score in scores)
    error = float(np.sqrt(sum(score.samples.var(ddof=1) for score in scores))) / len(scores)
    return Estimate(value, **t_test(value, error, np.inf))


@dataclass(frozen=True)
class Step:
    """One criterion of the rule: the best method, and how the others differ from it (`other - best`)."""

    criterion: str
    best: str
    worse: Mapping[str, Estimate]
    tied: Mapping[str, Estimate]


@dataclass(frozen=True)
class GraphEffect:
    """Whether edges help: the difference in accuracy of the best method with edges to the best one without."""

    with_edges: str
    without_edges: str
    difference: Estimate

    @property
    def verdict(self) -> str:
        if self.difference.p >= TIED_ABOVE:
            return "unclear"
        return "helps" if self.difference.value > 0 else "hurts"


@dataclass(frozen=True)
class Choice:
    """The methods that were compared, and the steps that lead to the chosen one."""

    methods: Sequence[MethodScores]
    steps: Sequence[Step]
    winner: str

    @cached_property
    def by_name(self) -> dict[str, MethodScores]:
        return {method.name: method for method in self.methods}

    @property
    def remaining(self) -> list[str]:
        """The methods that no criterion separates from the best."""
        dropped = {name for step in self.steps for name in step.worse}
        return [method.name for method in self.methods if method.name not in dropped]

    @cached_property
    def graph_effect(self) -> GraphEffect | None:
        """Compare the most accurate method with edges to the one without; None if there is none of a kind.

        The p-value is corrected for the number of methods with edges, of which the best is shown.
        """
        groups = [[m for m in self.methods if m.uses_edges is uses_edges] for uses_edges in (True, False)]
        if not all(groups):
            return None
        graph, alone = (max(group, key=lambda m: m.estimate(ACCURACY).value) for group in groups)
        adjusted = adjust_holm([method.compare(alone, ACCURACY).p for method in groups[0]])
        difference = replace(graph.compare(alone, ACCURACY), p=adjusted[groups[0].index(graph)])
        return GraphEffect(graph.name, alone.name, difference)


def score_method(
    name: str, runs: Mapping[int, FinishedRun], *, declared_total: str | None, uses_edges: bool
) -> MethodScores:
    """Score the runs of a method, by half of the validation nodes; their test nodes are the held-back nodes.

    Args:
        declared_total: the measure that the method declares as its total uncertainty, by which nodes are rejected.
    """
    results = [run.result for run in runs.values()]
    halves, nodes = {}, 0
    for half, run in runs.items():
        table = run.predictions
        table = table[(table["part"] == "test") & (table["label"] >= 0)].reset_index(drop=True)
        halves[half] = _score_nodes(table, declared_total)
        nodes += len(table)
    return MethodScores(
        name=name,
        uses_edges=uses_edges,
        halves=halves,
        nodes=nodes,
        means={metric: fmean(result.metrics[metric] for result in results) for metric in WITHOUT_INTERVAL},
        seconds=fmean(sum(result.seconds[phase] for phase in COST_PHASES) for result in results),
        peak_mb=max(result.peak_rss_mb for result in results),
    )


def _score_nodes(table: pd.DataFrame, declared_total: str | None) -> dict[str, Sampled]:
    total = choose_measure("total", table.columns, declared_total)
    names = {ACCURACY: "test/accuracy", REJECTION: f"test/auarc/{total}", CALIBRATION: "test/ece"}
    metrics = build_node_metrics(table, np.ones(len(table), dtype=bool), names.values())
    samples: dict[str, list[np.ndarray]] = {criterion: [] for criterion in names}
    # The same seed for all methods: sample k has the same nodes, so that differences are paired.
    for counts in draw_counts(len(table), num_samples=NUM_SAMPLES, seed=0):
        for criterion, metric in names.items():
            samples[criterion].append(metrics[metric](counts))
    return {
        criterion: Sampled(compute_metric(metrics[metric], len(table)), np.concatenate(samples[criterion]))
        for criterion, metric in names.items()
    }


def choose_method(methods: Sequence[MethodScores]) -> Choice:
    """Apply the rule to methods that are given from the simplest to the most complex."""
    remaining, steps = list(methods), []
    for criterion, sign in CRITERIA.items():
        best = max(remaining, key=lambda method: sign * method.estimate(criterion).value)
        others = [method for method in remaining if method is not best]
        differences = [method.compare(best, criterion) for method in others]
        adjusted = adjust_holm([difference.p for difference in differences])
        worse: dict[str, Estimate] = {}
        tied: dict[str, Estimate] = {}
        for method, difference, p in zip(others, differences, adjusted, strict=True):
            is_worse = p < TIED_ABOVE and sign * difference.value < 0
            (worse if is_worse else tied)[method.name] = replace(difference, p=p)
        steps.append(Step(criterion, best.name, worse, tied))
        remaining = [method for method in remaining if method.name not in worse]
    return Choice(methods, steps, remaining[0].name)
