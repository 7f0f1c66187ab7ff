"""The audit's second half: the choices that the numbers rest on, other readings, tests of scale, and the cost."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

import pandas as pd
import yaml

from lopgpn_exp.report.costs import costs
from lopgpn_exp.report.document import Block, Heading, Paragraph, Table
from lopgpn_exp.report.names import DATASET_NAMES, MODEL_NAMES, NO_VALUE, SCENARIO_NAMES, metric_name
from lopgpn_exp.report.store import Runs
from lopgpn_exp.report.variants import SHOWN, alternatives, scale


def appendix(runs: Runs) -> Iterator[Block]:
    yield from _defaults()
    yield from _alternatives(runs)
    yield from _scale(runs)
    yield from _costs(runs)


def _defaults() -> Iterator[Block]:
    with files(__package__).joinpath("defaults.yaml").open() as file:
        entries = yaml.safe_load(file)
    yield Heading(2, "The choices that these numbers rest on")
    yield Table(
        ["what", "here", "other reading", "option", "why"],
        [
            [e["what"], e["here"], e["other"] or NO_VALUE, f"`{e['option']}`" if e["option"] else NO_VALUE, e["why"]]
            for e in entries
        ],
        9,
    )


def _alternatives(runs: Runs) -> Iterator[Block]:
    table = alternatives(runs.results, list(DATASET_NAMES))
    if len(table):
        yield Heading(2, "Other readings, measured")
        yield Paragraph("Default, then the paired difference (other reading minus default) with its standard error.")
        yield Table(
            ["variant", "model", "dataset", "scenario", "splits", *map(metric_name, SHOWN)],
            [
                [f"`{row['variant']}`", MODEL_NAMES[row["model"]], DATASET_NAMES[row["dataset"]]]
                + [SCENARIO_NAMES.get(row["scenario"], row["scenario"]), str(row["splits"])]
                + [NO_VALUE if pd.isna(row[m]) else row[m] for m in SHOWN]
                for row in table.to_dict("records")
            ],
            4,
        )


def _scale(runs: Runs) -> Iterator[Block]:
    tables = scale(runs.results)
    if tables:
        yield Heading(2, "At the size of OGBN Arxiv: a synthetic graph")
        yield Paragraph(
            "These runs show that nothing breaks at this size. They are no results on OGBN Arxiv and enter no table "
            "above. Seconds are on the clock, with other jobs beside: a run alone takes a fraction (README, Speed)."
        )
    for variant, table in tables.items():
        shown = [m for m in SHOWN if m in table]
        yield Paragraph(f"`{variant}`")
        if missing := [name for model, name in MODEL_NAMES.items() if model not in set(table["model"])]:
            yield Paragraph(f"Left out, for want of a finished run: {', '.join(missing)}.")
        yield Table(
            ["model", "scenario", "runs", "training", "memory", *map(metric_name, shown)],
            [
                [
                    MODEL_NAMES[row["model"]] + (f" (`{row['settings']}`)" if row["settings"] else ""),
                    SCENARIO_NAMES.get(row["scenario"], row["scenario"]),
                    str(row["runs"]),
                    f"{row['train']:.0f} s",
                    f"{row['mb'] / 1000:.1f} GB",
                    *(number(row[m], 1) for m in shown),
                ]
                for row in table.to_dict("records")
            ],
            2,
        )


def _costs(runs: Runs) -> Iterator[Block]:
    table = costs(runs.main)
    rows = [
        [
            MODEL_NAMES[model],
            f"{row.runs:.0f}",
            f"{row.trainings:.0f}",
            f"{row.train_hours:.2f} h",
            f"{row.other_hours:.2f} h",
            f"{row.mean_epochs:.0f}",
            f"{row.peak_mb / 1000:.1f} GB",
        ]
        for model in MODEL_NAMES
        if model in table.index
        for row in [table.loc[model]]
    ]
    total = table[["runs", "trainings", "train_hours", "other_hours"]].sum()
    sums = [f"{total.runs:.0f}", f"{total.trainings:.0f}", f"{total.train_hours:.2f} h", f"{total.other_hours:.2f} h"]
    yield Heading(2, "What all runs took")
    yield Paragraph(
        "Seconds of single processes added up; runs went several at once. The feature scenarios train nothing."
    )
    yield Table(
        ["model", "runs", "trainings", "training", "loading and evaluating", "mean epochs", "largest memory"],
        [*rows, ["all", *sums, "", ""]],
    )
    alone = costs(runs.main[runs.main["init"] == 0])
    hours = float((alone["train_hours"] + alone["other_hours"]).sum())
    yield Paragraph(
        f"Initialisation 0 alone, which is what `make reproduce-tables` runs by itself, is {alone['runs'].sum():.0f} "
        f"of these runs and {hours:.2f} h of single processes added up: at least {hours / 2:.1f} h on two cores."
    )
    stretches = runs.notes.get("stretches", [])
    if stretches:
        hours = sum(stretch["seconds"] for stretch in stretches) / 3600
        done = sum(stretch["runs"] for stretch in stretches)
        times = "once" if len(stretches) == 1 else f"{len(stretches)} times, each going on where the last one stopped"
        yield Paragraph(
            f"`make reproduce-tables` took {hours:.2f} h on the clock for {done} of these runs; started {times}."
        )


def number(value: float, digits: int = 2) -> str:
    return NO_VALUE if pd.isna(value) else f"{value:.{digits}f}"
