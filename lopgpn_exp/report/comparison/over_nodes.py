"""The difference of two trained models on the test nodes that both were tested on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from lopgpn_exp.errors import InputError
from lopgpn_exp.report.aggregate import student
from lopgpn_exp.report.comparison.resampling import Metric, node_metrics, standard_errors
from lopgpn_exp.report.names import MEASURE_NAMES

EQUAL = 1e-9  # between the same number computed twice


def over_nodes(
    first: pd.Series, second: pd.Series, metrics: Sequence[str]
) -> tuple[dict[str, dict[str, float]], int, list[str]]:
    """By metric, second - first and 1.96 bootstrap standard errors around it; the number of nodes; what to know of it.

    Not the quantiles of the samples: a sample's calibration error is larger than the nodes' own by as much as theirs is
    larger than the truth, which moves the quantiles away from the difference.
    """
    runs = (first, second)
    tables = [_test_nodes(Path(run["folder"])) for run in runs]
    num_nodes = len(tables[0])
    if not _agree(tables, ["node", "label"]):
        return {}, num_nodes, ["no difference: the two runs were tested on other nodes, or with other labels"]
    notes = []
    comparable = [m for m in metrics if pd.notna(first[m]) and pd.notna(second[m])]
    for column, paths in {"is_ood": ("id/", "ood/", "change/"), "known": ("test/",)}.items():
        if not _agree(tables, [column]) and any(m.startswith(paths) for m in comparable):
            comparable = [m for m in comparable if not m.startswith(paths)]
            notes.append(
                f"no difference in {' '.join(f'{p}*' for p in paths)}: other nodes have {column} in the two runs"
            )
    functions = [_checked(run, table, comparable) for run, table in zip(runs, tables, strict=True)]
    errors = standard_errors(*functions, num_nodes=num_nodes)
    values = {}
    for metric in comparable:
        difference = second[metric] - first[metric]
        interval = student(difference, errors[metric], np.inf) if metric in errors else {}
        values[metric] = {"difference": difference} | interval
    if errors:
        notes.append(
            f"95 % intervals over the {num_nodes:,} test nodes of split {first['split']} (paired bootstrap), "
            "for these two trained models: not over trainings"
        )
    if bare := [metric for metric in comparable if metric not in errors]:
        paths = dict.fromkeys(m.rpartition("/")[0] if m.rpartition("/")[2] in MEASURE_NAMES else m for m in bare)
        notes.append(f"without an interval, which is not computed over nodes for them: {', '.join(paths)}")
    return values, num_nodes, notes


def _test_nodes(folder: Path) -> pd.DataFrame:
    """Labelled test nodes, and whether the model knows their class: not the last ones, if all their nodes are OOD."""
    path = folder / "predictions.parquet"
    try:
        table = pd.read_parquet(path)
        num_classes = 1 + table.loc[~table["is_ood"], "label"].max()
        table["known"] = table["label"] < num_classes
        return table[(table["part"] == "test") & (table["label"] >= 0)].reset_index(drop=True)
    except (OSError, ValueError, KeyError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise InputError(
            f"{path} cannot be read ({reason})",
            expected="the table of nodes that a finished run leaves",
            hint="run it again with force=true",
        ) from None


def _agree(tables: Sequence[pd.DataFrame], columns: list[str]) -> bool:
    return tables[0][columns].equals(tables[1][columns])


def _checked(run: pd.Series, nodes: pd.DataFrame, wanted: Sequence[str]) -> dict[str, Metric]:
    """Functions of samples of nodes, which give the run's own metrics for the nodes as they are."""
    functions = node_metrics(nodes, nodes["known"].to_numpy(), wanted)
    once = np.ones((1, len(nodes)), dtype=np.int32)
    for metric, function in functions.items():
        value = float(function(once)[0])
        if not abs(value - run[metric]) < EQUAL:
            raise InputError(
                f"{run['folder']}: {metric} is {value} by predictions.parquet, {run[metric]} by result.json",
                expected="files of one and the same run",
                hint="run it again with force=true",
            )
    return functions
