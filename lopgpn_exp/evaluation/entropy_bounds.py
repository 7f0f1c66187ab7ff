"""Measure how tight the bounds on a mixture's entropy are, and whether the exact value would rank nodes better."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float

from lopgpn_exp.errors import InputError
from lopgpn_exp.evaluation.bootstrap import NUM_SAMPLES, build_node_metrics, compute_metric, draw_counts
from lopgpn_exp.evaluation.statistics import t_test
from lopgpn_exp.posterior import DirichletMixture

BOUNDS = ("lower", "exact", "upper")
SURROGATE = "upper"  # the paper's EU_SO


@dataclass(frozen=True)
class Tightness:
    """Bounds and exact entropies of a sample of test nodes.

    Args:
        table: one row per node: `node, label, is_ood, components, lower, exact, standard_error, upper, position`. The
            position is 0 at the lower bound, 1 at the upper bound, and missing if the bounds are equal.
        num_test: number of labelled test nodes that the sample was drawn from.
        scores: one row per metric and bound: `metric, bound, value, low, high` (95 % over nodes), and `difference,
            difference_low, difference_high` from the surrogate.
    """

    table: pd.DataFrame
    num_test: int
    num_draws: int
    scores: pd.DataFrame

    @property
    def rank_correlation(self) -> dict[str, float]:
        """Spearman's rho of each bound with the exact value; missing if all values are equal."""
        correlations = self.table[list(BOUNDS)].rank().corr()["exact"].drop("exact").dropna()
        return {str(bound): float(value) for bound, value in correlations.items()}


def sample_test_nodes(predictions: pd.DataFrame, max_nodes: int | None, *, seed: int) -> tuple[pd.DataFrame, int]:
    """Draw at most `max_nodes` labelled test nodes (None: all), and return them and the number of all."""
    test = predictions[(predictions["part"] == "test") & (predictions["label"] >= 0)]
    if max_nodes is None or max_nodes >= len(test):
        return test, len(test)
    return test.sample(max_nodes, random_state=seed).sort_index(), len(test)


def measure_tightness(
    posterior: DirichletMixture, predictions: pd.DataFrame, *, max_nodes: int | None, num_draws: int, seed: int
) -> Tightness:
    """Estimate the exact entropy of test nodes and compare it with the bounds.

    Args:
        predictions: the table of nodes of `posterior`.
        max_nodes: number of test nodes to draw; None: all.
        num_draws: number of Monte Carlo draws per node.
    """
    if len(predictions) != len(posterior.mean):
        raise InputError(
            f"the table of predictions has {len(predictions):,} nodes, and the graph {len(posterior.mean):,}",
            expected="the table of the same graph",
        )
    nodes, num_test = sample_test_nodes(predictions, max_nodes, seed=seed)
    mixture = posterior[torch.tensor(nodes["node"].to_numpy())]
    estimate = mixture.entropy_exact(num_draws=num_draws, seed=seed)
    lower, upper = (bound.double().numpy() for bound in (mixture.entropy_lower(), mixture.entropy_upper()))
    exact, gap = estimate.value.numpy(), upper - lower
    entropies = {"lower": lower, "exact": exact, "standard_error": estimate.standard_error.numpy(), "upper": upper}
    if not all(np.isfinite(values).all() for values in entropies.values()):
        raise InputError("an entropy is not finite", expected="a model that has not diverged")
    position = np.divide(exact - lower, gap, out=np.full(len(gap), np.nan), where=gap > 0)
    table = nodes[["node", "label", "is_ood"]].assign(
        components=np.diff(mixture.weights.scipy().indptr), **entropies, position=np.clip(position, 0, 1)
    )
    has_known_class = (nodes["label"] < posterior.mean.shape[1]).to_numpy()
    columns = nodes[["label", "predicted", "confidence", "is_ood"]].assign(**table[list(BOUNDS)])
    scores = _score_bounds(columns, has_known_class, seed)
    return Tightness(table.reset_index(drop=True), num_test, num_draws, scores)


def _score_bounds(nodes: pd.DataFrame, has_known_class: Bool[np.ndarray, " nodes"], seed: int) -> pd.DataFrame:
    """Score each bound as an uncertainty measure, with bootstrap intervals over the same samples of nodes."""
    is_defined = {"test/auarc": has_known_class.any(), "ood/auroc": nodes["is_ood"].nunique() == 2}
    names = [f"{metric}/{bound}" for metric in is_defined if is_defined[metric] for bound in BOUNDS]
    functions = build_node_metrics(nodes, has_known_class, names)
    blocks = [
        {name: function(counts) for name, function in functions.items()}
        for counts in draw_counts(len(nodes), num_samples=NUM_SAMPLES, seed=seed)
    ]
    samples = {name: np.concatenate([block[name] for block in blocks]) for name in functions}
    values = {name: compute_metric(function, len(nodes)) for name, function in functions.items()}
    rows = []
    for name, value in values.items():
        metric, _, bound = name.rpartition("/")
        surrogate = f"{metric}/{SURROGATE}"
        low, high = (min(max(end, 0.0), 1.0) for end in _compute_interval(value, samples[name]))
        row = {"metric": metric, "bound": bound, "value": value, "low": low, "high": high}
        if bound != SURROGATE:
            difference = value - values[surrogate]
            low, high = _compute_interval(difference, samples[name] - samples[surrogate])
            row |= {"difference": difference, "difference_low": low, "difference_high": high}
        rows.append(row)
    columns = ("metric", "bound", "value", "low", "high", "difference", "difference_low", "difference_high")
    return pd.DataFrame(rows, columns=list(columns))


def _compute_interval(value: float, samples: Float[np.ndarray, " samples"]) -> tuple[float, float]:
    """Return the 95 % interval of a value from its samples, which are NaN where it is undefined."""
    ends = t_test(value, float(np.nanstd(samples, ddof=1)), np.inf)
    return ends["low"], ends["high"]
