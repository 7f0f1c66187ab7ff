"""Prediction sets of a saved run: which nodes they are calibrated on, with and without the files of the run."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from lopgpn_exp.errors import InputError
from lopgpn_exp.evaluation.trust import fit_validation_limits
from lopgpn_exp.graph import Part, neighbour_mean
from lopgpn_exp.posthoc.conformal import aps_scores, smooth_scores
from lopgpn_exp.runs.guarantees import add_run_sets
from lopgpn_exp.runs.prediction import apply_run, predict_run, read_changed_graph
from lopgpn_exp.runs.saved_run import SavedRun


@pytest.fixture
def moved_run(tree_run, tmp_path) -> SavedRun:
    """Return the run on trees in a folder of its own; the files that it was made from are those of `tree_run`."""
    folder, run_id = tree_run
    shutil.copytree(folder / "outputs" / "runs" / run_id, tmp_path / "outputs" / "runs" / run_id)
    return SavedRun.open(tmp_path / "outputs" / "runs" / run_id)


def without_data(run: SavedRun, monkeypatch) -> SavedRun:
    """Return the run as if its files had been overwritten by the next version."""

    def refuse(self):
        raise InputError("the data has changed since the run was made", expected="the same data")

    monkeypatch.setattr(SavedRun, "graphs", property(refuse))
    return run


def write_version(folder: Path, source: Path, keep) -> Path:
    """Write the nodes with `keep(id)` and the edges between them, in another order and without any label."""
    folder.mkdir()
    nodes, edges = (pd.read_csv(source / f"{name}.csv") for name in ("nodes", "edges"))
    nodes = nodes[nodes["id"].map(keep)].iloc[::-1].assign(label="")
    nodes.to_csv(folder / "nodes.csv", index=False)
    edges[edges.isin(set(nodes["id"])).all(axis=1)].to_csv(folder / "edges.csv", index=False)
    return folder


def test_sets_of_the_own_graph_are_those_of_the_definition(moved_run):
    """The threshold is the score of a validation node, by the run's labels, and of rank ceil(0.9 * 25) of 24 nodes."""
    sets = add_run_sets(moved_run, moved_run.posterior, coverage=0.9)
    table, calibration = moved_run.predictions, sets.calibration
    validation = table[table["part"] == "val"]
    assert (calibration.method, calibration.num_calibration, calibration.rank) == ("daps", len(validation) / 2, 23)
    uniform = torch.from_numpy(np.random.default_rng(0).random(300))
    scores = aps_scores(moved_run.posterior.mean, uniform)
    scores = smooth_scores(scores, neighbour_mean(moved_run.graph), smoothing=calibration.step.fitted["smoothing"])
    threshold = sets.posterior.set_threshold
    of_labels = [float(scores[row.node, row.label]) for row in validation.itertuples()]
    assert threshold in of_labels
    assert torch.equal(sets.posterior.prediction_sets, scores <= threshold)
    assert not sets.is_new_graph


def test_validation_nodes_are_found_by_id_in_a_changed_graph_without_the_files_of_the_run(
    moved_run, tree_run, tmp_path, monkeypatch
):
    """The new version has other rows and no labels: those of the run are used."""
    path = write_version(tmp_path / "new", tree_run[0], lambda name: name != "tree 004")
    run = without_data(moved_run, monkeypatch)
    graph, _ = read_changed_graph(run, path, None)
    prediction = predict_run(run, fit_validation_limits(run.predictions), graph=graph, coverage=0.9)
    assert prediction.sets.is_new_graph
    own = run.predictions.set_index("id")
    validation = own[(own["part"] == "val") & own.index.isin(prediction.table["id"])]
    assert prediction.sets.calibration.num_calibration == len(validation) - len(validation) // 2
    sizes = prediction.table["prediction_set"].map(lambda text: len(text.split("|")) if text else 0)
    assert (sizes == prediction.table["set_size"]).all()
    rows = prediction.table.set_index("id").loc[validation.index]
    is_covered = [
        name in row.split("|") for name, row in zip(validation["label_name"], rows["prediction_set"], strict=True)
    ]
    assert sum(is_covered) / len(is_covered) >= 0.8  # wrong labels would give a third


def test_graph_of_the_run_is_used_if_the_new_version_has_too_few_validation_nodes(
    moved_run, tree_run, tmp_path, monkeypatch
):
    table = moved_run.predictions
    absent = set(table.loc[table["part"] == "val", "id"])
    path = write_version(tmp_path / "new", tree_run[0], lambda name: name not in absent)
    graph, _ = read_changed_graph(moved_run, path, None)
    limits = fit_validation_limits(table)
    assert len(graph.nodes(Part.VAL)) == 0
    posterior, sets = apply_run(moved_run, limits, graph=graph, coverage=0.9)
    own = add_run_sets(moved_run, moved_run.posterior, coverage=0.9)
    assert not sets.is_new_graph
    assert sets.calibration.step.fitted == own.calibration.step.fitted
    assert sets.posterior.num_nodes == graph.num_nodes == posterior.num_nodes
    run = without_data(SavedRun.open(moved_run.folder), monkeypatch)
    with pytest.raises(InputError, match=r"too few validation nodes of the run .* the data has changed"):
        apply_run(run, limits, graph=graph, coverage=0.9)
