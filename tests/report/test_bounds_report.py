"""The page on entropy bounds: its charts show the measured values."""

import numpy as np
import pytest
import torch

from lopgpn_exp.evaluation.entropy_bounds import measure_tightness
from lopgpn_exp.graph import DenseMatrix
from lopgpn_exp.posterior import DirichletMixture
from lopgpn_exp.report.bounds_report import bounds_page
from tests.support.html_pages import charts, check_self_contained, in_data_units, lines
from tests.support.mixtures import NUM_NODES, random_mixture


@pytest.mark.parametrize("is_ood", [True, False])
def test_without_two_kinds_of_nodes_there_is_no_roc_chart(is_ood):
    posterior, predictions = random_mixture()
    result = measure_tightness(posterior, predictions.assign(is_ood=is_ood), max_nodes=None, num_draws=4, seed=0)
    html = bounds_page("t", result)
    check_self_contained(html)
    assert charts(html, "roc") == []


def test_the_page_draws_the_nodes_between_their_bounds():
    result = measure_tightness(*random_mixture(), max_nodes=None, num_draws=50, seed=0)
    html = bounds_page("<a run>", result)
    check_self_contained(html)
    assert "<a run>" not in html
    (chart,) = charts(html, "between")
    drawn, ordered = lines(chart), result.table.sort_values("exact")
    height = ordered["upper"].max() - ordered["lower"].min()
    for name, bound in (("lower bound", "lower"), ("exact", "exact"), ("upper bound (EU_SO)", "upper")):
        np.testing.assert_allclose(drawn[name][:, 1], ordered[bound], atol=0.005 * height)
    (histogram,) = charts(html, "position")
    (outline,) = histogram.iter("polygon")
    points = np.array([[float(c) for c in pair.split(",")] for pair in outline.get("points").split()])
    shares = in_data_units(histogram, points)[1:-1:2, 1]
    expected = np.histogram(result.table["position"].dropna(), np.linspace(0, 1, 31))[0]
    np.testing.assert_allclose(shares, expected / expected.sum(), atol=0.005)
    (roc,) = charts(html, "roc")
    assert len(lines(roc)) == 4


def test_single_component_mixtures_have_a_page_without_positions():
    posterior, predictions = random_mixture()
    weights = DenseMatrix(torch.eye(40, dtype=torch.float64)[torch.arange(NUM_NODES) % 40])
    single = DirichletMixture(weights, posterior.components.alpha)
    result = measure_tightness(single, predictions, max_nodes=None, num_draws=4, seed=0)
    assert result.table["position"].isna().all()
    html = bounds_page("t", result)
    assert charts(html, "position") == []
    check_self_contained(html)
