"""Compare every published value with ours, and give a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from lopgpn_exp.paper.cell_notes import find_note
from lopgpn_exp.paper.published import COLUMNS, load_public_code, load_published
from lopgpn_exp.paper.table1 import CELL, CellMean, compute_cells, find_cell

# A difference counts as noise up to this many points, or up to this many standard errors.
NOISE_POINTS = 2.0
NOISE_ERRORS = 2.0
CLOSE_POINTS = 5.0
WITHIN_NOISE, CLOSE, DIFFERENT, NOT_FROM_PUBLIC_CODE = "within noise", "close", "different", "not from public code"
VERDICTS = (WITHIN_NOISE, CLOSE, DIFFERENT, NOT_FROM_PUBLIC_CODE)
RULE = (
    f"**{WITHIN_NOISE}**: the difference is at most {NOISE_POINTS:g} points or at most {NOISE_ERRORS:g} standard "
    f"errors; **{CLOSE}**: at most {CLOSE_POINTS:g} points; **{DIFFERENT}**: more than that. All published standard "
    "errors are 0.00 and carry no information, so the published mean is taken as exact and only our own standard "
    "error is used. This is the stricter choice: fewer differences count as noise. "
    f"**{NOT_FROM_PUBLIC_CODE}**: the authors' public code does not give the published value either (see below), so "
    "agreeing with it would be wrong."
)
COLUMN_ORDER = [*CELL, "column", "printed", "splits", "ours", "se", "published", "difference", "verdict"]


def judge(difference: float, se: float) -> str:
    """Return the verdict on a difference in points; `se` is NaN if there is only one split."""
    if abs(difference) <= NOISE_POINTS or abs(difference) <= NOISE_ERRORS * se:
        return WITHIN_NOISE
    return CLOSE if abs(difference) <= CLOSE_POINTS else DIFFERENT


def audit_results(results: pd.DataFrame) -> pd.DataFrame:
    """Return one row per published value that we have a value for, in percent; `difference` is ours minus published."""
    cells, columns = compute_cells(results), {column.name: column for column in COLUMNS}
    rows = []
    for published in load_published().to_dict("records"):
        cell = find_cell(cells, published["dataset"], published["model"], columns[published["column"]])
        if cell is not None:
            rows.append(_audit_cell(published, cell))
    table = pd.DataFrame(rows, columns=[*COLUMN_ORDER, "explanation"]).astype({"printed": bool})
    table = table.merge(load_public_code(), on=CELL, how="left")
    return table[[*COLUMN_ORDER, "public_code", "public_code_splits", "explanation"]]


def _audit_cell(published: Mapping[Any, Any], ours: CellMean) -> dict[Any, Any]:
    difference = round(ours.mean - published["published"], 6)
    verdict, explanation = judge(difference, ours.se), ""
    if find_note("not_from_public_code", published):
        verdict = NOT_FROM_PUBLIC_CODE
    elif verdict != WITHIN_NOISE and (note := find_note("explanations", published)):
        explanation = note.reason
    return {
        **published,
        "splits": ours.splits,
        "ours": ours.mean,
        "se": ours.se,
        "difference": difference,
        "verdict": verdict,
        "explanation": explanation,
    }


def is_within_combined_noise(table: pd.DataFrame) -> pd.Series:
    """Return which cells are within noise if the published means are as uncertain as ours."""
    difference = table["difference"].abs()
    return (difference <= NOISE_POINTS) | (difference <= NOISE_ERRORS * 2**0.5 * table["se"])


def compare_with_public_code(results: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """Return, for each cell that the public code was run on, the share of values within `NOISE_POINTS` of the paper's.

    `public_code` refers to its one value and `ours` to our mean. `ours_few_splits` refers to our means over as few
    splits as the public code was run on (first initialisation, all choices of splits), which are equally noisy.
    """
    run_keys = ["dataset", "model", "scenario"]
    first_inits = results.sort_values("init").drop_duplicates([*run_keys, "split"]).set_index(run_keys).sort_index()
    rows = []
    for cell in table[table["public_code"].notna()].to_dict("records"):
        values = 100 * first_inits.loc[[tuple(cell[key] for key in run_keys)], cell["metric"]].to_numpy()
        num_splits = min(int(cell["public_code_splits"]), len(values))
        means = np.array([np.mean(chosen) for chosen in combinations(values, num_splits)])
        rows.append(
            {
                "public_code": abs(cell["public_code"] - cell["published"]) <= NOISE_POINTS,
                "ours": abs(cell["difference"]) <= NOISE_POINTS,
                "ours_few_splits": np.mean(np.abs(means - cell["published"]) <= NOISE_POINTS),
            }
        )
    return pd.DataFrame(rows, columns=["public_code", "ours", "ours_few_splits"])


def format_audit(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table as it is written to CSV: values with two decimals, counts as whole numbers."""
    decimals = dict.fromkeys(["ours", "se", "published", "difference", "public_code"], 2) | {"public_code_splits": 0}
    texts = {
        column: table[column].map(lambda value, digits=digits: "" if pd.isna(value) else f"{value:.{digits}f}")
        for column, digits in decimals.items()
    }
    return table.assign(**texts, printed=table["printed"].astype(int))


def count_verdicts(table: pd.DataFrame, by: str) -> pd.DataFrame:
    """Return the number of cells per verdict, and the `median` absolute difference of the comparable cells."""
    counts = table.groupby([by, "verdict"]).size().unstack(fill_value=0).reindex(columns=list(VERDICTS), fill_value=0)
    comparable = table[table["verdict"] != NOT_FROM_PUBLIC_CODE]
    counts["median"] = comparable.groupby(by)["difference"].apply(lambda difference: difference.abs().median())
    return counts
