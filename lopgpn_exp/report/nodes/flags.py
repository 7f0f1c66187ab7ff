"""What `predict` and `score` show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from lopgpn_exp.evaluation.flags import AMBIGUOUS, TRUST, UNKNOWN, Limits
from lopgpn_exp.evaluation.rejection import accuracy_rejection_curve, area_under_curve
from lopgpn_exp.evaluation.selective import aurc, coverage_at_risk, risk_at_coverage
from lopgpn_exp.report.names import measure_name

STYLES = {TRUST: "green", AMBIGUOUS: "yellow", UNKNOWN: "red"}
MEANINGS = {
    TRUST: "within both limits",
    AMBIGUOUS: "more than one class fits it (aleatoric)",
    UNKNOWN: "unlike what was learned from (epistemic)",
}


def flag_summary(flags: pd.Series, found: Limits) -> RenderableType:
    """How many nodes have which flag, and what it means."""
    counts = flags.value_counts()
    table = Table(box=None, padding=(0, 1), header_style="bold")
    for name in ("flag", "nodes", "share", "meaning"):
        table.add_column(name, justify="right" if name in ("nodes", "share") else "left")
    for flag, meaning in MEANINGS.items():
        if flag == UNKNOWN and found.epistemic is None:
            continue
        count = int(counts.get(flag, 0))
        table.add_row(Text(flag, style=STYLES[flag]), f"{count:,}", f"{count / max(len(flags), 1):.1%}", meaning)
    return Group(table, Text(limits_text(found), style="dim"))


def limits_text(found: Limits) -> str:
    """Where the limits lie, and what they hold for."""
    lines = []
    if found.epistemic is not None:
        lines.append(f"unknown: {measure_name(found.epistemic)} above {found.unknown_above:.4g}")
    lines.append(f"ambiguous: {measure_name(found.aleatoric)} above {found.ambiguous_above:.4g}")
    reached = f"{found.accuracy:.1%} of the {found.nodes:,} trusted validation nodes are right"
    if not found.reached:
        reached += f"; no limit reaches {found.target:.0%}, so this is the best there is"
    return "; ".join(lines) + f" ({reached})"


def node_rows(table: pd.DataFrame, measures: Sequence[str]) -> RenderableType:
    """Some nodes, one row each."""
    shown = Table(box=None, padding=(0, 1), header_style="bold")
    shown.add_column("node")
    shown.add_column("predicted")
    for name in ("confidence", *map(measure_name, measures)):
        shown.add_column(name, justify="right")
    shown.add_column("flag")
    for row in table.itertuples(index=False):
        values = [f"{getattr(row, name):.3g}" for name in measures]
        shown.add_row(
            Text(str(row.id)),
            Text(row.predicted),
            f"{row.confidence:.3f}",
            *values,
            Text(row.flag, style=STYLES[row.flag]),
        )
    return shown


def reliability_table(rows: pd.DataFrame) -> RenderableType:
    """How often each flag is right."""
    table = Table(box=None, padding=(0, 1), header_style="bold")
    has_ood = bool(rows["ood"].sum())
    for name in ("flag", "nodes", "share", "accuracy", "95 % interval", "errors", "of all errors"):
        table.add_column(name, justify="left" if name == "flag" else "right")
    if has_ood:
        table.add_column("OOD", justify="right")
    for row in rows.itertuples(index=False):
        known = not np.isnan(row.accuracy)
        table.add_row(
            Text(row.flag, style=STYLES[row.flag]),
            f"{row.nodes:,}",
            f"{row.share:.1%}",
            f"{row.accuracy:.1%}" if known else "",
            f"{row.low:.1%} to {row.high:.1%}" if known else "",
            f"{row.errors:,}",
            f"{row.of_all_errors:.1%}",
            *([f"{row.ood:,}"] if has_ood else []),
        )
    return table


def selection_table(
    measures: Mapping[str, np.ndarray], correct: np.ndarray, *, coverage: float, risk: float
) -> RenderableType:
    """What each measure is good for: AUC-ROC of errors, AUARC, AURC, and the error or coverage that is to be had."""
    from lopgpn_exp.evaluation.detection import auroc  # scikit-learn

    table = Table(box=None, padding=(0, 1), header_style="bold")
    table.add_column("measure")
    columns = ("errors, AUC-ROC", "AUARC", "AURC", f"error at {coverage:.0%}", f"coverage at {risk:.0%} error")
    for name in columns:
        table.add_column(name, justify="right")
    both = bool(correct.any()) and not correct.all()
    for name, values in measures.items():
        table.add_row(
            measure_name(name),
            f"{auroc(values, ~correct):.4f}" if both else "",
            f"{area_under_curve(accuracy_rejection_curve(values, correct)):.4f}",
            f"{aurc(values, correct):.4f}",
            f"{risk_at_coverage(values, correct, coverage):.1%}",
            f"{coverage_at_risk(values, correct, risk):.1%}",
        )
    return table
