"""A trained run applied to its graph, or to a changed version of it, in the user's own words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from lopgpn_exp.errors import InputError, nearest
from lopgpn_exp.evaluation import predictions
from lopgpn_exp.evaluation.flags import TRUST, Limits, limits
from lopgpn_exp.experiment.finished import Finished
from lopgpn_exp.graph import Graph, Legend, Part
from lopgpn_exp.posterior import Posterior

CUSTOM_COLUMNS = ("id", "label", "split", "source", "target")


@dataclass(frozen=True)
class Prediction:
    """Every node of a graph: what the model says, and whether to trust it.

    Args:
        table: one row a node: `id, label, predicted, confidence`, `p(<class>)` for each class, the measures, `flag`.
        notes: what was passed over in reading the graph.
    """

    table: pd.DataFrame
    graph: Graph
    limits: Limits
    notes: Sequence[str] = ()


def validation_limits(nodes: pd.DataFrame, **options: Any) -> Limits:
    """Limits from the validation nodes of a run's table, those that its scenario left as they were."""
    return limits(nodes[(nodes["part"] == "val") & ~nodes["is_ood"] & (nodes["label"] >= 0)], **options)


def predict_run(run: Finished, found: Limits, *, graph: Graph | None = None, notes: Sequence[str] = ()) -> Prediction:
    """The run's model on its own graph, or on another one with as many features."""
    if graph is not None and graph.num_features != run.num_features:
        raise InputError(
            f"the graph has {graph.num_features} features",
            expected=f"{run.num_features}, as the graph that {run.folder.name} was trained on",
        )
    posterior = run.posterior if graph is None else run.model.predict(graph, cache_dir=run.cache_dir)
    shown = run.graph if graph is None else graph
    table = node_table(posterior, shown)
    return Prediction(table.assign(flag=found.flags(table)), shown, found, notes)


def node_table(posterior: Posterior, graph: Graph) -> pd.DataFrame:
    """Names for numbers: ids, classes and probabilities by class, then the measures."""
    plain = predictions(posterior, graph)
    classes = class_names(graph, posterior.mean.shape[1])
    mean = posterior.mean.double().numpy()
    named = pd.DataFrame(
        {
            "id": np.arange(graph.num_nodes) if graph.legend is None else graph.legend.nodes,
            "label": [None if label < 0 else classes[label] for label in graph.labels.tolist()],
            "part": plain["part"],
            "predicted": [classes[label] for label in plain["predicted"]],
            "confidence": plain["confidence"],
        }
    )
    shown = pd.DataFrame({f"p({name})": mean[:, at] for at, name in enumerate(classes[: mean.shape[1]])})
    measures = plain[list(posterior.measures)]
    return pd.concat([named, shown, measures], axis=1)


def class_names(graph: Graph, known: int) -> list[str]:
    """Of all classes that labels name, those that the model does not know included."""
    if graph.legend is not None:
        return list(graph.legend.classes)
    return [str(number) for number in range(max(known, int(graph.labels.max()) + 1))]


def changed_graph(run: Finished, path: Path, edges: Path | None) -> tuple[Graph, list[str]]:
    """Another version of the run's graph, read as the first one was.

    A node that trained or validated the run did so whatever the new file says: parts are the run's, by id.
    """
    from lopgpn_exp.data.custom import read_like
    from lopgpn_exp.data.custom.tables import Columns

    legend, options = run.legend, run.config["dataset"]
    more = []
    if legend is None:  # not from a file of the user's: classes and features have numbers, and no scale was recorded
        more = [f"features are taken as they are; those of {run.result['dataset']} were scaled by its loader"]
        classes = tuple(str(number) for number in range(run.num_classes))
        legend = Legend(np.empty(0, dtype=object), classes, tuple(str(at) for at in range(run.num_features)))
    named = {name: options[f"{name}_column"] for name in CUSTOM_COLUMNS if f"{name}_column" in options}
    try:
        graph, notes = read_like(
            legend,
            num_classes=run.num_classes,
            path=str(path),
            edges=None if edges is None else str(edges),
            columns=Columns(**named),
        )
    except InputError as error:
        raise _of_the_command(error) from None
    return graph.replace(part=_parts_of(run, graph)), notes + more


def _of_the_command(error: InputError) -> InputError:
    """A mistake in a file, told by a command that has options and no config."""
    what = error.what
    if what.startswith("dataset.edges is "):
        what = what.replace("dataset.edges", "--edges", 1)
    hint = error.hint.replace("dataset.path=", "--graph ").replace("dataset.edges=", "--edges ")
    if "dataset.memory_limit_gib" in hint:
        hint = "fewer nodes, or a machine with more memory"
    elif "dataset." in hint:  # which columns there are was said once, when the run was made
        hint = "columns named as in the file that the run was made from"
    return InputError(what, expected=error.expected, hint=hint)


def _parts_of(run: Finished, graph: Graph) -> torch.Tensor:
    table = run.predictions
    ids = table["id"] if "id" in table else table["node"]
    parts = dict(zip(ids.astype(str), table["part"], strict=True))
    names = map(str, graph.legend.nodes) if graph.legend is not None else map(str, range(graph.num_nodes))
    return torch.tensor([Part[parts.get(name, "none").upper()] for name in names], dtype=torch.int8)


def node_number(graph: Graph, word: str) -> int:
    """The node that an id names."""
    if graph.legend is None:
        if not word.isdecimal() or int(word) >= graph.num_nodes:
            raise InputError(f"there is no node {word!r}", expected=f"a number from 0 to {graph.num_nodes - 1}")
        return int(word)
    ids = [str(node) for node in graph.legend.nodes]
    try:
        return ids.index(word)
    except ValueError:
        close = nearest(word, ids[:100_000])
        raise InputError(
            f"there is no node {word!r}", expected=f"one of the ids of the graph, such as {ids[0]}", hint=close or ""
        ) from None


def suspicious(prediction: Prediction, most: int) -> pd.DataFrame:
    """Nodes not to trust, those furthest above their limit first, and of nodes of the graph that have no label yet
    before others."""
    table = prediction.table[prediction.table["flag"] != TRUST]
    found = prediction.limits
    measure = found.epistemic or found.aleatoric
    order = pd.DataFrame({"labelled": table["label"].notna(), "by": -table[measure]})
    return table.loc[order.sort_values(["labelled", "by"], kind="stable").index].head(most)
