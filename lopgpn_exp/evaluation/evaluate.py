"""A posterior and a graph in, every number and the table of nodes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from lopgpn_exp.errors import InputError
from lopgpn_exp.evaluation.classification import accuracy, brier_score, expected_calibration_error
from lopgpn_exp.evaluation.rejection import accuracy_rejection_curve, area_under_curve
from lopgpn_exp.graph import Graph, Part
from lopgpn_exp.posterior import MEASURES, Posterior


@dataclass(frozen=True)
class Evaluation:
    """Metrics and curves by their path, and one row a node."""

    metrics: dict[str, float]
    curves: dict[str, list[float]]
    predictions: pd.DataFrame


def evaluate(posterior: Posterior, graph: Graph) -> Evaluation:
    """Metrics of the test nodes.

    `test/*` and the curves are over all test nodes whose class the model knows; `id/*` and `ood/*` exist where the
    graph has OOD test nodes. A measure that the posterior does not have appears nowhere.
    """
    test = tested(graph)
    table = predictions(posterior, graph)
    metrics, curves = _classification(posterior, graph, table, test)
    metrics |= _validation(posterior, graph)
    if table["is_ood"].any():
        metrics |= _detection(table[(table["part"] == "test").to_numpy() & (graph.labels >= 0).numpy()])
    _check_finite(metrics)
    return Evaluation(metrics, curves, table)


def tested(graph: Graph) -> Bool[np.ndarray, " nodes"]:
    """Which test nodes have a class that the model knows. That there are none can be told before any training."""
    known = (graph.labels < graph.num_classes) & (graph.labels >= 0)
    test = ((graph.part == Part.TEST) & known).numpy()
    if not test.any():
        raise InputError("the split has no labelled test nodes", expected="at least one", hint="split=random")
    return test


def predictions(posterior: Posterior, graph: Graph) -> pd.DataFrame:
    """One row a node: `node, part, label, predicted, confidence, is_ood` and a column a supported measure.

    Where the graph came with names of its own, also `id, label_name, predicted_name`.
    """
    mean = posterior.mean.double()
    confidence, predicted = mean.max(dim=1)
    columns = {
        "node": np.arange(graph.num_nodes),
        "part": np.array([part.name.lower() for part in Part])[graph.part.numpy()],
        "label": graph.labels.numpy(),
        "predicted": predicted.numpy(),
        "confidence": confidence.numpy(),
        "is_ood": graph.is_ood.numpy(),
        **_names(graph, predicted),
    }
    for name in posterior.measures:
        values = posterior.measure(name).numpy()
        if not np.isfinite(values).all():
            node = int(np.flatnonzero(~np.isfinite(values))[0])
            raise InputError(
                f"measure {name} of node {node} is {values[node]}",
                expected="finite numbers",
                hint="smaller features, or a model that has not diverged",
            )
        columns[name] = values
    return pd.DataFrame(columns)


def _names(graph: Graph, predicted: Int[Tensor, " nodes"]) -> dict[str, Any]:
    if graph.legend is None:
        return {}
    classes = np.array([*graph.legend.classes, None], dtype=object)  # -1, the unknown class, is the last
    return {
        "id": graph.legend.nodes,
        "label_name": classes[graph.labels.numpy()],
        "predicted_name": classes[predicted.numpy()],
    }


def _classification(
    posterior: Posterior, graph: Graph, table: pd.DataFrame, test: np.ndarray
) -> tuple[dict[str, float], dict[str, list[float]]]:
    nodes = torch.from_numpy(np.flatnonzero(test))
    labels = graph.labels[nodes]
    chosen = table[test]
    correct = (chosen["predicted"] == chosen["label"]).to_numpy()
    tested = posterior[nodes]
    metrics = {
        "test/accuracy": accuracy(correct),
        "test/brier": brier_score(tested.mean.double().numpy(), labels.numpy()),
        "test/ece": expected_calibration_error(chosen["confidence"].to_numpy(), correct),
        "test/nll": float(tested.cross_entropy(labels).double().mean()),
    }
    arcs = {m: accuracy_rejection_curve(chosen[m].to_numpy(), correct) for m in posterior.measures}
    metrics |= {f"test/auarc/{m}": area_under_curve(curve) for m, curve in arcs.items()}
    return metrics, {f"arc/{m}": curve.tolist() for m, curve in arcs.items()}


def _validation(posterior: Posterior, graph: Graph) -> dict[str, float]:
    """What a search may look at: the validation nodes alone."""
    nodes = graph.nodes(Part.VAL)
    if len(nodes) == 0:
        return {}
    labels, chosen = graph.labels[nodes], posterior[nodes]
    return {
        "val/accuracy": accuracy((chosen.mean.argmax(dim=1) == labels).numpy()),
        "val/nll": float(chosen.cross_entropy(labels).double().mean()),
    }


def _detection(test: pd.DataFrame) -> dict[str, float]:
    from lopgpn_exp.evaluation.detection import DETECTION, relative_change  # scikit-learn: only where nodes are OOD

    is_ood = test["is_ood"].to_numpy()
    if is_ood.all() or not is_ood.any():
        raise InputError(
            f"{int(is_ood.sum())} of {len(is_ood)} test nodes are out-of-distribution",
            expected="some that are and some that are not",
            hint="ood.fraction=0.1, or more test nodes",
        )
    correct = (test["predicted"] == test["label"]).to_numpy()
    metrics = {"id/accuracy": accuracy(correct[~is_ood]), "ood/accuracy": accuracy(correct[is_ood])}
    measures = [name for name in MEASURES if name in test]
    for name, metric in DETECTION.items():
        metrics |= {f"ood/{name}/{m}": metric(test[m].to_numpy(), is_ood) for m in measures}
    changes = {m: relative_change(test[m].to_numpy(), is_ood) for m in measures}
    return metrics | {f"change/{m}": change for m, change in changes.items() if change is not None}


def _check_finite(metrics: dict[str, float]) -> None:
    bad = {name: value for name, value in metrics.items() if not np.isfinite(value)}
    if bad:
        raise InputError(f"metrics are not finite: {bad}", expected="finite numbers", hint="smaller features")
