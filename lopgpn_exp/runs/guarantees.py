"""Prediction sets of a saved run: which validation nodes they are calibrated on, and in which graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from lopgpn_exp.errors import InputError
from lopgpn_exp.evaluation.trust import select_calibration_nodes
from lopgpn_exp.graph import Graph, Part
from lopgpn_exp.posterior import Posterior, RefinedPosterior
from lopgpn_exp.posthoc.coverage_sets import CalibratedSets, calibrate_sets, choose_set_method
from lopgpn_exp.runs.saved_run import SavedRun


@dataclass(frozen=True)
class RunSets:
    """The posterior of a graph with prediction sets, and how they were calibrated.

    Args:
        is_new_graph: whether the validation nodes were taken as they are in a changed version of the graph.
    """

    posterior: RefinedPosterior
    calibration: CalibratedSets
    is_new_graph: bool


def check_coverage(run: SavedRun, coverage: float) -> None:
    """Raise an InputError if the run has too few validation nodes for a coverage; the model is not needed."""
    choose_set_method(len(select_calibration_nodes(run.predictions)), coverage)


def add_run_sets(run: SavedRun, posterior: Posterior, *, coverage: float, graph: Graph | None = None) -> RunSets:
    """Add prediction sets to the posterior of the run's graph, or of a changed version of it.

    The calibration nodes are the labelled validation nodes of the run that are in-distribution, with the labels that
    the run has. In a changed version they are found by their ids, so that they and the new nodes are seen in the same
    graph, and the files that the run was made from are not needed. If the new version has too few of them, or if nodes
    have no ids, they are taken from the graph of the run.

    Args:
        posterior: of the nodes of `graph`.
        graph: a changed version; by default the graph of the run.
    """
    check_coverage(run, coverage)
    marked = None if graph is None else _mark_by_id(run, graph)
    if marked is not None and _suffices(len(marked.nodes(Part.VAL)), coverage):
        calibration = calibrate_sets(run.model, posterior, marked, coverage=coverage)
        return RunSets(calibration.add_sets(posterior, run.model, marked), calibration, is_new_graph=True)
    own = _own_graph(run, is_changed=graph is not None)
    marked = _mark_calibration(own, np.arange(own.num_nodes), _calibration_labels(run))
    calibration = calibrate_sets(run.model, run.posterior, marked, coverage=coverage)
    return RunSets(calibration.add_sets(posterior, run.model, graph or own), calibration, is_new_graph=False)


def _mark_by_id(run: SavedRun, graph: Graph) -> Graph | None:
    """Return a changed graph with the run's calibration nodes as validation nodes; None if nodes have no ids."""
    if run.legend is None or graph.legend is None or "id" not in run.predictions:
        return None
    rows = {str(name): row for row, name in enumerate(run.predictions["id"])}
    of_nodes = np.array([rows.get(str(name), -1) for name in graph.legend.nodes])
    return _mark_calibration(graph, of_nodes, _calibration_labels(run))


def _calibration_labels(run: SavedRun) -> np.ndarray:
    """Return the label of each calibration node of the run's own table, and -1 for all other nodes."""
    nodes = select_calibration_nodes(run.predictions)
    labels = np.full(len(run.predictions), -1)
    labels[nodes["node"].to_numpy()] = nodes["label"].to_numpy()
    return labels


def _mark_calibration(graph: Graph, rows: np.ndarray, labels: np.ndarray) -> Graph:
    """Return the graph with the calibration nodes as its only validation nodes.

    Args:
        rows: the row of each node in the table of the run; -1 for a new node.
    """
    known = torch.from_numpy(np.where(rows >= 0, labels[rows], -1))
    return graph.replace(labels=known, part=torch.where(known >= 0, int(Part.VAL), int(Part.NONE)).to(torch.int8))


def _suffices(num_nodes: int, coverage: float) -> bool:
    try:
        choose_set_method(num_nodes, coverage)
    except InputError:
        return False
    return True


def _own_graph(run: SavedRun, *, is_changed: bool) -> Graph:
    try:
        return run.graph
    except InputError as error:
        if not is_changed:
            raise
        raise InputError(
            f"the new version has too few validation nodes of the run to calibrate prediction sets, and {error.what}",
            expected="a version with the validation nodes of the run, or the data that the run was made from",
        ) from None
