"""The claims of the paper's text, each judged by a rule from our own results."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from lopgpn_exp.paper.claims import curve_claims, figure_claims, table_claims
from lopgpn_exp.paper.claims.evidence import Claim, Evidence
from lopgpn_exp.report.names import MODEL_NAMES, SCENARIO_NAMES

__all__ = ["Claim", "check_claims"]

# In the order of the paper.
CHECKS: tuple[Callable[[Evidence], Claim], ...] = (
    figure_claims.check_equal_total_uncertainty,
    figure_claims.check_conflict,
    table_claims.check_accuracy,
    table_claims.check_pooling,
    curve_claims.check_rejection_curves,
    curve_claims.check_eu_drop,
    curve_claims.check_rising_curves,
    table_claims.check_feature_detection,
    table_claims.check_accuracy_under_noise,
    table_claims.check_left_out_classes,
)


def check_claims(results: pd.DataFrame, curves: pd.DataFrame) -> list[Claim]:
    """Judge all claims on the datasets that have runs of every model in every scenario; none without such a dataset."""
    kinds = results.groupby("dataset")[["model", "scenario"]].apply(lambda runs: len(runs.drop_duplicates()))
    complete = kinds.index[kinds == len(MODEL_NAMES) * len(SCENARIO_NAMES)]
    if not len(complete):
        return []
    evidence = Evidence(results[results["dataset"].isin(complete)], curves[curves["dataset"].isin(complete)])
    return [check(evidence) for check in CHECKS]
