"""Standard errors over test nodes: the paired bootstrap, with metrics of many samples of nodes at once.

A sample is the number of times that it draws each node, so a metric is a function of a matrix `samples x nodes` of
counts. Drawing every node once gives the metric itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

RESAMPLES = 1000
CELLS = 2**18  # of a block of counts: stays in the processor's cache
NUM_BINS = 15  # as `expected_calibration_error` has it
NO_MEASURES = ("node", "part", "label", "predicted", "confidence", "is_ood", "known")  # columns of nodes
KEPT_PERCENT = 100 - np.arange(100)

Counts = Int[np.ndarray, "samples nodes"]
Values = Float[np.ndarray, " samples"]
Metric = Callable[[Counts], Values]


def standard_errors(
    first: dict[str, Metric], second: dict[str, Metric], num_nodes: int, *, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, float]:
    """Of each metric's difference between two models, over samples of nodes that both are measured on.

    A sample without OOD nodes has no value of an OOD metric and does not count; without two values there is no error.
    """
    differences: dict[str, list[Values]] = {name: [] for name in first if name in second}
    for counts in draws(num_nodes, resamples=resamples, seed=seed):
        for name, values in differences.items():
            values.append(second[name](counts) - first[name](counts))
    found = {name: np.concatenate(values) for name, values in differences.items()}
    found = {name: values[np.isfinite(values)] for name, values in found.items()}
    return {name: float(values.std(ddof=1)) for name, values in found.items() if len(values) > 1}


def draws(num_nodes: int, *, resamples: int, seed: int) -> Iterator[Counts]:
    """Samples with replacement, in blocks whose size changes no sample."""
    generator = np.random.default_rng(seed)
    block = max(1, CELLS // num_nodes)
    for start in range(0, resamples, block):
        rows = range(start, min(start + block, resamples))
        samples = [np.bincount(generator.integers(num_nodes, size=num_nodes), minlength=num_nodes) for _ in rows]
        yield np.array(samples, dtype=np.int32)


def node_metrics(nodes: pd.DataFrame, known: Bool[np.ndarray, " nodes"], wanted: Collection[str]) -> dict[str, Metric]:
    """The metrics that a table of nodes suffices for, by their path, among the wanted ones.

    Args:
        nodes: labelled test nodes, as rows of `predictions.parquet`.
        known: whether the model knows the node's class; where it does not, the node counts in `id/*` and `ood/*` only.
    """
    correct = (nodes["predicted"] == nodes["label"]).to_numpy()
    is_ood = nodes["is_ood"].to_numpy()
    measures = {m: nodes[m].to_numpy() for m in nodes if m not in NO_MEASURES}
    makers = {
        "test/accuracy": lambda: _accuracy(correct, known),
        "test/ece": lambda: _calibration_error(nodes["confidence"].to_numpy(), correct, known),
        **{f"test/auarc/{m}": lambda u=u: _rejection_area(u, correct, known) for m, u in measures.items()},
    }
    if is_ood.any():
        makers |= {
            "id/accuracy": lambda: _accuracy(correct, ~is_ood),
            "ood/accuracy": lambda: _accuracy(correct, is_ood),
        }
        makers |= {f"ood/auroc/{m}": lambda u=u: _auroc(u, is_ood) for m, u in measures.items()}
    return {name: make() for name, make in makers.items() if name in wanted}


def _accuracy(correct: Bool[np.ndarray, " nodes"], among: Bool[np.ndarray, " nodes"]) -> Metric:
    hits, members = (correct & among).astype(float), among.astype(float)
    return lambda counts: _ratio(counts @ hits, counts @ members)


def _calibration_error(
    confidence: Float[np.ndarray, " nodes"], correct: Bool[np.ndarray, " nodes"], known: Bool[np.ndarray, " nodes"]
) -> Metric:
    bins = np.minimum((confidence * NUM_BINS).astype(int), NUM_BINS - 1)
    gaps = np.zeros((len(bins), NUM_BINS))
    gaps[np.arange(len(bins)), bins] = (confidence - correct) * known
    members = known.astype(float)
    return lambda counts: _ratio(np.abs(counts @ gaps).sum(axis=1), counts @ members)


def _rejection_area(
    uncertainty: Float[np.ndarray, " nodes"], correct: Bool[np.ndarray, " nodes"], known: Bool[np.ndarray, " nodes"]
) -> Metric:
    """Nodes of equal uncertainty count with their average, also copies of one node: hits grow linearly through them."""
    nodes = np.flatnonzero(known)
    nodes = nodes[np.argsort(uncertainty[nodes], kind="stable")]
    ends = np.flatnonzero(np.append(np.diff(uncertainty[nodes]) > 0, True))  # of each group of equal ones
    hit = correct[nodes].astype(np.int32)

    def area(counts: Counts) -> Values:
        drawn = np.take(counts, nodes, axis=1)
        sizes, hits = _sums(drawn, ends), _sums(drawn * hit, ends)
        curves = np.array([_rejection_curve(*row) for row in zip(sizes, hits, strict=True)])
        return np.trapezoid(curves, axis=1) / (len(KEPT_PERCENT) - 1)

    return area


def _rejection_curve(size: Int[np.ndarray, " ends"], hits: Int[np.ndarray, " ends"]) -> Float[np.ndarray, " percents"]:
    kept = -(-KEPT_PERCENT * size[-1] // 100)
    cut = np.maximum(np.searchsorted(size, kept, side="left"), 1)  # the group in which the last kept node lies
    share = _ratio(hits[cut] - hits[cut - 1], size[cut] - size[cut - 1])
    return _ratio(hits[cut] - (size[cut] - kept) * share, kept)


def _auroc(uncertainty: Float[np.ndarray, " nodes"], is_ood: Bool[np.ndarray, " nodes"]) -> Metric:
    """Share of pairs of an OOD and an ID node in which the OOD one is more uncertain; equal ones count half."""
    ood, nodes = np.flatnonzero(is_ood), np.flatnonzero(~is_ood)
    nodes = nodes[np.argsort(uncertainty[nodes], kind="stable")]
    below, not_above = (np.searchsorted(uncertainty[nodes], uncertainty[ood], side=side) for side in ("left", "right"))

    def area(counts: Counts) -> Values:
        sums = _sums(np.take(counts, nodes, axis=1), np.arange(len(nodes)))
        positives = np.take(counts, ood, axis=1).astype(float)  # products of counts outgrow 32 bits
        wins = np.take(sums, below, axis=1) + np.take(sums, not_above, axis=1)
        return _ratio(np.einsum("sn,sn->s", positives, wins) / 2, positives.sum(axis=1) * sums[:, -1])

    return area


def _sums(drawn: Counts, ends: np.ndarray) -> Int[np.ndarray, "samples ends"]:
    """Cumulated counts at the end of each group, from 0 on."""
    sums = np.zeros((drawn.shape[0], drawn.shape[1] + 1), dtype=np.int32)
    np.cumsum(drawn, axis=1, out=sums[:, 1:])
    return sums if len(ends) == drawn.shape[1] else sums[:, np.append(0, ends + 1)]


def _ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """NaN where there is nothing to divide by: `standard_errors` takes these samples out."""
    return np.divide(numerator, denominator, out=np.full(np.shape(denominator), np.nan), where=denominator > 0)
