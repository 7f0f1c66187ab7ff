"""The paired bootstrap over test nodes: metrics of many samples of nodes at once, and their standard errors.

A metric is a function of a matrix of counts: how often each sample (row) contains each node (column).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from lopgpn_exp.evaluation.metrics import NUM_BINS, equal_width_bins
from lopgpn_exp.evaluation.metrics.rejection import REJECTED_PERCENT
from lopgpn_exp.evaluation.node_table import find_measures

NUM_SAMPLES = 1000
BLOCK_SIZE = 2**18  # counts per block: fits the processor's cache
KEPT_PERCENT = 100 - REJECTED_PERCENT

Counts = Int[np.ndarray, "samples nodes"]
Values = Float[np.ndarray, " samples"]
Metric = Callable[[Counts], Values]


def bootstrap_errors(
    first: Mapping[str, Metric],
    second: Mapping[str, Metric],
    num_nodes: int,
    *,
    num_samples: int = NUM_SAMPLES,
    seed: int = 0,
) -> dict[str, float]:
    """Return the standard error of each metric's difference between two models that are evaluated on the same nodes.

    Samples for which a metric is undefined (ood/* without OOD nodes) are left out; a metric with fewer than two values
    has no standard error.
    """
    blocks: dict[str, list[Values]] = {name: [] for name in first if name in second}
    for counts in draw_counts(num_nodes, num_samples=num_samples, seed=seed):
        for name, values in blocks.items():
            values.append(second[name](counts) - first[name](counts))
    differences = {name: np.concatenate(values) for name, values in blocks.items()}
    differences = {name: values[np.isfinite(values)] for name, values in differences.items()}
    return {name: float(values.std(ddof=1)) for name, values in differences.items() if len(values) > 1}


def draw_counts(num_nodes: int, *, num_samples: int, seed: int) -> Iterator[Counts]:
    """Draw samples with replacement, in blocks."""
    generator = np.random.default_rng(seed)
    block = max(1, BLOCK_SIZE // num_nodes)
    for start in range(0, num_samples, block):
        rows = range(start, min(start + block, num_samples))
        samples = [np.bincount(generator.integers(num_nodes, size=num_nodes), minlength=num_nodes) for _ in rows]
        yield np.array(samples, dtype=np.int32)


def build_node_metrics(
    nodes: pd.DataFrame, has_known_class: Bool[np.ndarray, " nodes"], names: Collection[str]
) -> dict[str, Metric]:
    """Return the named metrics that can be computed from a table of nodes.

    Args:
        nodes: labelled test nodes, as rows of `predictions.parquet`.
        has_known_class: whether the model can predict the node's class; other nodes count in `id/*` and `ood/*` only.
    """
    correct = (nodes["predicted"] == nodes["label"]).to_numpy()
    is_ood = nodes["is_ood"].to_numpy()
    measures = {m: nodes[m].to_numpy() for m in find_measures(nodes)}
    builders: dict[str, Callable[[], Metric]] = {
        "test/accuracy": partial(_accuracy, correct, has_known_class),
        "test/ece": partial(_calibration_error, nodes["confidence"].to_numpy(), correct, has_known_class),
        **{f"test/auarc/{m}": partial(_rejection_area, u, correct, has_known_class) for m, u in measures.items()},
    }
    if is_ood.any():
        builders |= {
            "id/accuracy": partial(_accuracy, correct, ~is_ood),
            "ood/accuracy": partial(_accuracy, correct, is_ood),
            **{f"ood/auroc/{m}": partial(_auroc, u, is_ood) for m, u in measures.items()},
        }
    return {name: build() for name, build in builders.items() if name in names}


def compute_metric(metric: Metric, num_nodes: int) -> float:
    """Return the metric of all nodes, each counted once."""
    return float(metric(np.ones((1, num_nodes), dtype=np.int32))[0])


def _accuracy(correct: Bool[np.ndarray, " nodes"], among: Bool[np.ndarray, " nodes"]) -> Metric:
    hits, members = (correct & among).astype(float), among.astype(float)
    return lambda counts: _divide(counts @ hits, counts @ members)


def _calibration_error(
    confidence: Float[np.ndarray, " nodes"], correct: Bool[np.ndarray, " nodes"], among: Bool[np.ndarray, " nodes"]
) -> Metric:
    gaps = np.zeros((len(confidence), NUM_BINS))
    gaps[np.arange(len(confidence)), equal_width_bins(confidence)] = (confidence - correct) * among
    members = among.astype(float)
    return lambda counts: _divide(np.abs(counts @ gaps).sum(axis=1), counts @ members)


def _rejection_area(
    uncertainty: Float[np.ndarray, " nodes"], correct: Bool[np.ndarray, " nodes"], among: Bool[np.ndarray, " nodes"]
) -> Metric:
    """Area under the accuracy-rejection curve; ties, including copies of a node, count with their average."""
    nodes = np.flatnonzero(among)
    nodes = nodes[np.argsort(uncertainty[nodes], kind="stable")]
    ends = np.flatnonzero(np.append(np.diff(uncertainty[nodes]) > 0, True))  # last node of each group of equal values
    hit = correct[nodes].astype(np.int32)

    def area(counts: Counts) -> Values:
        drawn = np.take(counts, nodes, axis=1)
        sizes, hits = _cumulate(drawn, ends), _cumulate(drawn * hit, ends)
        curves = np.array([_rejection_curve(*row) for row in zip(sizes, hits, strict=True)])
        return np.trapezoid(curves, axis=1) / (len(KEPT_PERCENT) - 1)

    return area


def _rejection_curve(size: Int[np.ndarray, " ends"], hits: Int[np.ndarray, " ends"]) -> Float[np.ndarray, " percents"]:
    kept = -(-KEPT_PERCENT * size[-1] // 100)
    cut = np.maximum(np.searchsorted(size, kept, side="left"), 1)  # the group that contains the last kept node
    share = _divide(hits[cut] - hits[cut - 1], size[cut] - size[cut - 1])
    return _divide(hits[cut] - (size[cut] - kept) * share, kept)


def _auroc(uncertainty: Float[np.ndarray, " nodes"], is_ood: Bool[np.ndarray, " nodes"]) -> Metric:
    """Share of pairs of an OOD and an ID node in which the OOD node is more uncertain; ties count half."""
    ood, nodes = np.flatnonzero(is_ood), np.flatnonzero(~is_ood)
    nodes = nodes[np.argsort(uncertainty[nodes], kind="stable")]
    below, not_above = (np.searchsorted(uncertainty[nodes], uncertainty[ood], side=side) for side in ("left", "right"))

    def area(counts: Counts) -> Values:
        sums = _cumulate(np.take(counts, nodes, axis=1), np.arange(len(nodes)))
        positives = np.take(counts, ood, axis=1).astype(float)  # products of counts overflow 32 bits
        wins = np.take(sums, below, axis=1) + np.take(sums, not_above, axis=1)
        return _divide(np.einsum("sn,sn->s", positives, wins) / 2, positives.sum(axis=1) * sums[:, -1])

    return area


def _cumulate(drawn: Counts, ends: Int[np.ndarray, " groups"]) -> Int[np.ndarray, "samples ends"]:
    """Return cumulative counts at the end of each group, starting with 0."""
    sums = np.zeros((drawn.shape[0], drawn.shape[1] + 1), dtype=np.int32)
    np.cumsum(drawn, axis=1, out=sums[:, 1:])
    return sums if len(ends) == drawn.shape[1] else sums[:, np.append(0, ends + 1)]


def _divide(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """Divide, with NaN where the denominator is 0: `bootstrap_errors` leaves these samples out."""
    return np.divide(numerator, denominator, out=np.full(np.shape(denominator), np.nan), where=denominator > 0)
