"""The text of the audit: what agrees, what differs and why, and which claims of the paper hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import pandas as pd

from lopgpn_exp.paper.audit import (
    EXACT_POINTS,
    NOISE_POINTS,
    RULE,
    VERDICTS,
    WITHIN_NOISE,
    compare_with_public_code,
    count_verdicts,
)
from lopgpn_exp.paper.audit_appendix import METRICS, build_appendix, format_number
from lopgpn_exp.paper.cell_notes import CellNote, load_cell_notes
from lopgpn_exp.paper.claims import Claim
from lopgpn_exp.paper.noise import DETERMINISTIC
from lopgpn_exp.paper.published_page import build_recipe_table
from lopgpn_exp.paper.runs_file import StoredRuns
from lopgpn_exp.report.document import Block, Bullets, Heading, Paragraph, Picture, Table
from lopgpn_exp.report.names import DATASET_NAMES, MODEL_NAMES, SCENARIO_NAMES, metric_name

UNEXPLAINED, GUESS = "no", "a guess"
EXTENTS = {
    "yes": "explained by a tested cause",
    "in part": "explained in part",
    GUESS: "explained by a guess",
    UNEXPLAINED: "not explained",
}
NAMES = {"model": MODEL_NAMES, "scenario": SCENARIO_NAMES, "dataset": DATASET_NAMES}


def build_audit(
    runs: StoredRuns, table: pd.DataFrame, claims: Sequence[Claim], *, scatter_svg: str = ""
) -> Iterator[Block]:
    """Yield the whole audit.

    Args:
        table: one row per published value, from `audit_runs`.
    """
    yield Heading(1, "Audit: our results against the published table")
    yield from _build_summary(runs, table)
    yield from _build_claims(claims)
    yield Picture(
        "scatter.png",
        "Each printed cell: our value over the published one. Filled: computed as the published value was. Hollow: by "
        "definition, where that differs. The grey band is two points wide on each side.",
        scatter_svg,
    )
    yield from _build_agreement(table)
    yield from _build_recipes(table)
    yield from _build_rules(claims)
    yield from _build_differences(table)
    yield from _build_unprinted(table)
    yield from build_appendix(runs)


def _build_summary(runs: StoredRuns, table: pd.DataFrame) -> Iterator[Block]:
    printed = table[table["printed"]]
    if printed.empty:
        yield Paragraph("The paper has no value for any of these runs.")
        return
    splits, main = sorted(set(table["splits"])), runs.main
    num_splits = str(splits[0]) if len(splits) == 1 else f"{splits[0]} to {splits[-1]}"
    kind = "the published splits" if runs.notes.has_published_splits else "random splits"
    yield Paragraph(
        f"{len(main)} runs of {main['model'].nunique()} models on {main['dataset'].nunique()} datasets, with "
        f"{num_splits} splits per cell, on {kind}. Initialisations per split: {_count_inits(main)}. They are compared "
        f"with {len(printed)} published values: the cells of the paper's table and the clean accuracies (10 splits, 10 "
        "initialisations)."
        + (
            " Each value is judged twice: computed by its definition, and by the recipe with which the published value "
            "was computed (see below)."
            if (table["recipe"] != "").any()
            else ""
        )
    )
    yield from _build_left_out(runs)
    keys = ("verdict", "recipe_verdict")
    yield Table(
        ["verdict", "by definition", "by recipe"],
        [[verdict, *(_format_share(printed[key] == verdict) for key in keys)] for verdict in VERDICTS],
    )
    difference = printed["recipe_difference"]
    yield Paragraph(
        f"By recipe, the median absolute difference is {difference.abs().median():.2f} points and the mean difference "
        f"{difference.mean():+.2f}; by definition, {printed['difference'].abs().median():.2f} and "
        f"{printed['difference'].mean():+.2f}."
    )
    if runs.notes.has_published_splits:
        yield from _build_exact(printed)
        yield from _build_public_code(runs, printed)
    yield from _build_extents(printed)
    yield Paragraph(RULE)


def _format_share(matches: pd.Series) -> str:
    return f"{matches.sum()} ({100 * matches.mean():.1f} %)"


def _build_exact(printed: pd.DataFrame) -> Iterator[Block]:
    """Yield how many cells of models without randomness agree exactly, where no node is drawn either."""
    exact = printed[printed["model"].isin(DETERMINISTIC) & printed["scenario"].isin(["none", "leave_out_classes"])]
    if len(exact):
        counts = [
            f"{MODEL_NAMES[str(model)]} {(group['recipe_difference'].abs() <= EXACT_POINTS).sum()} of {len(group)}"
            for model, group in exact.groupby("model")
        ]
        yield Paragraph(
            "Models without randomness, on the clean graph and with left-out classes, agree to "
            f"{EXACT_POINTS:g} points in: {', '.join(counts)} cells."
        )


def _build_claims(claims: Sequence[Claim]) -> Iterator[Block]:
    if claims:
        yield Table(
            ["claim of the paper", "verdict", "evidence in our results"],
            [[claim.name, f"**{claim.verdict}**", claim.evidence] for claim in claims],
            numbers_from=9,
        )


def _build_public_code(runs: StoredRuns, table: pd.DataFrame) -> Iterator[Block]:
    """Yield how close the authors' own code comes, which limits what can be expected of ours."""
    pairs = compare_with_public_code(runs.main)
    cells = table[table["public_code"].notna()]
    if len(pairs):
        distance = (pairs["ours"] - pairs["public_code"]).abs()
        near = [(cells[key] - cells["published"]).abs() <= NOISE_POINTS for key in ("public_code", "by_recipe")]
        yield Paragraph(
            f"The newest public code was run on {len(cells)} of these cells, on one to ten splits each. Of its values, "
            f"{100 * near[0].mean():.0f} % are within {NOISE_POINTS:g} points of the published ones; of ours by "
            f"recipe, {100 * near[1].mean():.0f} %. On the same splits, its values and ours by definition have a "
            f"median distance of {distance.median():.2f} points ({len(pairs)} pairs)."
        )


def _build_extents(table: pd.DataFrame) -> Iterator[Block]:
    differing = table[table["recipe_verdict"] != WITHIN_NOISE]
    if len(differing):
        counts = _find_extents(differing).value_counts()
        parts = [f"{counts[extent]} {text}" for extent, text in EXTENTS.items() if extent in counts]
        yield Paragraph(f"The {len(differing)} cells that are not within noise by recipe: {', '.join(parts)}.")


def _find_extents(table: pd.DataFrame) -> pd.Series:
    """Return how much of the difference of each cell is explained: a key of `EXTENTS`."""
    extents = {note.reason: note.extent if note.tested else GUESS for note in load_cell_notes()}
    return table["explanation"].map(lambda reason: extents.get(reason, UNEXPLAINED))


def _count_inits(results: pd.DataFrame) -> str:
    """Return the number of initialisations per split by model, such as `1 (APPNP), 3 to 10 (LOP-GPN)`."""
    counts = results.groupby(["model", "dataset", "split", "scenario"])["init"].nunique().groupby("model")
    smallest, largest = counts.min().to_dict(), counts.max().to_dict()
    models: dict[str, list[str]] = {}
    for model, name in MODEL_NAMES.items():
        if model in smallest:
            least, most = smallest[model], largest[model]
            models.setdefault(str(least) if least == most else f"{least} to {most}", []).append(name)
    return ", ".join(f"{count} ({', '.join(names)})" for count, names in models.items())


def _build_left_out(runs: StoredRuns) -> Iterator[Block]:
    present, notes = set(runs.main["dataset"]), runs.notes.left_out
    lines = [
        f"**{name}**: {notes[dataset]}."
        if dataset in present
        else f"**{name} is left out**: {notes.get(dataset, 'there are no finished runs on it')}."
        for dataset, name in DATASET_NAMES.items()
        if dataset not in present or dataset in notes
    ]
    if lines:
        yield Bullets(lines)


def _build_agreement(table: pd.DataFrame) -> Iterator[Block]:
    printed = table[table["printed"]]
    yield Heading(2, "Agreement by model, scenario, dataset and measure")
    for key, names in NAMES.items():
        yield _build_counts(printed, key, list(names), names.__getitem__)
    yield _build_counts(printed, "metric", METRICS, metric_name)


def _build_counts(table: pd.DataFrame, key: str, order: Sequence[str], name: Callable[[str], str]) -> Table:
    counts = count_verdicts(table, key).to_dict("index")
    rows = [
        [
            name(value),
            *(f"{counts[value][column]:.0f}" for column in ("cells", "by_definition", "by_recipe")),
            format_number(counts[value]["median"]),
        ]
        for value in order
        if value in counts
    ]
    heading = "measure" if key == "metric" else key
    return Table(
        [heading, "cells", "within noise by definition", "within noise by recipe", "median difference by recipe"], rows
    )


def _build_recipes(table: pd.DataFrame) -> Iterator[Block]:
    if (table["recipe"] == "").all():
        return
    yield Heading(2, "Recipes: how published values were computed")
    yield Paragraph(
        "Where the published values of a model and scenario were not computed by the definitions, a recipe says how. "
        "All other blocks are by definition. No recipe has a parameter that was fitted to a published value."
    )
    yield build_recipe_table(table[table["printed"]])


def _build_rules(claims: Sequence[Claim]) -> Iterator[Block]:
    if claims:
        yield Heading(2, "How the claims were judged")
        yield Table(
            ["claim", "paper", "rule", "verdict"],
            [[c.name, f"“{c.quote}” ({c.section})", c.rule, f"**{c.verdict}**"] for c in claims],
            numbers_from=9,
        )


def _build_differences(table: pd.DataFrame) -> Iterator[Block]:
    yield Heading(2, "Printed cells that differ by recipe, and why")
    cells = table[table["printed"] & (table["recipe_verdict"] != WITHIN_NOISE)]
    if cells.empty:
        yield Paragraph("None.")
        return
    notes = [note for note in load_cell_notes() if note.reason in set(cells["explanation"])]
    if notes:
        yield Bullets([_format_note(n) if n.tested else f"{_format_note(n)} **A guess, not tested.**" for n in notes])
    num_unexplained = (_find_extents(cells) == UNEXPLAINED).sum()
    yield Paragraph(f"{num_unexplained} of these {len(cells)} cells have no explanation; the last column shows which.")
    head = ["dataset", "model", "scenario", "measure", "by definition", "by recipe", "noise", "published", "difference"]
    rows = cells.reindex(cells["recipe_difference"].abs().sort_values(ascending=False, kind="stable").index)
    extents = _find_extents(rows)
    yield Table(
        [*head, "public code", "verdict", "explained"],
        [
            [
                DATASET_NAMES[row["dataset"]],
                MODEL_NAMES[row["model"]],
                SCENARIO_NAMES[row["scenario"]],
                metric_name(row["metric"]),
                f"{row['ours']:.1f}",
                f"{row['by_recipe']:.1f}",
                format_number(row["recipe_noise"], 1),
                f"{row['published']:.1f}",
                f"{row['recipe_difference']:+.1f}",
                "" if pd.isna(row["public_code"]) else f"{row['public_code']:.1f} ({row['public_code_runs']:.0f})",
                row["recipe_verdict"],
                extent,
            ]
            for row, extent in zip(rows.to_dict("records"), extents, strict=True)
        ],
        numbers_from=4,
    )
    yield Paragraph("Public code: the mean of its newest version, with the number of runs in parentheses.")


def _build_unprinted(table: pd.DataFrame) -> Iterator[Block]:
    unprinted = table[~table["printed"]]
    if len(unprinted):
        yield Heading(2, "Columns that the paper does not print")
        yield Paragraph(
            "OOD accuracy, the AUC-ROC of LConf (twice in the published file) and the changes of the mean uncertainty; "
            "`audit.csv` contains all of them. Changes are ratios of means and vary by tens of points between splits."
        )
        yield _build_counts(unprinted, "metric", list(dict.fromkeys(unprinted["metric"])), metric_name)


def _format_note(note: CellNote) -> str:
    return f"{_format_cells(note.cells)}: {note.reason}" + (f" Tested: {note.tested}" if note.tested else "")


def _format_cells(cells: Mapping[str, Sequence[str]]) -> str:
    parts = [
        ", ".join(metric_name(value) if key == "metric" else NAMES[key][value] for value in values)
        for key, values in cells.items()
    ]
    return f"**{'; '.join(parts)}**"
