"""The audit as a text: what agrees, what does not, which claims hold, which choices the numbers rest on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pandas as pd

from lopgpn_exp.report.appendix import appendix, number
from lopgpn_exp.report.audit import NOISE_POINTS, RULE, VERDICTS, beside_public_code, combined_noise, counts
from lopgpn_exp.report.claims import Claim
from lopgpn_exp.report.document import Block, Bullets, Heading, Paragraph, Picture, Table
from lopgpn_exp.report.known import Entry, known
from lopgpn_exp.report.names import DATASET_NAMES, MODEL_NAMES, SCENARIO_NAMES, metric_name
from lopgpn_exp.report.store import Runs
from lopgpn_exp.report.variants import SHOWN

NOT, GUESS = "no", "a guess"
EXTENTS = {
    "yes": "explained by something that was tested",
    "in part": "explained in part",
    GUESS: "with a guess",
    NOT: "without an explanation",
}
GROUPS = {"model": MODEL_NAMES, "scenario": SCENARIO_NAMES, "dataset": DATASET_NAMES}


def audit_text(runs: Runs, table: pd.DataFrame, claims: list[Claim], scatter_svg: str) -> list[Block]:
    return [
        Heading(1, "Audit: ours against the published table"),
        *summary(runs, table, claims),
        Picture(
            "scatter.png",
            "Each printed cell: ours over theirs. The grey band is two points wide on each side.",
            scatter_svg,
        ),
        *_by_group(table),
        *_claims(claims),
        *_outside(table),
        *_differences(table),
        *_unprinted(table),
        *appendix(runs),
    ]


def summary(runs: Runs, table: pd.DataFrame, claims: list[Claim]) -> Iterator[Block]:
    """What a reader with one minute gets: how much agrees, and which claims hold."""
    printed = table[table["printed"]]
    if printed.empty:
        yield Paragraph("The paper has no value for any of these runs.")
        return
    found = printed["verdict"].value_counts().reindex(list(VERDICTS), fill_value=0)
    comparable = printed[printed["verdict"] != VERDICTS[3]]
    splits = sorted(set(table["splits"]))
    shown = str(splits[0]) if len(splits) == 1 else f"{splits[0]} to {splits[-1]}"
    yield Paragraph(
        f"{len(runs.main)} runs of {runs.main['model'].nunique()} models on {runs.main['dataset'].nunique()} datasets, "
        f"{shown} splits a cell, initialisations a split: {_initialisations(runs.main)}. Against {len(printed)} cells "
        "of the paper's table and clean accuracies (10 splits, 10 initialisations)."
    )
    yield from left_out(runs)
    yield Table(
        ["verdict", "cells", "share"],
        [[name, str(found[name]), f"{100 * found[name] / len(printed):.0f} %"] for name in VERDICTS],
    )
    if len(comparable):
        yield Paragraph(
            f"Of the {len(comparable)} cells that the public code gives no reason to doubt, "
            f"{100 * (comparable['verdict'] == VERDICTS[0]).mean():.0f} % are within noise; the median absolute "
            f"difference is {comparable['difference'].abs().median():.2f} points, the mean difference "
            f"{comparable['difference'].mean():+.2f}. The published means come from ten splits of their own: if they "
            "are as uncertain as ours, a difference is sqrt(2) times as uncertain, and "
            f"{100 * combined_noise(comparable).mean():.0f} % are within noise."
        )
        yield from _beside_public_code(runs, comparable)
        yield from _how_far_explained(comparable)
    yield Paragraph(RULE)
    if claims:
        yield Table(
            ["claim of the paper", "", "evidence in our results"],
            [[c.name, f"**{c.verdict}**", c.evidence] for c in claims],
            9,
        )


def _beside_public_code(runs: Runs, table: pd.DataFrame) -> Iterator[Block]:
    """How near the authors' own code comes: what more than that can be asked of anyone."""
    shares = beside_public_code(runs.main, table)
    if len(shares):
        share = 100 * shares.astype(float).mean()
        yield Paragraph(
            f"The public code itself was run on {len(shares)} of these cells, on 1 or 2 splits each: within "
            f"{NOISE_POINTS:g} points of the published value are {share['theirs']:.0f} % of its values, "
            f"{share['alike']:.0f} % of ours on as few splits, and {share['ours']:.0f} % of ours on all."
        )


def _how_far_explained(table: pd.DataFrame) -> Iterator[Block]:
    apart = table[table["verdict"] != VERDICTS[0]]
    if len(apart):
        found = _extents(apart).value_counts()
        parts = [f"{found.get(extent, 0)} {words}" for extent, words in EXTENTS.items() if found.get(extent, 0)]
        yield Paragraph(f"Of the {len(apart)} that are not: {', '.join(parts)}.")


def _extents(table: pd.DataFrame) -> pd.Series:
    """Of each cell, how far what is known explains its difference: a key of `EXTENTS`."""
    known_of = {entry.why: entry.extent if entry.tested else GUESS for entry in known()["explanations"]}
    return table["explanation"].map(lambda why: known_of.get(why, NOT))


def _initialisations(results: pd.DataFrame) -> str:
    """Such as `1 (APPNP), 3 to 10 (LOP-GPN)`: how many a split, by model."""
    counts = results.groupby(["model", "dataset", "split", "scenario"])["init"].nunique()
    models: dict[str, list[str]] = {}
    for model in [m for m in MODEL_NAMES if m in counts.index.get_level_values("model")]:
        least, most = counts[model].min(), counts[model].max()
        models.setdefault(str(least) if least == most else f"{least} to {most}", []).append(MODEL_NAMES[model])
    return ", ".join(f"{number} ({', '.join(names)})" for number, names in models.items())


def left_out(runs: Runs) -> Iterator[Block]:
    """A dataset that is not here is named, never dropped in silence."""
    missing = [name for name in DATASET_NAMES if name not in set(runs.main["dataset"])]
    reasons = {name: runs.notes.get("left_out", {}).get(name, "there are no finished runs on it") for name in missing}
    if missing:
        yield Bullets([f"**{DATASET_NAMES[name]} is left out**: {reasons[name]}." for name in missing])


def _by_group(table: pd.DataFrame) -> Iterator[Block]:
    printed = table[table["printed"]]
    yield Heading(2, "Where it agrees")
    for by, names in GROUPS.items():
        yield _counted(counts(printed, by), by, [n for n in names if (printed[by] == n).any()], names.__getitem__)
    order = [metric for metric in SHOWN if (printed["metric"] == metric).any()]
    yield _counted(counts(printed, "metric"), "measure", order, metric_name)


def _counted(found: pd.DataFrame, by: str, order: list[str], name: Callable[[str], str]) -> Table:
    rows = [[name(key), *(str(found.loc[key, v]) for v in VERDICTS), number(found.loc[key, "median"])] for key in order]
    return Table([by, *VERDICTS, "median difference"], rows)


def _claims(claims: list[Claim]) -> Iterator[Block]:
    if claims:
        yield Heading(2, "How the claims were decided")
        yield Table(
            ["claim", "paper", "rule", "outcome"],
            [[c.name, f"“{c.words}” ({c.where})", c.rule, f"**{c.verdict}**"] for c in claims],
            9,
        )


def _outside(table: pd.DataFrame) -> Iterator[Block]:
    yield Heading(2, "Cells that the public code does not give either")
    yield Bullets([_reason(entry) for entry in known()["not_from_public_code"]])
    both = table[(table["verdict"] == VERDICTS[3]) & table["public_code"].notna() & table["printed"]]
    if len(both):
        near = (both["ours"] - both["public_code"]).abs()
        yield Paragraph(
            f"Where the public code was run on such a cell ({len(both)} printed ones, 1 or 2 splits each), ours is "
            f"{near.median():.1f} points from it (median), and {both['difference'].abs().median():.1f} from the paper."
        )


def _differences(table: pd.DataFrame) -> Iterator[Block]:
    yield Heading(2, "Printed cells that differ, and why")
    apart = table[table["printed"] & table["verdict"].isin([VERDICTS[1], VERDICTS[2]])]
    if apart.empty:
        yield Paragraph("None.")
        return
    used = [entry for entry in known()["explanations"] if entry.why in set(apart["explanation"])]
    if used:
        yield Bullets([_reason(e) if e.tested else f"{_reason(e)} **A guess, not tested.**" for e in used])
    unexplained = (_extents(apart) == NOT).sum()
    yield Paragraph(f"For {unexplained} of these {len(apart)} cells we have no explanation; the last column says so.")
    rows = apart.reindex(apart["difference"].abs().sort_values(ascending=False, kind="stable").index)
    yield Table(
        [
            "dataset",
            "model",
            "scenario",
            "measure",
            "ours",
            "published",
            "difference",
            "public code",
            "verdict",
            "explained",
        ],
        [
            [
                DATASET_NAMES[row.dataset],
                MODEL_NAMES[row.model],
                SCENARIO_NAMES[row.scenario],
                metric_name(row.metric),
                _with_error(row.ours, row.se),
                f"{row.published:.1f}",
                f"{row.difference:+.1f}",
                "" if pd.isna(row.public_code) else f"{row.public_code:.1f} ({row.public_code_splits:.0f})",
                row.verdict,
                extent,
            ]
            for row, extent in zip(rows.itertuples(), _extents(rows), strict=True)
        ],
        4,
    )
    yield Paragraph("Public code: its own value where it was run, with the number of splits.")


def _unprinted(table: pd.DataFrame) -> Iterator[Block]:
    """Columns of the published file that the paper does not print."""
    rest = table[~table["printed"]]
    if len(rest):
        yield Heading(2, "Columns that the paper does not print")
        yield Paragraph(
            "OOD accuracy, AUC-ROC of LConf (twice in the file), changes of the mean uncertainty: all in `audit.csv`. "
            "Changes are ratios of means and vary by tens of points from split to split."
        )
        yield _counted(counts(rest, "metric"), "measure", list(dict.fromkeys(rest["metric"])), metric_name)


def _reason(entry: Entry) -> str:
    return f"{_cells(entry.cells)}: {entry.why}" + (f" Tested: {entry.tested}" if entry.tested else "")


def _cells(cells: Mapping[str, tuple[str, ...]]) -> str:
    names = {"model": MODEL_NAMES, "dataset": DATASET_NAMES, "scenario": SCENARIO_NAMES}
    parts = []
    for key, values in cells.items():
        parts.append(", ".join(metric_name(v) if key == "metric" else names[key][v] for v in values))
    return "**" + "; ".join(parts) + "**"


def _with_error(mean: float, error: float) -> str:
    return f"{mean:.1f}" if pd.isna(error) else f"{mean:.1f} ± {error:.1f}"
