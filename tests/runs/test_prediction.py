"""Predictions of a saved run: which nodes the limits are fitted to, and which nodes are shown first."""

import shutil

import pandas as pd

from lopgpn_exp.data.files import custom_graph
from lopgpn_exp.evaluation.trust import fit_validation_limits
from lopgpn_exp.runs.prediction import least_trusted, predict_run
from lopgpn_exp.runs.saved_run import SavedRun


def test_limits_are_fitted_to_validation_nodes_that_the_scenario_left_unchanged():
    table = pd.DataFrame({"part": ["val"] * 4 + ["test"], "is_ood": [False, False, True, False, False]})
    table = table.assign(label=[0, 0, 0, -1, 0], predicted=0, au=[1.0, 2.0, 9.0, 9.0, 9.0])
    limits = fit_validation_limits(table)
    assert (limits.nodes, limits.ambiguous_above) == (2, 2.0)


def test_least_trusted_nodes_come_first_and_those_without_a_label_before_all(tree_run):
    folder, run_id = tree_run
    run = SavedRun.open(folder / "outputs/runs" / run_id)
    nodes = least_trusted(predict_run(run, fit_validation_limits(run.predictions, accuracy=0.99)), 300)
    assert (nodes["flag"] != "trust").all()
    unlabelled = nodes[nodes["label"].isna()]
    assert 0 < len(unlabelled) < len(nodes)
    assert nodes.index[: len(unlabelled)].equals(unlabelled.index)
    assert unlabelled["eu_so"].is_monotonic_decreasing


def test_features_on_another_scale_are_another_graph(tree_run, tmp_path):
    """Standardised they are the same, but the next version of the file is scaled like the first one."""
    folder, _ = tree_run
    nodes = pd.read_csv(folder / "nodes.csv")
    columns = [column for column in nodes if column.startswith("x")]
    nodes.assign(**{column: 4 * nodes[column] for column in columns}).to_csv(tmp_path / "nodes.csv", index=False)
    shutil.copy(folder / "edges.csv", tmp_path)
    first, second = (custom_graph(path=str(place)) for place in (folder, tmp_path))
    assert first.fingerprint != second.fingerprint
