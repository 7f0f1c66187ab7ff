"""Compare the benchmark with published values: one row per published value, with a verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, cast

import pandas as pd

from lopgpn_exp.benchmark.literature import RUNS, find_method, load_literature
from lopgpn_exp.config.safe_yaml import parse_yaml

PROTOCOL = "per_class_20"
WITHIN_NOISE, DIFFERS, NOT_RUN, UNDEFINED = "within noise", "differs", "not run", "undefined"
NOISE_POINTS = 2.0  # a difference of two points counts as noise, however small the errors are
NOISE_ERRORS = 2.0
NO_REASON = "no reason known"
UNDEFINED_SETS = {("pubmed", "os_4"), ("pubmed", "os_5")}  # published, but which classes they leave out is not
COLUMNS = (
    *("table", "backbone", "dataset", "published_as", "model", "scenario", "metric", "measure", "ours", "se", "splits"),
    *("published", "published_std", "difference", "verdict", "reason"),
)


def audit_benchmark(runs: pd.DataFrame) -> pd.DataFrame:
    """Return one row per published value: ours, published, difference and verdict.

    A value is within noise if it differs by at most 2 points, or by at most 2 combined standard errors: ours over
    splits, and that of the published mean of 25 runs. With a single split, our standard error is not known and counts
    as 0.
    """
    chosen = runs[runs["protocol"] == PROTOCOL]
    groups = dict(list(chosen.groupby(["dataset", "model", "scenario"])))
    notes = load_notes()
    rows = [_audit_value(value, groups, notes) for value in load_literature().to_dict("records")]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _audit_value(
    value: Mapping[Any, Any], groups: Mapping[Any, pd.DataFrame], notes: list[dict[str, str]]
) -> dict[str, Any]:
    method = find_method(value["name"], value["backbone"], value["dataset"])
    row = {key: value[key] for key in ("table", "backbone", "dataset", "scenario", "metric")}
    row |= {"published_as": value["name"], "published": value["mean"], "published_std": value["std"]}
    if method is None:
        return row | {"verdict": NOT_RUN, "reason": "no config with this backbone"}
    kind = value["metric"].partition("/")[0]
    measure = {"error": method.error_measure, "ood": method.ood_measure}.get(kind, "")
    row |= {"model": method.model, "measure": measure}
    if (value["dataset"], value["scenario"]) in UNDEFINED_SETS:
        return row | {"verdict": UNDEFINED, "reason": "the source does not say which classes are left out"}
    path = f"{value['metric']}/{measure}" if measure else value["metric"]
    group = groups.get((value["dataset"], method.model, value["scenario"]))
    if group is None or path not in group or group[path].isna().all():
        return row | {"verdict": NOT_RUN, "reason": "no runs yet"}
    by_split = 100 * group.groupby("split")[path].mean().dropna()
    ours, se = float(by_split.mean()), float(cast(float, by_split.sem()))
    noise = math.hypot(0.0 if math.isnan(se) else se, value["std"] / RUNS**0.5)
    difference = ours - value["mean"]
    is_noise = abs(difference) <= max(NOISE_POINTS, NOISE_ERRORS * noise)
    row |= {"ours": ours, "se": se, "splits": len(by_split), "difference": difference}
    return row | {
        "verdict": WITHIN_NOISE if is_noise else DIFFERS,
        "reason": "" if is_noise else _find_note(row, notes),
    }


def load_notes() -> list[dict[str, str]]:
    """Return reasons for differences. Each names the keys that it applies to, such as a model or a metric."""
    notes: list[dict[str, str]] = parse_yaml(files(__package__).joinpath("audit_notes.yaml").read_text())
    return notes


def _find_note(row: Mapping[str, Any], notes: list[dict[str, str]]) -> str:
    """Return the first reason that applies to a row, or that none is known."""
    for note in notes:
        if all(row[key] in note[key].split() for key in ("model", "dataset", "metric", "scenario") if key in note):
            return note["reason"]
    return NO_REASON if row["splits"] > 1 else f"{NO_REASON}; ours is a single split, whose spread is unknown"


def select_compared(audit: pd.DataFrame) -> pd.DataFrame:
    """Return the published values that were compared with ours."""
    return audit[audit["verdict"].isin([WITHIN_NOISE, DIFFERS])]


def count_verdicts(audit: pd.DataFrame, by: str) -> pd.DataFrame:
    """Return for each value of a column how many published values were compared, and how many are within noise.

    `median` is that of the differences, `size` that of their absolute values.
    """
    compared = select_compared(audit)
    sizes = compared.assign(within=compared["verdict"] == WITHIN_NOISE, size=compared["difference"].abs())
    grouped = sizes.groupby(by, sort=False)
    table = grouped.agg(values=("within", "count"), within=("within", "sum"), median=("difference", "median"))
    return table.assign(share=table["within"] / table["values"], size=grouped["size"].median())
