"""How far a mean of ours may be from the published one by chance."""

from __future__ import annotations

import numpy as np
import pandas as pd

from lopgpn_exp.evaluation.statistics import find_metric_columns
from lopgpn_exp.paper.recipes import load_recipes
from lopgpn_exp.paper.runs_file import BLOCK
from lopgpn_exp.paper.table1 import CELL

# Independent initialisations behind a published mean. The public code starts from the same ten networks on all ten
# splits, so these are not a hundred.
PUBLISHED_INITS = 10
DETERMINISTIC = ("gkde", "matern_ggp")


def compute_noise(results: pd.DataFrame, *, same_splits: bool) -> pd.Series:
    """Return the standard error of the difference between our mean and the published one, in percent, for each cell.

    On the published splits, only trainings are left to chance, in our mean and in the published one: their variance
    over initialisations is measured within splits. The standard error over splits, which also contains the differences
    between splits, is used instead for other splits, and if a split has a single initialisation. There is no noise
    (NaN) on the published splits if nothing is trained: for deterministic models, and for the untrained networks of
    the public code.

    Args:
        same_splits: whether the results are on the published splits.
    """
    long = results.melt(id_vars=[*BLOCK, "split", "init"], value_vars=find_metric_columns(results), var_name="metric")
    splits = long.dropna(subset="value").groupby([*CELL, "split"])["value"].agg(["mean", "var", "count"])
    cells = splits.groupby(CELL).agg(se=("mean", "sem"), variance=("var", _mean_of_all), count=("count", "sum"))
    if not same_splits:
        return 100 * cells["se"]
    within = (cells["variance"] * (1 / cells["count"] + 1 / PUBLISHED_INITS)) ** 0.5
    untrained = {recipe.variant for recipe in load_recipes() if recipe.network == "untrained"}
    is_untrained = results["model"].isin(DETERMINISTIC) | results["variant"].isin(untrained)
    without_noise = set(results.loc[is_untrained, BLOCK].itertuples(index=False, name=None))
    is_trained = np.array([cell[:3] not in without_noise for cell in cells.index], dtype=bool)
    return 100 * within.fillna(cells["se"]).where(is_trained)


def _mean_of_all(values: pd.Series) -> float:
    """Return the mean; NaN if a value is missing."""
    return values.mean(skipna=False)
