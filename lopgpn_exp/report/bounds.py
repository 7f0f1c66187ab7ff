"""How far a mixture's differential entropy is from the bounds that stand for it, and whether the difference matters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from lopgpn_exp.errors import InputError
from lopgpn_exp.posterior import DirichletMixture
from lopgpn_exp.report.aggregate import student
from lopgpn_exp.report.comparison.resampling import RESAMPLES, draws, node_metrics

BOUNDS = ("lower", "exact", "upper")
SURROGATE = "upper"  # EU_SO as the paper has it


@dataclass(frozen=True)
class Tightness:
    """What was found on some test nodes.

    Args:
        table: one row a node: `node, label, is_ood, components, lower, exact, standard_error, upper, position`. The
            position is 0 at the lower bound and 1 at the upper one; a node whose bounds are the same has none.
        num_test: test nodes of the run, of which these were chosen.
        scores: one row a metric and bound: `metric, bound, value, low, high` (95 % over nodes), and `difference,
            difference_low, difference_high` from the surrogate's.
    """

    table: pd.DataFrame
    num_test: int
    num_draws: int
    scores: pd.DataFrame

    @property
    def rank_correlation(self) -> dict[str, float]:
        """Spearman's rho of either bound with the exact value; without one where nothing differs."""
        found = self.table[list(BOUNDS)].rank().corr()["exact"].drop("exact").dropna()
        return {str(bound): float(value) for bound, value in found.items()}


def chosen_nodes(predictions: pd.DataFrame, most: int | None, *, seed: int) -> tuple[pd.DataFrame, int]:
    """Labelled test nodes of a run's table, at most so many of them, drawn at random; and how many there are."""
    test = predictions[(predictions["part"] == "test") & (predictions["label"] >= 0)]
    if most is None or most >= len(test):
        return test, len(test)
    return test.sample(most, random_state=seed).sort_index(), len(test)


def tightness(
    posterior: DirichletMixture, predictions: pd.DataFrame, *, most: int | None, num_draws: int, seed: int
) -> Tightness:
    """On `most` test nodes (None: all) of the table that `posterior` was evaluated to."""
    nodes, num_test = chosen_nodes(predictions, most, seed=seed)
    mixture = posterior[torch.tensor(nodes["node"].to_numpy())]
    estimate = mixture.entropy_exact(num_draws=num_draws, seed=seed)
    lower, upper = (bound.double().numpy() for bound in (mixture.entropy_lower(), mixture.entropy_upper()))
    exact, gap = estimate.value.numpy(), upper - lower
    found = {"lower": lower, "exact": exact, "standard_error": estimate.standard_error.numpy(), "upper": upper}
    if not all(np.isfinite(values).all() for values in found.values()):
        raise InputError("an entropy is not finite", expected="a model that has not diverged")
    position = np.divide(exact - lower, gap, out=np.full(len(gap), np.nan), where=gap > 0)
    weights = mixture.weights.scipy()
    table = nodes[["node", "label", "is_ood"]].assign(
        components=np.diff(weights.indptr), **found, position=np.clip(position, 0, 1)
    )
    known = (nodes["label"] < posterior.mean.shape[1]).to_numpy()
    scores = _scores(nodes[["label", "predicted", "confidence", "is_ood"]].assign(**table[list(BOUNDS)]), known, seed)
    return Tightness(table.reset_index(drop=True), num_test, num_draws, scores)


def _scores(nodes: pd.DataFrame, known: np.ndarray, seed: int) -> pd.DataFrame:
    """What each is good for, with bootstrap errors over the same samples of nodes."""
    defined = {"test/auarc": known.any(), "ood/auroc": nodes["is_ood"].nunique() == 2}
    wanted = [f"{metric}/{bound}" for metric in defined if defined[metric] for bound in BOUNDS]
    functions = node_metrics(nodes, known, wanted)
    once = np.ones((1, len(nodes)), dtype=np.int32)
    samples = [
        {name: function(counts) for name, function in functions.items()}
        for counts in draws(len(nodes), resamples=RESAMPLES, seed=seed)
    ]
    spread = {name: np.concatenate([part[name] for part in samples]) for name in functions}
    rows = []
    for name, function in functions.items():
        metric, _, bound = name.rpartition("/")
        value, reference = float(function(once)[0]), float(functions[f"{metric}/{SURROGATE}"](once)[0])
        row = {"metric": metric, "bound": bound, "value": value}
        row |= {end: min(max(at, 0.0), 1.0) for end, at in _interval(value, spread[name]).items()}
        if bound != SURROGATE:
            apart = _interval(value - reference, spread[name] - spread[f"{metric}/{SURROGATE}"])
            row |= {"difference": value - reference} | {f"difference_{end}": apart[end] for end in apart}
        rows.append(row)
    columns = ("metric", "bound", "value", "low", "high", "difference", "difference_low", "difference_high")
    return pd.DataFrame(rows, columns=list(columns))


def _interval(value: float, samples: np.ndarray) -> dict[str, float]:
    """95 % around a value, by the spread of its samples; one without OOD nodes has no value."""
    ends = student(value, float(np.nanstd(samples, ddof=1)), np.inf)
    return {"low": ends["low"], "high": ends["high"]}
