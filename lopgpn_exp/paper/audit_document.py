"""The text of the audit: what agrees, what differs and why, and which claims of the paper hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import pandas as pd

from lopgpn_exp.paper.audit import (
    CLOSE,
    DIFFERENT,
    NOISE_POINTS,
    NOT_FROM_PUBLIC_CODE,
    RULE,
    VERDICTS,
    WITHIN_NOISE,
    compare_with_public_code,
    count_verdicts,
    is_within_combined_noise,
)
from lopgpn_exp.paper.audit_appendix import METRICS, build_appendix, format_number
from lopgpn_exp.paper.cell_notes import CellNote, load_cell_notes
from lopgpn_exp.paper.claims import Claim
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
        table: one row per published value, from `audit_results`.
    """
    yield Heading(1, "Audit: our results against the published table")
    yield from _build_summary(runs, table)
    yield from _build_claims(claims)
    yield Picture(
        "scatter.png",
        "Each printed cell: our value over the published one. The grey band is two points wide on each side.",
        scatter_svg,
    )
    yield from _build_agreement(table)
    yield from _build_rules(claims)
    yield from _build_contradicted(table)
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
    yield Paragraph(
        f"{len(main)} runs of {main['model'].nunique()} models on {main['dataset'].nunique()} datasets, with "
        f"{num_splits} splits per cell. Initialisations per split: {_count_inits(main)}. They are compared with "
        f"{len(printed)} published values: the cells of the paper's table and the clean accuracies (10 splits, 10 "
        "initialisations)."
    )
    yield from _build_left_out(runs)
    counts = printed["verdict"].value_counts().reindex(list(VERDICTS), fill_value=0)
    yield Table(
        ["verdict", "cells", "share"],
        [[verdict, str(counts[verdict]), f"{100 * counts[verdict] / len(printed):.0f} %"] for verdict in VERDICTS],
    )
    comparable = printed[printed["verdict"] != NOT_FROM_PUBLIC_CODE]
    if len(comparable):
        yield Paragraph(
            f"The public code gives no reason to doubt {len(comparable)} of these cells. Of those, "
            f"{100 * (comparable['verdict'] == WITHIN_NOISE).mean():.0f} % are within noise. The median absolute "
            f"difference is {comparable['difference'].abs().median():.2f} points, the mean difference "
            f"{comparable['difference'].mean():+.2f}. The published means come from ten splits, too: if they are as "
            "uncertain as ours, the standard error of a difference is sqrt(2) times larger, and "
            f"{100 * is_within_combined_noise(comparable).mean():.0f} % are within noise."
        )
        yield from _build_public_code(runs, comparable)
        yield from _build_extents(comparable)
    yield Paragraph(RULE)


def _build_claims(claims: Sequence[Claim]) -> Iterator[Block]:
    if claims:
        yield Table(
            ["claim of the paper", "verdict", "evidence in our results"],
            [[claim.name, f"**{claim.verdict}**", claim.evidence] for claim in claims],
            numbers_from=9,
        )


def _build_public_code(runs: StoredRuns, table: pd.DataFrame) -> Iterator[Block]:
    """Yield how close the authors' own code comes, which limits what can be expected of ours."""
    is_near = compare_with_public_code(runs.main, table)
    if len(is_near):
        share = 100 * is_near.astype(float).mean()
        yield Paragraph(
            f"We ran the public code itself on {len(is_near)} of these cells, on 1 or 2 splits each. Of its values, "
            f"{share['public_code']:.0f} % are within {NOISE_POINTS:g} points of the published value; of ours, "
            f"{share['ours_few_splits']:.0f} % on equally few splits and {share['ours']:.0f} % on all splits."
        )


def _build_extents(table: pd.DataFrame) -> Iterator[Block]:
    differing = table[table["verdict"] != WITHIN_NOISE]
    if len(differing):
        counts = _find_extents(differing).value_counts()
        parts = [f"{counts[extent]} {text}" for extent, text in EXTENTS.items() if extent in counts]
        yield Paragraph(f"The {len(differing)} cells that are not within noise: {', '.join(parts)}.")


def _find_extents(table: pd.DataFrame) -> pd.Series:
    """Return how much of the difference of each cell is explained: a key of `EXTENTS`."""
    extents = {note.reason: note.extent if note.tested else GUESS for note in load_cell_notes()["explanations"]}
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
    missing = [dataset for dataset in DATASET_NAMES if dataset not in set(runs.main["dataset"])]
    if missing:
        reasons = {dataset: runs.notes.left_out.get(dataset, "there are no finished runs on it") for dataset in missing}
        yield Bullets([f"**{DATASET_NAMES[name]} is left out**: {reason}." for name, reason in reasons.items()])


def _build_agreement(table: pd.DataFrame) -> Iterator[Block]:
    printed = table[table["printed"]]
    yield Heading(2, "Agreement by model, scenario, dataset and measure")
    for key, names in NAMES.items():
        yield _build_counts(printed, key, list(names), names.__getitem__)
    yield _build_counts(printed, "metric", METRICS, metric_name)


def _build_counts(table: pd.DataFrame, key: str, order: Sequence[str], name: Callable[[str], str]) -> Table:
    counts = count_verdicts(table, key).to_dict("index")
    rows = [
        [name(value), *(str(counts[value][verdict]) for verdict in VERDICTS), format_number(counts[value]["median"])]
        for value in order
        if value in counts
    ]
    return Table(["measure" if key == "metric" else key, *VERDICTS, "median difference"], rows)


def _build_rules(claims: Sequence[Claim]) -> Iterator[Block]:
    if claims:
        yield Heading(2, "How the claims were judged")
        yield Table(
            ["claim", "paper", "rule", "verdict"],
            [[c.name, f"“{c.quote}” ({c.section})", c.rule, f"**{c.verdict}**"] for c in claims],
            numbers_from=9,
        )


def _build_contradicted(table: pd.DataFrame) -> Iterator[Block]:
    yield Heading(2, "Cells that the public code does not reproduce either")
    yield Bullets([_format_note(note) for note in load_cell_notes()["not_from_public_code"]])
    cells = table[(table["verdict"] == NOT_FROM_PUBLIC_CODE) & table["public_code"].notna() & table["printed"]]
    if len(cells):
        distance = (cells["ours"] - cells["public_code"]).abs()
        yield Paragraph(
            f"The public code was run on {len(cells)} of these printed cells, on 1 or 2 splits each. The median "
            f"distance of our value is {distance.median():.1f} points from the value of the public code, and "
            f"{cells['difference'].abs().median():.1f} points from the published one."
        )


def _build_differences(table: pd.DataFrame) -> Iterator[Block]:
    yield Heading(2, "Printed cells that differ, and why")
    cells = table[table["printed"] & table["verdict"].isin([CLOSE, DIFFERENT])]
    if cells.empty:
        yield Paragraph("None.")
        return
    notes = [note for note in load_cell_notes()["explanations"] if note.reason in set(cells["explanation"])]
    if notes:
        yield Bullets([_format_note(n) if n.tested else f"{_format_note(n)} **A guess, not tested.**" for n in notes])
    num_unexplained = (_find_extents(cells) == UNEXPLAINED).sum()
    yield Paragraph(f"{num_unexplained} of these {len(cells)} cells have no explanation; the last column shows which.")
    columns = ["dataset", "model", "scenario", "measure", "ours", "published", "difference", "public code", "verdict"]
    rows = cells.reindex(cells["difference"].abs().sort_values(ascending=False, kind="stable").index)
    extents = _find_extents(rows)
    yield Table(
        [*columns, "explained"],
        [
            [
                DATASET_NAMES[row["dataset"]],
                MODEL_NAMES[row["model"]],
                SCENARIO_NAMES[row["scenario"]],
                metric_name(row["metric"]),
                f"{row['ours']:.1f}" if pd.isna(row["se"]) else f"{row['ours']:.1f} ± {row['se']:.1f}",
                f"{row['published']:.1f}",
                f"{row['difference']:+.1f}",
                "" if pd.isna(row["public_code"]) else f"{row['public_code']:.1f} ({row['public_code_splits']:.0f})",
                row["verdict"],
                extent,
            ]
            for row, extent in zip(rows.to_dict("records"), extents, strict=True)
        ],
        numbers_from=4,
    )
    yield Paragraph("Public code: its own value where we ran it, with the number of splits in parentheses.")


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
