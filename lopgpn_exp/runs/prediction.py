"""Apply the model of a run to its graph, or to a changed version of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch

from lopgpn_exp.errors import InputError, nearest
from lopgpn_exp.evaluation.acceptance import AcceptanceRule
from lopgpn_exp.evaluation.evaluate import tabulate_predictions
from lopgpn_exp.evaluation.trust import TRUST, Limits
from lopgpn_exp.graph import Graph, Legend, Part
from lopgpn_exp.posterior import Posterior, RefinedPosterior
from lopgpn_exp.runs.guarantees import RunSets, add_run_sets
from lopgpn_exp.runs.saved_run import SavedRun

if TYPE_CHECKING:
    import pyarrow as pa

    from lopgpn_exp.data.files import Columns

TABLE_COLUMNS = ("id", "label", "split", "source", "target")
MAX_IDS_SEARCHED = 100_000  # for the id nearest to a typo


@dataclass(frozen=True)
class Prediction:
    """What a model predicts for every node of a graph, and whether to trust it.

    Args:
        table: one row per node: `id, label, predicted, confidence`, `prediction_set` if there are sets,
            `p(<class>)` per class, the measures, `accepted` if there is a rule for it, `flag`.
        sets: how the sets were calibrated, if a coverage was asked for.
    """

    table: pd.DataFrame
    limits: Limits
    sets: RunSets | None = None


def predict_run(
    run: SavedRun,
    limits: Limits,
    *,
    graph: Graph | None = None,
    coverage: float | None = None,
    rule: AcceptanceRule | None = None,
) -> Prediction:
    """Apply the model of a run to its own graph, or to another one with the same number of features.

    Args:
        coverage: add prediction sets of this coverage (see `add_run_sets`).
        rule: which nodes to accept.
    """
    posterior, sets = apply_run(run, limits, graph=graph, coverage=coverage, rule=rule)
    refined = posterior if sets is None else sets.posterior
    table = node_table(refined, run.graph if graph is None else graph)
    accepted = {} if rule is None else {"accepted": rule.accept_nodes(table)}
    return Prediction(table.assign(**accepted, flag=limits.flag_nodes(table)), limits, sets)


def apply_run(
    run: SavedRun,
    limits: Limits,
    *,
    graph: Graph | None = None,
    coverage: float | None = None,
    rule: AcceptanceRule | None = None,
) -> tuple[Posterior, RunSets | None]:
    """Return the posterior of a run's own graph or of another one, and prediction sets if a coverage is given."""
    posterior = run.posterior if graph is None else _apply_model(run, graph)
    needed = [limits.epistemic, limits.aleatoric, None if rule is None else rule.measure]
    _check_measures(run, posterior, [measure for measure in needed if measure is not None])
    return posterior, None if coverage is None else add_run_sets(run, posterior, coverage=coverage, graph=graph)


def _apply_model(run: SavedRun, graph: Graph) -> Posterior:
    if graph.num_features != run.num_features:
        raise InputError(
            f"the graph has {graph.num_features} features",
            expected=f"{run.num_features}, as in the graph that {run.folder.name} was trained on",
        )
    return run.predict(graph)


def _check_measures(run: SavedRun, posterior: Posterior, measures: Sequence[str]) -> None:
    for measure in measures:
        if measure not in posterior.measures:
            raise InputError(
                f"predictions.parquet of {run.folder.name} has the measure {measure!r}, which its model does not have",
                expected=", ".join(posterior.measures),
            )


def node_table(posterior: Posterior, graph: Graph) -> pd.DataFrame:
    """Return one row per node with ids and class names: label, prediction, class probabilities, measures.

    The classes of a prediction set are joined by `|`.
    """
    predictions = tabulate_predictions(posterior, graph)
    classes = class_names(graph, posterior.mean.shape[1])
    mean = posterior.mean.double().numpy()
    names = pd.DataFrame(
        {
            "id": node_ids(graph),
            "label": [None if label < 0 else classes[label] for label in graph.labels.tolist()],
            "part": predictions["part"],
            "predicted": [classes[label] for label in predictions["predicted"]],
            "confidence": predictions["confidence"],
        }
    )
    sets = posterior.prediction_sets if isinstance(posterior, RefinedPosterior) else None
    if sets is not None:
        names["prediction_set"] = ["|".join(compress(classes, row)) for row in sets.tolist()]
    probabilities = pd.DataFrame({f"p({name})": mean[:, k] for k, name in enumerate(classes[: mean.shape[1]])})
    return pd.concat([names, probabilities, predictions[list(posterior.measures)]], axis=1)


def node_ids(graph: Graph) -> np.ndarray:
    """Return the user's ids of the nodes or, without any, their numbers."""
    return np.arange(graph.num_nodes) if graph.legend is None else graph.legend.nodes


def class_names(graph: Graph, num_trained: int) -> list[str]:
    """Return the names of all classes, including labels that the model was not trained on."""
    if graph.legend is not None:
        return list(graph.legend.classes)
    return [str(number) for number in range(max(num_trained, int(graph.labels.max()) + 1))]


def read_changed_graph(run: SavedRun, path: Path, edges: Path | None) -> tuple[Graph, list[str]]:
    """Return another version of the run's graph, read like the first one, and notes on what was skipped.

    A node keeps the part (train, validation, test) that it has in the run, whatever the new file says.
    """
    from lopgpn_exp.data.files import read_graph_like

    legend, extra_notes = _describe_training_data(run)
    graph, notes = read_graph_like(
        legend,
        num_classes=run.num_classes,
        path=str(path),
        edges=None if edges is None else str(edges),
        columns=table_columns(run),
    )
    return graph.replace(part=_parts_by_id(run, graph)), notes + extra_notes


def build_changed_graph(run: SavedRun, nodes: pa.Table, edges: pa.Table) -> tuple[Graph, list[str]]:
    """Return the graph that `read_changed_graph` reads from files, from tables in memory."""
    from lopgpn_exp.data.files import read_tables_like

    legend, extra_notes = _describe_training_data(run)
    graph, notes = read_tables_like(
        legend, num_classes=run.num_classes, nodes=nodes, edges=edges, columns=table_columns(run)
    )
    return graph.replace(part=_parts_by_id(run, graph)), notes + extra_notes


def table_columns(run: SavedRun) -> Columns:
    """Return how the tables of the run's data name their columns."""
    from lopgpn_exp.data.files import Columns

    options = run.config["dataset"]
    return Columns(**{name: options[f"{name}_column"] for name in TABLE_COLUMNS if f"{name}_column" in options})


def _describe_training_data(run: SavedRun) -> tuple[Legend, list[str]]:
    """Return the names and the scaling of the run's data, and notes about what is not known."""
    if run.legend is not None:
        return run.legend, []
    # One of our datasets: classes and features are numbered, and no scaling was recorded.
    classes = tuple(str(number) for number in range(run.num_classes))
    legend = Legend(np.empty(0, dtype=object), classes, tuple(str(k) for k in range(run.num_features)))
    return legend, [f"features are used as they are; those of {run.result.dataset} were scaled by its loader"]


def _parts_by_id(run: SavedRun, graph: Graph) -> torch.Tensor:
    table = run.predictions
    ids = table["id"] if "id" in table else table["node"]
    parts = dict(zip(ids.astype(str), table["part"], strict=True))
    return torch.tensor([Part[parts.get(str(node), "none").upper()] for node in node_ids(graph)], dtype=torch.int8)


def find_node(graph: Graph, node_id: str) -> int:
    """Return the number of the node with this id."""
    if graph.legend is None:
        if not node_id.isdecimal() or int(node_id) >= graph.num_nodes:
            raise InputError(f"there is no node {node_id!r}", expected=f"a number from 0 to {graph.num_nodes - 1}")
        return int(node_id)
    ids = [str(node) for node in graph.legend.nodes]
    try:
        return ids.index(node_id)
    except ValueError:
        raise InputError(
            f"there is no node {node_id!r}",
            expected=f"one of the ids of the graph, such as {ids[0]}",
            hint=nearest(node_id, ids[:MAX_IDS_SEARCHED]) or "",
        ) from None


def least_trusted(prediction: Prediction, count: int) -> pd.DataFrame:
    """Return the nodes not to trust, the most uncertain first; nodes without a label come before the others."""
    table = prediction.table[prediction.table["flag"] != TRUST]
    measure = prediction.limits.epistemic or prediction.limits.aleatoric
    order = pd.DataFrame({"labelled": table["label"].notna(), "certainty": -table[measure]})
    return table.loc[order.sort_values(["labelled", "certainty"], kind="stable").index].head(count)
