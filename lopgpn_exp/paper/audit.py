"""Compare every published value with ours, by definition and by recipe, and give a verdict on each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from lopgpn_exp.paper.cell_notes import find_note
from lopgpn_exp.paper.noise import compute_noise
from lopgpn_exp.paper.published import COLUMNS, load_public_code, load_public_code_runs, load_published
from lopgpn_exp.paper.runs_file import BLOCK, RECIPE_PREFIX, StoredRuns
from lopgpn_exp.paper.table1 import CELL, compute_cells, find_cell

# A difference counts as noise up to this many points, or up to this many standard errors.
NOISE_POINTS = 2.0
NOISE_ERRORS = 2.0
CLOSE_POINTS = 5.0
EXACT_POINTS = 0.1  # up to which models without randomness should agree
WITHIN_NOISE, CLOSE, DIFFERENT = "within noise", "close", "different"
VERDICTS = (WITHIN_NOISE, CLOSE, DIFFERENT)
RULE = (
    f"**{WITHIN_NOISE}**: the difference is at most {NOISE_POINTS:g} points or at most {NOISE_ERRORS:g} times the "
    f"noise; **{CLOSE}**: at most {CLOSE_POINTS:g} points; **{DIFFERENT}**: more than that. On the published splits, "
    "the noise is the standard error of the difference between two means over initialisations: ours, and the published "
    "one over the ten of the public code, which are the same on all splits. With a single initialisation, or on other "
    "splits, it is the standard error over splits. On the published splits, models without randomness have no noise. "
    "All published standard errors are 0.00 and carry no information."
)
BY_DEFINITION = ["ours", "se", "noise", "difference", "verdict"]
BY_RECIPE = ["recipe", "by_recipe", "recipe_noise", "recipe_difference", "recipe_verdict"]
PUBLIC_CODE = ["public_code", "public_code_runs", "public_code_2024_03", "public_code_2024_03_runs"]
COLUMN_ORDER = [*CELL, "column", "printed", "splits", "published", *BY_DEFINITION, *BY_RECIPE]


def judge(difference: float, noise: float) -> str:
    """Return the verdict on a difference in points; `noise` is NaN if there is none, or if it is not known."""
    if abs(difference) <= NOISE_POINTS or abs(difference) <= NOISE_ERRORS * noise:
        return WITHIN_NOISE
    return CLOSE if abs(difference) <= CLOSE_POINTS else DIFFERENT


def audit_runs(runs: StoredRuns) -> pd.DataFrame:
    """Return one row per published value that we have a value for; see `audit_results`."""
    return audit_results(runs.main, runs.by_recipe, same_splits=runs.notes.has_published_splits)


def audit_results(
    results: pd.DataFrame, by_recipe: pd.DataFrame | None = None, *, same_splits: bool = True
) -> pd.DataFrame:
    """Return one row per published value that we have a value for, in percent.

    `ours`, `difference` (ours minus published) and `verdict` are by definition; `by_recipe`, `recipe_difference` and
    `recipe_verdict` refer to the value that is computed as the published one was, and are the same where `recipe` is
    empty.

    Args:
        by_recipe: the results evaluated by recipe; by default those by definition.
        same_splits: whether the results are on the published splits.
    """
    by_recipe = results if by_recipe is None else by_recipe
    cells, columns = compute_cells(results), {column.name: column for column in COLUMNS}
    recipe_cells = compute_cells(by_recipe)
    noise, recipe_noise = (compute_noise(runs, same_splits=same_splits).to_dict() for runs in (results, by_recipe))
    recipes = by_recipe.groupby(BLOCK)["variant"].first().str.removeprefix(RECIPE_PREFIX)
    rows = []
    for published in load_published().to_dict("records"):
        place = (published["dataset"], published["model"], columns[published["column"]])
        ours, as_published = find_cell(cells, *place), find_cell(recipe_cells, *place)
        if ours is None or as_published is None:
            continue
        row = published | {"splits": ours.splits, "ours": ours.mean, "se": ours.se, "by_recipe": as_published.mean}
        row |= {"noise": find_cell(noise, *place), "recipe_noise": find_cell(recipe_noise, *place)}
        row |= {"recipe": recipes[tuple(published[key] for key in BLOCK)]}
        rows.append(_judge_row(row, with_notes=same_splits))
    table = pd.DataFrame(rows, columns=[*COLUMN_ORDER, "explanation"]).astype({"printed": bool})
    table = table.merge(load_public_code(), on=CELL, how="left")
    return table[[*COLUMN_ORDER, *PUBLIC_CODE, "explanation"]]


def _judge_row(row: Mapping[Any, Any], *, with_notes: bool) -> dict[Any, Any]:
    difference, recipe_difference = (round(row[key] - row["published"], 6) for key in ("ours", "by_recipe"))
    verdict, recipe_verdict = judge(difference, row["noise"]), judge(recipe_difference, row["recipe_noise"])
    note = find_note(row) if with_notes and recipe_verdict != WITHIN_NOISE else None
    return {
        **row,
        "difference": difference,
        "verdict": verdict,
        "recipe_difference": recipe_difference,
        "recipe_verdict": recipe_verdict,
        "explanation": "" if note is None else note.reason,
    }


def compare_with_public_code(results: pd.DataFrame) -> pd.DataFrame:
    """Return the values of the public code next to ours on the same splits: one row per split and metric.

    Both are means over initialisations, in percent.

    Args:
        results: runs on the published splits.
    """
    theirs = load_public_code_runs().groupby([*CELL, "split"], as_index=False)["public_code"].mean()
    metrics = [metric for metric in theirs["metric"].unique() if metric in results]
    keys = ["dataset", "model", "scenario", "split"]
    long = results.melt(id_vars=keys, value_vars=metrics, var_name="metric", value_name="ours").dropna()
    ours = 100 * long.groupby([*CELL, "split"])["ours"].mean()
    return theirs.merge(ours.reset_index(), on=[*CELL, "split"])


def format_audit(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table as it is written to CSV: values with two decimals, counts as whole numbers."""
    numbers = ["published", "ours", "se", "noise", "difference", "by_recipe", "recipe_noise", "recipe_difference"]
    decimals = dict.fromkeys([*numbers, "public_code", "public_code_2024_03"], 2)
    decimals |= {"public_code_runs": 0, "public_code_2024_03_runs": 0}
    texts = {
        column: table[column].map(lambda value, digits=digits: "" if pd.isna(value) else f"{value:.{digits}f}")
        for column, digits in decimals.items()
    }
    return table.assign(**texts, printed=table["printed"].astype(int))


def count_verdicts(table: pd.DataFrame, by: str) -> pd.DataFrame:
    """Return the number of cells for each value of a column, those within noise, and the median absolute difference.

    Cells within noise are counted by definition and by recipe; the difference is by recipe.
    """
    groups = table.groupby(by)
    return pd.DataFrame(
        {
            "cells": groups.size(),
            "by_definition": groups["verdict"].apply(lambda verdicts: (verdicts == WITHIN_NOISE).sum()),
            "by_recipe": groups["recipe_verdict"].apply(lambda verdicts: (verdicts == WITHIN_NOISE).sum()),
            "median": groups["recipe_difference"].apply(lambda difference: difference.abs().median()),
        }
    )
