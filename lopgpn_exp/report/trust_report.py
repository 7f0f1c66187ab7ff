"""Terminal tables of the commands `predict` and `score`: flags, limits, reliability, selective prediction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from rich.console import Group, RenderableType
from rich.text import Text

from lopgpn_exp.evaluation.metrics import (
    accuracy_rejection_curve,
    area_under_curve,
    aurc,
    coverage_at_risk,
    risk_at_coverage,
)
from lopgpn_exp.evaluation.metrics.detection import auroc
from lopgpn_exp.evaluation.trust import AMBIGUOUS, TRUST, UNKNOWN, Limits
from lopgpn_exp.report.console import Table, new_table
from lopgpn_exp.report.names import measure_name

STYLES = {TRUST: "green", AMBIGUOUS: "yellow", UNKNOWN: "red"}
MEANINGS = {
    TRUST: "within both limits",
    AMBIGUOUS: "more than one class fits (aleatoric)",
    UNKNOWN: "unlike the training data (epistemic)",
}


def render_flag_counts(flags: pd.Series, limits: Limits) -> RenderableType:
    """Return a table of how many nodes have each flag and what it means, with the limits below."""
    counts = flags.value_counts()
    table = new_table(["flag", "nodes", "share", "meaning"], left=("flag", "meaning"))
    for flag, meaning in MEANINGS.items():
        if flag == UNKNOWN and limits.epistemic is None:
            continue
        count = int(counts.get(flag, 0))
        table.add_row(Text(flag, style=STYLES[flag]), f"{count:,}", f"{count / max(len(flags), 1):.1%}", meaning)
    return Group(table, Text(describe_limits(limits), style="dim"))


def describe_limits(limits: Limits) -> str:
    """Return the limits, and the accuracy of the nodes within them, as one line."""
    texts = []
    if limits.epistemic is not None:
        texts.append(f"unknown: {measure_name(limits.epistemic)} above {limits.unknown_above:.4g}")
    texts.append(f"ambiguous: {measure_name(limits.aleatoric)} above {limits.ambiguous_above:.4g}")
    accuracy = f"{limits.accuracy:.1%} of the {limits.nodes:,} trusted validation nodes are correct"
    if not limits.reaches_target:
        accuracy += f"; no limit reaches {limits.target:.0%}, this is the highest accuracy"
    return f"{'; '.join(texts)} ({accuracy})"


def render_nodes(nodes: pd.DataFrame, measures: Sequence[str]) -> Table:
    """Return a table with one row per node: prediction, confidence, measures and flag."""
    columns = ["node", "predicted", "confidence", *map(measure_name, measures), "flag"]
    table = new_table(columns, left=("node", "predicted", "flag"))
    for row in nodes.to_dict("records"):
        table.add_row(
            Text(str(row["id"])),
            Text(row["predicted"]),
            f"{row['confidence']:.3f}",
            *(f"{row[measure]:.3g}" for measure in measures),
            Text(row["flag"], style=STYLES[row["flag"]]),
        )
    return table


def render_reliability(rows: pd.DataFrame) -> Table:
    """Return a table of how often the nodes of each flag are correct, as computed by `score_flags`."""
    has_ood = bool(rows["ood"].sum())
    columns = ["flag", "nodes", "share", "accuracy", "95 % interval", "errors", "of all errors"]
    table = new_table([*columns, *(["OOD"] if has_ood else [])], left=["flag"])
    for row in rows.to_dict("records"):
        has_nodes = not np.isnan(row["accuracy"])
        table.add_row(
            Text(row["flag"], style=STYLES[row["flag"]]),
            f"{row['nodes']:,}",
            f"{row['share']:.1%}",
            f"{row['accuracy']:.1%}" if has_nodes else "",
            f"{row['low']:.1%} to {row['high']:.1%}" if has_nodes else "",
            f"{row['errors']:,}",
            f"{row['of_all_errors']:.1%}",
            *([f"{row['ood']:,}"] if has_ood else []),
        )
    return table


def render_selection(
    uncertainties: Mapping[str, np.ndarray], correct: np.ndarray, *, coverage: float, risk: float
) -> Table:
    """Return a table of how well each measure selects nodes.

    Args:
        uncertainties: values of the nodes by measure.
        coverage: share of nodes to keep, for the column with their error rate.
        risk: error rate, for the column with the coverage at this error rate.
    """
    columns = ["measure", "AUC-ROC of errors", "AUARC", "AURC"]
    columns += [f"error at {coverage:.0%} coverage", f"coverage at {risk:.0%} error"]
    table = new_table(columns, left=["measure"])
    has_both = bool(correct.any()) and not correct.all()
    for measure, values in uncertainties.items():
        table.add_row(
            Text(measure_name(measure)),
            f"{auroc(values, ~correct):.4f}" if has_both else "",
            f"{area_under_curve(accuracy_rejection_curve(values, correct)):.4f}",
            f"{aurc(values, correct):.4f}",
            f"{risk_at_coverage(values, correct, coverage):.1%}",
            f"{coverage_at_risk(values, correct, risk):.1%}",
        )
    return table
