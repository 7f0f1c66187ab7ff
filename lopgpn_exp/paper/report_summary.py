"""The short forms of the report: the summary in the terminal, and the generated part of the README."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from lopgpn_exp.errors import InputError
from lopgpn_exp.paper.audit import WITHIN_NOISE, count_verdicts
from lopgpn_exp.paper.claims.evidence import FAILS, HOLDS, PARTLY
from lopgpn_exp.paper.paper_report import PaperReport
from lopgpn_exp.report.console import Console, new_table, print_table
from lopgpn_exp.report.names import DATASET_NAMES, MODEL_NAMES

MARKERS = "<!-- audit -->", "<!-- /audit -->"


def print_report(report: PaperReport) -> None:
    """Print the verdicts by model, the claims, and what is missing."""
    console = Console()
    columns = ["model", "cells", "within noise by definition", "by recipe", "median difference by recipe"]
    table = new_table(columns, left=["model"], title="Printed cells of the paper's table")
    counts = count_verdicts(report.audit[report.audit["printed"]], "model").to_dict("index")
    for model, name in MODEL_NAMES.items():
        if model in counts:
            numbers = [f"{counts[model][column]:.0f}" for column in ("cells", "by_definition", "by_recipe")]
            table.add_row(name, *numbers, f"{counts[model]['median']:.2f}")
    console.print()
    print_table(table)
    console.print()
    for claim in report.claims:
        console.print(f"  {claim.verdict:14} {claim.name}", soft_wrap=True)
    datasets = set(report.runs.main["dataset"])
    if missing := [name for dataset, name in DATASET_NAMES.items() if dataset not in datasets]:
        console.print(f"\nLeft out, without finished runs: {', '.join(missing)}")
    console.print(f"\n{len(report.runs.main)} runs")


def format_headline(report: PaperReport) -> str:
    """Return the outcome of the audit in a few sentences."""
    printed = report.audit[report.audit["printed"]]
    within = {key: int((printed[key] == WITHIN_NOISE).sum()) for key in ("verdict", "recipe_verdict")}
    shares = {key: f"{count} ({100 * count / max(len(printed), 1):.1f} %)" for key, count in within.items()}
    splits = "the published splits" if report.runs.notes.has_published_splits else "random splits"
    headline = (
        f"Of {len(printed)} published values on {report.runs.main['dataset'].nunique()} datasets, we reproduce "
        f"{shares['verdict']} within noise by the paper's definitions, on {splits}"
    )
    has_recipes = bool((printed["recipe"] != "").any())
    headline += f", and {shares['recipe_verdict']} if each is computed as the published value was." * has_recipes
    headline += "." * (not has_recipes)
    if report.claims:
        claims = Counter(claim.verdict for claim in report.claims)
        headline += (
            f" Of the paper's {len(report.claims)} claims, {claims[HOLDS]} hold, {claims[PARTLY]} hold in part and "
            f"{claims[FAILS] or 'none'} fail."
        )
    return headline


def update_readme(path: Path, report: PaperReport) -> None:
    """Replace the generated part of a README."""
    path.write_text(replace_headline(path.read_text(), format_headline(report)))


def replace_headline(text: str, headline: str) -> str:
    """Return a README with the part between the markers replaced."""
    start, end = MARKERS
    pattern = rf"({re.escape(start)}\n).*?(\n{re.escape(end)})"
    text, count = re.subn(pattern, lambda match: f"{match[1]}{headline}{match[2]}", text, flags=re.S)
    if count != 1:
        raise InputError(
            f"the README has {count} places for the headline of the audit",
            expected=f"one {start} ... {end}, each marker on a line of its own",
        )
    return text
