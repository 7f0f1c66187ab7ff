"""The audit's second half: the choices that the numbers rest on, other readings, tests of scale, and the cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

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
    first = costs(runs.main[runs.main["init"] == 0]).reindex(table.index)
    table["first_hours"] = (first["train_hours"] + first["other_hours"]).fillna(0.0)
    total = table[["runs", "trainings", "train_hours", "other_hours", "first_hours"]].sum()
    rows = [
        [*_cost(MODEL_NAMES[model], row, total), f"{row.mean_epochs:.0f}", f"{row.peak_mb / 1000:.1f} GB"]
        for model in MODEL_NAMES
        if model in table.index
        for row in [table.loc[model]]
    ]
    yield Heading(2, "What all runs took")
    yield Paragraph(
        "Seconds of single processes added up; runs went several at once. The feature scenarios train nothing. One "
        "initialisation is what `make reproduce-tables` runs by itself."
    )
    head = ["model", "runs", "trainings", "training", "loading and evaluating", "one initialisation"]
    yield Table([*head, "mean epochs", "largest memory"], [*rows, [*_cost("all", total, total), "", ""]])
    yield from _on_the_clock(runs.notes.get("stretches", []), whole=int((runs.main["init"] == 0).sum()))
    yield from _made_twice(runs.notes.get("repeats", []))


def _cost(name: str, row: pd.Series, total: pd.Series) -> list[str]:
    share = 100 * row.first_hours / total.first_hours if total.first_hours else 0
    hours = [f"{row.train_hours:.2f} h", f"{row.other_hours:.2f} h", f"{row.first_hours:.2f} h ({share:.0f} %)"]
    return [name, f"{row.runs:.0f}", f"{row.trainings:.0f}", *hours]


def _on_the_clock(stretches: Sequence[Mapping[str, Any]], *, whole: int) -> Iterator[Block]:
    """All `whole` runs of one initialisation without a break, if they were made so, and all stretches together."""
    for each in stretches:
        if each["runs"] == each.get("of") == whole:
            yield Paragraph(
                f"One initialisation of everything in one go, JOBS={each['jobs']} on {each['cores']} cores: "
                f"{_hours([each])} on the clock for {whole} runs."
            )
    if stretches:
        done, times = sum(each["runs"] for each in stretches), len(stretches)
        yield Paragraph(
            f"All in all `make reproduce-tables` took {_hours(stretches)} on the clock for {done} runs, counting those "
            f"made again; started {times} time{'s' * (times > 1)}."
        )


def _hours(stretches: Sequence[Mapping[str, Any]]) -> str:
    return f"{sum(each['seconds'] for each in stretches) / 3600:.2f} h"


def _made_twice(repeats: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    if repeats:
        yield Heading(2, "The same runs, made again")
    for each in repeats:
        apart = "."
        if each["same"] < each["runs"]:
            splits = ", ".join(map(str, each["splits"]))
            apart = f"; in the others (splits {splits}) those of the tables do by up to {each['largest']:.1f} points."
        yield Paragraph(
            f"{each['runs']} of these runs were made a second time. In {each['same']} of them no metric differs by a "
            f"bit{apart} Another processor rounds otherwise, and training carries that on."
        )


def number(value: float, digits: int = 2) -> str:
    return NO_VALUE if pd.isna(value) else f"{value:.{digits}f}"
