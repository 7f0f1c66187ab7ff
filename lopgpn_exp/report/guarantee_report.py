"""Terminal text of the promises of `predict` and `score`: prediction sets, accepted nodes, changed graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from rich.text import Text

from lopgpn_exp.evaluation.acceptance import AcceptanceRule
from lopgpn_exp.evaluation.graph_change import FlagShare, GraphChange
from lopgpn_exp.evaluation.promise_scores import MeasuredShare, SetScore
from lopgpn_exp.report.console import Table, new_table
from lopgpn_exp.report.names import measure_name

if TYPE_CHECKING:  # needs torch
    from lopgpn_exp.posthoc.coverage_sets import CalibratedSets

CHANGED = (
    "For a new version of the graph, the promise holds only as far as its nodes are like the run's validation nodes "
    "(exchangeable). If some new nodes have labels, score --graph measures it."
)


def describe_calibration(sets: CalibratedSets, *, is_new_graph: bool = False) -> str:
    """Return which sets were computed, and from which nodes."""
    where = ", as they are in the new version" if is_new_graph else ""
    half = ", the other half having chosen the smoothing" if sets.method == "daps" else ""
    nodes = f"{sets.num_calibration:,} validation nodes{half}{where}"
    return f"Prediction sets with {_percent(sets.coverage)} coverage by {sets.method.upper()}, calibrated on {nodes}"


def describe_set_sizes(sizes: pd.Series) -> str:
    """Return how many classes the sets have."""
    shares = {"one class": (sizes == 1).mean(), "several": (sizes > 1).mean(), "none": (sizes == 0).mean()}
    return f"mean size {sizes.mean():.2f}; " + ", ".join(f"{name} {share:.1%}" for name, share in shares.items())


def describe_rule(rule: AcceptanceRule) -> str:
    """Return the rule, what it promises, and the validation nodes behind it."""
    found = rule.acceptance
    condition = f"{measure_name(rule.measure)} at most {found.threshold:.4g}"
    if rule.limits.epistemic is not None:
        condition += ", not unknown"
    promise = (
        f"at most {_percent(rule.max_error)} of these nodes are wrong, with {_percent(rule.confidence)} confidence"
    )
    return f"accepted: {condition}; {promise} ({found.wrong:,} of {found.checked:,} accepted validation nodes are)"


def describe_accepted(table: pd.DataFrame) -> str:
    """Return how many nodes of a prediction are accepted, without those of training and validation."""
    accepted = table.loc[~table["part"].isin(["train", "val"]), "accepted"]
    share = f"{accepted.mean():.1%}" if len(accepted) else "none"
    return f"Accepted: {int(accepted.sum()):,} of {len(accepted):,} nodes ({share}) besides training and validation"


def describe_limitations(own: pd.DataFrame, *, is_changed: bool) -> list[str]:
    """Return why a promise may not hold: a changed graph, or nodes of the run that are out-of-distribution."""
    texts = [CHANGED] if is_changed else []
    num_ood = int((own["is_ood"] & ~own["part"].isin(["train", "val"])).sum())
    if num_ood and not is_changed:
        texts.append(f"The promise does not cover the {num_ood:,} nodes that are out-of-distribution in this run.")
    return texts


def _percent(share: float) -> str:
    return f"{100 * share:.10g} %"


def render_set_scores(scores: Sequence[SetScore]) -> Table:
    """Return a table of the measured coverage with its interval, and of the range that is to be expected."""
    columns = ["nodes", "count", "coverage", "95 % interval", "expected range", "mean size", "one class", "empty"]
    table = new_table(columns, left=["nodes"])
    for score in scores:
        measured = score.coverage
        table.add_row(
            score.group,
            f"{measured.nodes:,}",
            Text(f"{measured.share:.1%}", style="" if score.is_expected else "red"),
            f"{measured.low:.1%} to {measured.high:.1%}",
            "no promise" if score.expected is None else f"{score.expected[0]:.1%} to {score.expected[1]:.1%}",
            f"{score.size:.2f}",
            f"{score.singletons:.1%}",
            f"{score.empty:.1%}",
        )
    return table


def describe_set_scores(scores: Sequence[SetScore]) -> str:
    """Return a warning if the coverage is not what is to be expected; empty otherwise."""
    if all(score.is_expected for score in scores):
        return ""
    return (
        "The coverage is outside of its expected range: either this is one of the 5 % of calibrations in which that "
        "happens by chance, or these nodes are not like the calibration nodes."
    )


def describe_accepted_errors(is_wrong: np.ndarray, is_ood: np.ndarray) -> str:
    """Return how many accepted labelled nodes are wrong; OOD nodes, which no promise covers, are only counted."""
    if is_ood.all():
        text = "None of the labelled nodes is accepted"
    else:
        measured = MeasuredShare.count(is_wrong[~is_ood])
        interval = f"95 % interval {measured.low:.1%} to {measured.high:.1%}"
        text = f"{measured.share:.1%} of {measured.nodes:,} accepted labelled nodes are wrong ({interval})"
    return text + (f"; the promise does not cover {is_ood.sum():,} accepted OOD nodes" if is_ood.any() else "")


def describe_broken_bound(is_wrong: np.ndarray, max_error: float) -> str:
    """Return a warning if the measured error is significantly larger than promised; empty otherwise."""
    if len(is_wrong) == 0 or MeasuredShare.count(is_wrong).low <= max_error:
        return ""
    return f"More than {_percent(max_error)} are wrong: these nodes are not like the validation nodes."


def render_change(change: GraphChange) -> Table:
    """Return a table of the nodes flagged unknown in a changed graph, next to those of the run's validation nodes."""
    table = new_table(["against the run", "nodes", "unknown", "share"], left=["against the run"])
    rows: dict[str, FlagShare] = {
        "validation nodes of the run": change.validation,
        "nodes of the new version": change.everything,
        "new nodes among them": change.new,
    }
    for name, group in rows.items():
        table.add_row(name, f"{group.nodes:,}", f"{group.unknown:,}", f"{group.share:.1%}" if group.nodes else "")
    return table
