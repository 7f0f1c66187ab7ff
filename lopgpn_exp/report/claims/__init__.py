"""The claims of the paper's text, each decided by a rule from our own results."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from lopgpn_exp.report.claims import cells, curves, figures
from lopgpn_exp.report.claims.evidence import Claim, Evidence
from lopgpn_exp.report.names import MODEL_NAMES, SCENARIO_NAMES

__all__ = ["Claim", "claims"]

# In the order of the paper.
CHECKS: tuple[Callable[[Evidence], Claim], ...] = (
    figures.same_total,
    figures.conflict,
    cells.accurate,
    cells.pooling_not_normalisation,
    curves.rejection,
    curves.eu_drops,
    curves.counts_rise,
    cells.features_best,
    cells.uniquely_accurate,
    cells.leave_out,
)


def claims(results: pd.DataFrame, rejection: pd.DataFrame) -> list[Claim]:
    """Decided on the datasets that have runs of every model in every scenario; none if there is no such dataset."""
    kinds = results.groupby("dataset")[["model", "scenario"]].apply(lambda runs: len(runs.drop_duplicates()))
    whole = kinds.index[kinds == len(MODEL_NAMES) * len(SCENARIO_NAMES)]
    if not len(whole):
        return []
    evidence = Evidence(results[results["dataset"].isin(whole)], rejection[rejection["dataset"].isin(whole)])
    return [check(evidence) for check in CHECKS]
