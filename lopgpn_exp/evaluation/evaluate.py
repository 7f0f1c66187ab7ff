"""Evaluate a posterior on a graph: metrics, curves and a table of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from lopgpn_exp.errors import InputError
from lopgpn_exp.evaluation.metrics import (
    accuracy,
    accuracy_rejection_curve,
    area_under_curve,
    brier_score,
    expected_calibration_error,
)
from lopgpn_exp.evaluation.metrics.detection import DETECTION, relative_change
from lopgpn_exp.evaluation.metrics.prediction_sets import empty_share, mean_set_size, set_coverage, singleton_share
from lopgpn_exp.evaluation.node_table import NODE_COLUMNS
from lopgpn_exp.graph import Graph, Part
from lopgpn_exp.posterior import Posterior, RefinedPosterior


@dataclass(frozen=True)
class Evaluation:
    """Metrics and curves by path, and a table with one row per node."""

    metrics: dict[str, float]
    curves: dict[str, list[float]]
    predictions: pd.DataFrame


def evaluate(posterior: Posterior, graph: Graph) -> Evaluation:
    """Compute all metrics of the test nodes.

    `test/*` and the curves are over all test nodes of classes that the model can predict; `id/*` and `ood/*` exist if
    the graph has OOD nodes. If all test nodes are OOD, there is only `ood/accuracy`. `sets/*` exists if the posterior
    has prediction sets.
    """
    test = select_test_nodes(graph)
    table = tabulate_predictions(posterior, graph)
    metrics, curves = _evaluate_classification(posterior, graph, table, test)
    metrics |= _evaluate_validation(posterior, graph)
    labelled = (table["part"] == "test").to_numpy() & (graph.labels >= 0).numpy()
    if table["is_ood"].any():
        metrics |= _evaluate_detection(table[labelled], posterior.measures)
    if isinstance(posterior, RefinedPosterior) and (sets := posterior.prediction_sets) is not None:
        metrics |= _evaluate_sets(sets.numpy(), graph, test, ood=labelled & graph.is_ood.numpy())
        curves |= _set_curves(posterior, graph, test)
    _check_finite(metrics)
    return Evaluation(metrics, curves, table)


def select_test_nodes(graph: Graph) -> Bool[np.ndarray, " nodes"]:
    """Return a mask of the test nodes of classes that the model can predict; raise an InputError if there are none."""
    has_known_class = (graph.labels < graph.num_classes) & (graph.labels >= 0)
    test = ((graph.part == Part.TEST) & has_known_class).numpy()
    if not test.any():
        raise InputError(
            "the split has no labelled test nodes", expected="at least one", parameter="split", suggestion="random"
        )
    return test


def tabulate_predictions(posterior: Posterior, graph: Graph) -> pd.DataFrame:
    """Return a table with one row per node: `node, part, label, predicted, confidence, is_ood` and the measures.

    If the graph has a legend, the table also has `id, label_name, predicted_name`.
    """
    confidence, predicted = posterior.mean.double().max(dim=1)
    columns = {
        "node": np.arange(graph.num_nodes),
        "part": np.array([part.name.lower() for part in Part])[graph.part.numpy()],
        "label": graph.labels.numpy(),
        "predicted": predicted.numpy(),
        "confidence": confidence.numpy(),
        "is_ood": graph.is_ood.numpy(),
        **_name_nodes(graph, predicted),
    }
    for name in posterior.measures:
        if name in NODE_COLUMNS:
            raise InputError(f"a measure is named {name!r}, like a column of the table", expected="another name")
        values = posterior.measure(name).numpy()
        if not np.isfinite(values).all():
            node = int(np.flatnonzero(~np.isfinite(values))[0])
            raise InputError(
                f"measure {name} of node {node} is {values[node]}",
                expected="finite numbers",
                hint="use smaller features, or a model that has not diverged",
            )
        columns[name] = values
    return pd.DataFrame(columns)


def _name_nodes(graph: Graph, predicted: Int[Tensor, " nodes"]) -> dict[str, Any]:
    if graph.legend is None:
        return {}
    classes = np.array([*graph.legend.classes, None], dtype=object)  # label -1, an unknown class, selects the last
    return {
        "id": graph.legend.nodes,
        "label_name": classes[graph.labels.numpy()],
        "predicted_name": classes[predicted.numpy()],
    }


def _evaluate_classification(
    posterior: Posterior, graph: Graph, table: pd.DataFrame, test: Bool[np.ndarray, " nodes"]
) -> tuple[dict[str, float], dict[str, list[float]]]:
    nodes = torch.from_numpy(np.flatnonzero(test))
    labels, test_posterior, test_table = graph.labels[nodes], posterior[nodes], table[test]
    correct = (test_table["predicted"] == test_table["label"]).to_numpy()
    metrics = {
        "test/accuracy": accuracy(correct),
        "test/brier": brier_score(test_posterior.mean.double().numpy(), labels.numpy()),
        "test/ece": expected_calibration_error(test_table["confidence"].to_numpy(), correct),
        "test/nll": float(test_posterior.cross_entropy(labels).double().mean()),
    }
    curves = {m: accuracy_rejection_curve(test_table[m].to_numpy(), correct) for m in posterior.measures}
    metrics |= {f"test/auarc/{m}": area_under_curve(curve) for m, curve in curves.items()}
    if correct.any() and not correct.all():
        for name in ("auroc", "aupr"):  # an error is the positive class
            metrics |= {f"error/{name}/{m}": DETECTION[name](test_table[m].to_numpy(), ~correct) for m in curves}
    return metrics, {f"arc/{m}": curve.tolist() for m, curve in curves.items()}


def _evaluate_validation(posterior: Posterior, graph: Graph) -> dict[str, float]:
    """Compute the metrics of validation nodes, which a hyper-parameter search may use."""
    nodes = graph.nodes(Part.VAL)
    if len(nodes) == 0:
        return {}
    labels, validation = graph.labels[nodes], posterior[nodes]
    return {
        "val/accuracy": accuracy((validation.mean.argmax(dim=1) == labels).numpy()),
        "val/nll": float(validation.cross_entropy(labels).double().mean()),
    }


def _evaluate_detection(test: pd.DataFrame, measures: Sequence[str]) -> dict[str, float]:
    is_ood = test["is_ood"].to_numpy()
    correct = (test["predicted"] == test["label"]).to_numpy()
    if is_ood.all() or not is_ood.any():  # nothing to detect, such as where all neighbourhoods changed
        return {"ood/accuracy": accuracy(correct)} if is_ood.any() else {}
    metrics = {"id/accuracy": accuracy(correct[~is_ood]), "ood/accuracy": accuracy(correct[is_ood])}
    for name, metric in DETECTION.items():
        metrics |= {f"ood/{name}/{m}": metric(test[m].to_numpy(), is_ood) for m in measures}
    changes = {m: relative_change(test[m].to_numpy(), is_ood) for m in measures}
    return metrics | {f"change/{m}": change for m, change in changes.items() if change is not None}


def _evaluate_sets(
    sets: Bool[np.ndarray, "nodes classes"],
    graph: Graph,
    test: Bool[np.ndarray, " nodes"],
    *,
    ood: Bool[np.ndarray, " nodes"],
) -> dict[str, float]:
    """Compute the metrics of prediction sets; `ood` are the OOD test nodes, including those of left-out classes."""
    metrics = {
        "sets/coverage": set_coverage(sets[test], graph.labels.numpy()[test]),
        "sets/size": mean_set_size(sets[test]),
        "sets/singletons": singleton_share(sets[test]),
        "sets/empty": empty_share(sets[test]),
    }
    return metrics | ({"sets/size_ood": mean_set_size(sets[ood])} if ood.any() else {})


def _set_curves(posterior: RefinedPosterior, graph: Graph, test: Bool[np.ndarray, " nodes"]) -> dict[str, list[float]]:
    """Return coverage and mean size of the prediction sets at each nominal coverage, which `sets/nominal` lists."""
    if posterior.set_scores is None or not posterior.set_thresholds:
        return {}
    scores, labels = posterior.set_scores.numpy()[test], graph.labels.numpy()[test]
    grid = sorted(posterior.set_thresholds.items())
    return {
        "sets/nominal": [coverage for coverage, _ in grid],
        "sets/coverage": [set_coverage(scores <= threshold, labels) for _, threshold in grid],
        "sets/size": [mean_set_size(scores <= threshold) for _, threshold in grid],
    }


def _check_finite(metrics: dict[str, float]) -> None:
    infinite = {name: value for name, value in metrics.items() if not np.isfinite(value)}
    if infinite:
        raise InputError(f"metrics are not finite: {infinite}", expected="finite numbers", hint="use smaller features")
