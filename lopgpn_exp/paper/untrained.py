"""The published numbers of GPN under N(0, 1) next to those of untrained and of trained networks."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from lopgpn_exp.paper.published import MEASURES, load_published
from lopgpn_exp.paper.recipes import Recipe, load_recipes
from lopgpn_exp.paper.runs_file import StoredRuns
from lopgpn_exp.paper.table1 import compute_percent_means
from lopgpn_exp.records import RunResult
from lopgpn_exp.report.console import Console, new_table, print_table
from lopgpn_exp.report.names import DATASET_NAMES, MODEL_NAMES, metric_name

METRICS = ("id/accuracy", "ood/accuracy", *(f"ood/auroc/{measure}" for measure in MEASURES))
PUBLISHED, UNTRAINED, TRAINED = "published", "untrained", "trained"


def find_untrained_recipes() -> tuple[Recipe, ...]:
    return tuple(recipe for recipe in load_recipes() if recipe.network == "untrained")


def compare_untrained(untrained: pd.DataFrame, trained: pd.DataFrame) -> pd.DataFrame:
    """Return the seven numbers of each dataset and GPN in percent, one row for each kind of network.

    Args:
        untrained: evaluations of untrained networks.
        trained: runs of trained networks; those of other models and scenarios are ignored.
    """
    published = load_published().drop_duplicates(["dataset", "model", "scenario", "metric"])
    (recipe,) = find_untrained_recipes()
    tables = {PUBLISHED: published.set_index(["dataset", "model", "scenario", "metric"])["published"]}
    tables |= {
        name: compute_percent_means(results)["mean"]
        for name, results in ((UNTRAINED, untrained), (TRAINED, trained))
        if len(results)
    }
    blocks = untrained[["dataset", "model", "scenario"]].drop_duplicates().itertuples(index=False, name=None)
    order = {name: index for index, name in enumerate([*DATASET_NAMES, *MODEL_NAMES])}
    rows = []
    for dataset, model, scenario in sorted(blocks, key=lambda block: [order[name] for name in block[:2]]):
        if not recipe.matches({"dataset": dataset, "model": model, "scenario": scenario}):
            continue
        for name, means in tables.items():
            if (dataset, model, scenario, METRICS[0]) in means.index:
                values = {metric: means[dataset, model, scenario, metric] for metric in METRICS}
                rows.append({"dataset": dataset, "model": model, "network": name} | values)
    return pd.DataFrame(rows, columns=["dataset", "model", "network", *METRICS])


def compare_stored(runs: StoredRuns) -> pd.DataFrame:
    """Return `compare_untrained` for the runs of a reproduction."""
    variants = [recipe.variant for recipe in find_untrained_recipes()]
    return compare_untrained(runs.results[runs.results["variant"].isin(variants)], runs.main)


def format_rows(table: pd.DataFrame) -> list[list[str]]:
    return [
        [DATASET_NAMES[row["dataset"]], MODEL_NAMES[row["model"]], row["network"]]
        + [f"{row[metric]:.2f}" for metric in METRICS]
        for row in table.to_dict("records")
    ]


def print_untrained(results: Iterable[RunResult]) -> None:
    """Print the published numbers next to those of untrained networks."""
    untrained = pd.DataFrame([result.to_row() for result in results])
    table = new_table(
        ["dataset", "model", "network", *map(metric_name, METRICS)],
        left=["dataset", "model", "network"],
        title="GPN under N(0, 1): published, and the networks of the public code before training",
    )
    for row in format_rows(compare_untrained(untrained, untrained.iloc[:0])):
        table.add_row(*row)
    Console().print()
    print_table(table)
