"""The appendix of the audit: the choices behind the numbers, alternative readings, tests of scale, and the costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any, cast

import pandas as pd
import yaml

from lopgpn_exp.evaluation.costs import summarise_costs
from lopgpn_exp.paper.published import MEASURES
from lopgpn_exp.paper.reproduction_notes import Repeat, Session
from lopgpn_exp.paper.runs_file import RECIPE_PREFIX, StoredRuns
from lopgpn_exp.paper.table1 import compute_percent_means
from lopgpn_exp.report.document import Block, Heading, Paragraph, Table
from lopgpn_exp.report.names import DATASET_NAMES, MODEL_NAMES, NO_VALUE, metric_name, scenario_name

METRICS = ("test/accuracy", "id/accuracy", *(f"ood/auroc/{measure}" for measure in MEASURES))
GROUP = ["variant", "model", "dataset", "scenario"]


def build_appendix(runs: StoredRuns) -> Iterator[Block]:
    yield from _build_choices()
    yield from _build_variants(runs)
    yield from _build_scale(runs)
    yield from _build_costs(runs)


def compare_variants(results: pd.DataFrame, datasets: Sequence[str]) -> pd.DataFrame:
    """Compare each variant on the paper's datasets with the default: mean paired differences in points.

    Runs are paired by split and initialisation, whose seed they share; the pairs of a split are averaged first. One row
    per variant, model, dataset and scenario; cells read `default, difference ± standard error`.
    """
    is_recipe = results["variant"].str.startswith(RECIPE_PREFIX)
    chosen = results[results["dataset"].isin(datasets) & ~is_recipe]
    metrics = [metric for metric in METRICS if metric in chosen]
    runs = chosen.set_index([*GROUP, "split", "init"]).sort_index()[metrics] * 100
    rows = []
    for keys, group in runs[runs.index.get_level_values("variant") != ""].groupby(GROUP):
        try:
            default = runs.xs(("", *keys[1:]))
        except KeyError:
            continue
        pairs = (group.droplevel([*GROUP]) - default).dropna(how="all")
        if len(pairs):
            difference, reference = (runs.groupby("split").mean() for runs in (pairs, default.loc[pairs.index]))
            row = dict(zip(GROUP, keys, strict=True)) | {"splits": len(difference)}
            rows.append(row | {m: _format_difference(reference[m], difference[m]) for m in metrics})
    return pd.DataFrame(rows, columns=[*GROUP, "splits", *METRICS])


def summarise_scale_runs(results: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return means and costs of the runs on synthetic graphs, by graph and training.

    Overrides of a single model (`model.*`) are in the column `settings`.
    """
    runs = results[results["dataset"] == "synthetic"]
    overrides = runs["variant"].str.split()
    runs = runs.assign(
        shared=[" ".join(word for word in words if not word.startswith("model.")) for words in overrides],
        settings=[" ".join(word for word in words if word.startswith("model.")) for words in overrides],
    )
    tables, keys = {}, ["dataset", "model", "scenario"]
    for shared, group in runs.groupby("shared"):
        means = compute_percent_means(group)["mean"].unstack("metric").reset_index()
        costs = group.groupby(keys).agg(
            runs=("run_id", "count"),
            seconds=("seconds/train", "mean"),
            peak_mb=("peak_rss_mb", "max"),
            settings=("settings", "first"),
        )
        tables[str(shared)] = means.merge(costs.reset_index(), on=keys)
    return tables


def format_number(value: float, digits: int = 2) -> str:
    return NO_VALUE if pd.isna(value) else f"{value:.{digits}f}"


def _format_difference(default: pd.Series, difference: pd.Series) -> str:
    if difference.isna().all():
        return NO_VALUE
    error = f" ± {cast(float, difference.sem()):.1f}" if len(difference) > 1 else ""
    return f"{default.mean():.1f}, {difference.mean():+.1f}{error}"


def _build_choices() -> Iterator[Block]:
    with files(__package__).joinpath("choices.yaml").open() as file:
        choices = yaml.safe_load(file)
    yield Heading(2, "The choices behind these numbers")
    yield Table(
        ["choice", "here", "alternative", "option", "reason"],
        [
            [
                choice["choice"],
                choice["here"],
                choice["alternative"] or NO_VALUE,
                f"`{choice['option']}`" if choice["option"] else NO_VALUE,
                choice["reason"],
            ]
            for choice in choices
        ],
        numbers_from=9,
    )


def _build_variants(runs: StoredRuns) -> Iterator[Block]:
    table = compare_variants(runs.results, list(DATASET_NAMES))
    if len(table):
        yield Heading(2, "Alternative readings, measured")
        yield Paragraph(
            "Each cell shows the default, then the mean paired difference (alternative minus default) with its "
            "standard error."
        )
        yield Table(
            ["variant", "model", "dataset", "scenario", "splits", *map(metric_name, METRICS)],
            [
                [f"`{row['variant']}`", MODEL_NAMES[row["model"]], DATASET_NAMES[row["dataset"]]]
                + [scenario_name(row["scenario"]), str(row["splits"])]
                + [NO_VALUE if pd.isna(row[metric]) else row[metric] for metric in METRICS]
                for row in table.to_dict("records")
            ],
            numbers_from=4,
        )


def _build_scale(runs: StoredRuns) -> Iterator[Block]:
    tables = summarise_scale_runs(runs.results)
    if tables:
        yield Heading(2, "A synthetic graph of the size of OGBN Arxiv")
        yield Paragraph(
            "These runs show that every model works at this size. They are not results on OGBN Arxiv and not part of "
            "any table above. Training times were measured with other jobs on the same machine; a run alone takes a "
            "fraction of them."
        )
    for overrides, table in tables.items():
        metrics = [metric for metric in METRICS if metric in table]
        yield Paragraph(f"`{overrides}`")
        if missing := [name for model, name in MODEL_NAMES.items() if model not in set(table["model"])]:
            yield Paragraph(f"No finished run: {', '.join(missing)}.")
        yield Table(
            ["model", "scenario", "runs", "training", "memory", *map(metric_name, metrics)],
            [
                [
                    MODEL_NAMES[row["model"]] + (f" (`{row['settings']}`)" if row["settings"] else ""),
                    scenario_name(row["scenario"]),
                    str(row["runs"]),
                    f"{row['seconds']:.0f} s",
                    f"{row['peak_mb'] / 1000:.1f} GB",
                    *(format_number(row[metric], 1) for metric in metrics),
                ]
                for row in table.to_dict("records")
            ],
            numbers_from=2,
        )


def _build_costs(runs: StoredRuns) -> Iterator[Block]:
    table = summarise_costs(runs.main)
    first_init = summarise_costs(runs.main[runs.main["init"] == 0]).reindex(table.index)
    table["first_hours"] = (first_init["train_hours"] + first_init["other_hours"]).fillna(0.0)
    costs = table.T.to_dict()
    total = table.sum().to_dict()
    rows = [
        [
            *_format_costs(name, costs[model], total),
            f"{costs[model]['mean_epochs']:.0f}",
            f"{costs[model]['peak_mb'] / 1000:.1f} GB",
        ]
        for model, name in MODEL_NAMES.items()
        if model in costs
    ]
    yield Heading(2, "Computing time")
    yield Paragraph(
        "Times of single processes, added up; several runs were executed at once. The feature scenarios reuse the "
        "training of the clean run. One initialisation is what `make reproduce-tables` runs by default."
    )
    head = ["model", "runs", "trainings", "training", "loading and evaluation", "one initialisation"]
    yield Table([*head, "mean epochs", "peak memory"], [*rows, [*_format_costs("all", total, total), "", ""]])
    yield from _build_sessions(runs.notes.sessions, num_first=int((runs.main["init"] == 0).sum()))
    yield from _build_repeats(runs.notes.repeats)


def _format_costs(name: str, costs: Mapping[Any, Any], total: Mapping[Any, Any]) -> list[str]:
    share = 100 * costs["first_hours"] / total["first_hours"] if total["first_hours"] else 0
    counts = [f"{costs[key]:.0f}" for key in ("runs", "trainings")]
    hours = [f"{costs[key]:.2f} h" for key in ("train_hours", "other_hours", "first_hours")]
    return [name, *counts, *hours[:2], f"{hours[2]} ({share:.0f} %)"]


def _build_sessions(sessions: Sequence[Session], *, num_first: int) -> Iterator[Block]:
    """Yield the time of all sessions, and of a single session that executed all `num_first` runs of one initialisation.

    Sessions of earlier versions did not record how many runs were planned.
    """
    for session in sessions:
        if session.runs == session.planned == num_first:
            yield Paragraph(
                f"One initialisation of everything in a single session, with `--jobs {session.jobs}` on "
                f"{session.cores} cores: {session.seconds / 3600:.2f} h for {num_first} runs."
            )
    if sessions:
        hours = sum(session.seconds for session in sessions) / 3600
        yield Paragraph(
            f"In total, `make reproduce-tables` took {hours:.2f} h for {sum(s.runs for s in sessions)} runs, repeated "
            f"runs included, in {len(sessions)} session{'s' * (len(sessions) > 1)}."
        )


def _build_repeats(repeats: Sequence[Repeat]) -> Iterator[Block]:
    if repeats:
        yield Heading(2, "Repeated runs")
    for repeat in repeats:
        differing = ""
        if repeat.same < repeat.runs:
            splits = ", ".join(map(str, repeat.splits))
            differing = f"; in the others (splits {splits}), accuracies and AUC-ROC differ by up to "
            differing += f"{repeat.largest:.1f} points"
        yield Paragraph(
            f"{repeat.runs} of these runs were executed twice. In {repeat.same} of them all metrics are identical to "
            f"the bit{differing}. CPUs round differently, and training amplifies it."
        )
