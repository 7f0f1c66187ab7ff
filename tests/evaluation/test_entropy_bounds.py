"""Bounds on the entropy of a mixture: values of the posterior, rank correlations, and scores with their intervals."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats
from sklearn.metrics import roc_auc_score

from lopgpn_exp.evaluation.entropy_bounds import measure_tightness
from lopgpn_exp.evaluation.metrics import accuracy_rejection_curve, area_under_curve
from tests.support.mixtures import random_mixture


def measure(max_nodes=None, num_draws=50, seed=0):
    return measure_tightness(*random_mixture(), max_nodes=max_nodes, num_draws=num_draws, seed=seed)


def test_the_table_has_the_labelled_test_nodes_and_values_of_their_posterior():
    posterior, predictions = random_mixture()
    table = measure().table
    nodes = predictions.query("part == 'test' and label >= 0")["node"].to_numpy()
    assert table["node"].tolist() == nodes.tolist()
    mixture = posterior[torch.tensor(nodes)]
    np.testing.assert_allclose(table["upper"], posterior.eu_so().numpy()[nodes])
    np.testing.assert_allclose(table["lower"], mixture.entropy_lower())
    np.testing.assert_array_equal(table["exact"], mixture.entropy_exact(num_draws=50).value)
    assert table["components"].tolist() == (mixture.weights.values > 0).sum(dim=1).tolist()
    mixed = table[table["components"] > 1]
    np.testing.assert_allclose(mixed["position"], (mixed["exact"] - mixed["lower"]) / (mixed["upper"] - mixed["lower"]))
    assert mixed["position"].between(0, 1).all()


def test_a_node_of_one_component_is_exact_and_has_no_position():
    first = measure().table.iloc[0]
    assert (first["node"], first["components"], first["standard_error"]) == (0, 1, 0)
    assert first["lower"] == first["exact"] == first["upper"]
    assert pd.isna(first["position"])


def test_a_sample_of_nodes_is_drawn_at_random():
    everything, sample = measure(), measure(max_nodes=30)
    assert (len(sample.table), sample.num_test) == (30, len(everything.table))
    assert set(sample.table["node"]) < set(everything.table["node"])
    assert sample.table["node"].tolist() == measure(max_nodes=30).table["node"].tolist()
    assert sample.table["node"].tolist() != measure(max_nodes=30, seed=1).table["node"].tolist()
    assert len(measure(max_nodes=10_000).table) == everything.num_test


def test_rank_correlations_are_those_of_scipy():
    result = measure()
    for bound, value in result.rank_correlation.items():
        assert value == pytest.approx(stats.spearmanr(result.table[bound], result.table["exact"]).statistic)
    assert set(result.rank_correlation) == {"lower", "upper"}


def test_scores_are_those_of_the_nodes():
    _, predictions = random_mixture()
    result = measure()
    nodes = predictions.set_index("node").loc[result.table["node"]]
    scores = result.scores.set_index(["metric", "bound"])
    has_known_class = (nodes["label"] < 3).to_numpy()
    correct = (nodes["predicted"] == nodes["label"]).to_numpy()[has_known_class]
    for bound in ("lower", "exact", "upper"):
        values = result.table[bound].to_numpy()
        auroc = scores.loc[("ood/auroc", bound)]
        assert auroc["value"] == pytest.approx(roc_auc_score(nodes["is_ood"], values))
        area = area_under_curve(accuracy_rejection_curve(values[has_known_class], correct))
        assert scores.loc[("test/auarc", bound), "value"] == pytest.approx(area)
        assert auroc["low"] < auroc["value"] < auroc["high"]
    exact = scores.loc[("ood/auroc", "exact")]
    assert exact["difference"] == pytest.approx(exact["value"] - scores.loc[("ood/auroc", "upper"), "value"])
    assert exact["difference_low"] < exact["difference"] < exact["difference_high"]
    # Both values are of the same nodes, so their difference is far more precise than either.
    assert exact["difference_high"] - exact["difference_low"] < exact["high"] - exact["low"]
    assert pd.isna(scores.loc[("ood/auroc", "upper"), "difference"])


def test_the_interval_of_an_auc_is_as_wide_as_hanley_and_mcneils():
    """For independent scores, their formula for the standard error of an AUC-ROC holds to a few percent."""
    result = measure()
    scores = result.scores.set_index(["metric", "bound"]).loc[("ood/auroc", "upper")]
    ood = int(result.table["is_ood"].sum())
    inside, area = len(result.table) - ood, scores["value"]
    q1, q2 = area / (2 - area), 2 * area**2 / (1 + area)
    variance = (area * (1 - area) + (ood - 1) * (q1 - area**2) + (inside - 1) * (q2 - area**2)) / (ood * inside)
    assert (scores["high"] - scores["low"]) / 3.92 == pytest.approx(np.sqrt(variance), rel=0.15)


def test_the_interval_of_an_auc_ends_at_one():
    """The highest ranked nodes, all but one, are OOD: an AUC of 0.99 whose bootstrap spread exceeds 1."""
    posterior, predictions = random_mixture()
    ranks = pd.Series(posterior.eu_so().numpy()).rank(ascending=False)
    predictions = predictions.assign(is_ood=ranks.isin([*range(1, 20), 25]), label=1, part="test")
    result = measure_tightness(posterior, predictions, max_nodes=None, num_draws=4, seed=0)
    upper = result.scores.set_index(["metric", "bound"]).loc[("ood/auroc", "upper")]
    assert 0.95 < upper["low"] < upper["value"] < upper["high"] == 1


@pytest.mark.parametrize("is_ood", [True, False])
def test_without_two_kinds_of_nodes_there_is_no_auc(is_ood):
    posterior, predictions = random_mixture()
    result = measure_tightness(posterior, predictions.assign(is_ood=is_ood), max_nodes=None, num_draws=4, seed=0)
    assert set(result.scores["metric"]) == {"test/auarc"}
