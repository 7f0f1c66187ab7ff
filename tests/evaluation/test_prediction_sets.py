"""Prediction sets: metrics by hand, their evaluation, their curves in MLflow, and the column of `predict`."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from lopgpn_exp.data.scenarios import gaussian, leave_out_classes
from lopgpn_exp.evaluation.evaluate import evaluate
from lopgpn_exp.evaluation.metrics.prediction_sets import empty_share, mean_set_size, set_coverage, singleton_share
from lopgpn_exp.graph import Graph, Legend, Part
from lopgpn_exp.posterior import Categorical, RefinedPosterior
from lopgpn_exp.runs.prediction import node_table
from lopgpn_exp.tracking.run_content import run_metrics
from tests.support.report_data import example_run

THRESHOLDS = {0.5: 0.3, 0.8: 0.6, 0.6: 0.45}


def posterior_with_sets(graph: Graph, *, threshold: float = 0.6, thresholds=None) -> RefinedPosterior:
    """Random class probabilities, and random scores that are smaller for the true class."""
    generator = torch.Generator().manual_seed(0)
    size = graph.num_nodes, graph.num_classes
    plain = Categorical(torch.log_softmax(torch.randn(*size, generator=generator), dim=1))
    scores = torch.rand(*size, generator=generator, dtype=torch.float64)
    scores[torch.arange(graph.num_nodes), graph.labels.clamp(max=graph.num_classes - 1)] /= 1.25
    return RefinedPosterior(
        plain,
        {"set_size": (scores <= threshold).sum(dim=1).double()},
        set_scores=scores,
        set_threshold=threshold,
        set_thresholds=thresholds,
    )


def test_metrics_by_hand():
    """Sets {0, 2}, {}, {1}, {0} of nodes of the classes 2, 0, 1, 1."""
    sets = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0], [1, 0, 0]], dtype=bool)
    assert set_coverage(sets, np.array([2, 0, 1, 1])) == 2 / 4
    assert mean_set_size(sets) == (2 + 0 + 1 + 1) / 4
    assert singleton_share(sets) == 2 / 4
    assert empty_share(sets) == 1 / 4


def test_sets_of_the_test_nodes_are_evaluated(small_graph):
    posterior = posterior_with_sets(small_graph)
    metrics = evaluate(posterior, small_graph).metrics
    nodes = small_graph.nodes(Part.TEST).tolist()
    sets = [set(torch.nonzero(posterior.set_scores[i] <= 0.6).flatten().tolist()) for i in nodes]
    expected = {
        "sets/coverage": np.mean([int(small_graph.labels[i]) in chosen for i, chosen in zip(nodes, sets, strict=True)]),
        "sets/size": np.mean([len(chosen) for chosen in sets]),
        "sets/singletons": np.mean([len(chosen) == 1 for chosen in sets]),
        "sets/empty": np.mean([not chosen for chosen in sets]),
    }
    assert {key: value for key, value in metrics.items() if key.startswith("sets/")} == pytest.approx(expected)
    assert 0 < expected["sets/empty"] < expected["sets/singletons"] < 1  # else the test is weak


def test_the_curves_give_coverage_and_size_at_each_nominal_coverage_in_order(small_graph):
    posterior = posterior_with_sets(small_graph, thresholds=THRESHOLDS)
    result = evaluate(posterior, small_graph)
    curves = {key: curve for key, curve in result.curves.items() if not key.startswith("arc/")}
    assert list(curves) == ["sets/nominal", "sets/coverage", "sets/size"]
    assert curves["sets/nominal"] == [0.5, 0.6, 0.8]
    for i, coverage in enumerate(curves["sets/nominal"]):
        single = evaluate(posterior_with_sets(small_graph, threshold=THRESHOLDS[coverage]), small_graph)
        assert [curves["sets/coverage"][i], curves["sets/size"][i]] == [
            single.metrics["sets/coverage"],
            single.metrics["sets/size"],
        ]
        assert not [key for key in single.curves if key.startswith("sets/")]


def test_sets_of_ood_nodes_have_a_size_but_left_out_classes_are_not_covered(small_graph):
    graph = leave_out_classes(small_graph, left_out_classes=1)
    posterior = posterior_with_sets(graph)
    metrics = evaluate(posterior, graph).metrics
    is_test = graph.part == Part.TEST
    known, unknown = is_test & ~graph.is_ood, is_test & graph.is_ood
    sizes = posterior.measure("set_size")
    assert metrics["sets/size"] == pytest.approx(float(sizes[known].mean()))
    assert metrics["sets/size_ood"] == pytest.approx(float(sizes[unknown].mean()))
    perturbed = gaussian(small_graph, seed=0)
    posterior = posterior_with_sets(perturbed)
    metrics, sizes = evaluate(posterior, perturbed).metrics, posterior.measure("set_size")
    is_test = perturbed.part == Part.TEST
    assert metrics["sets/size"] == pytest.approx(float(sizes[is_test].mean()))  # as `test/*`
    assert metrics["sets/size_ood"] == pytest.approx(float(sizes[is_test & perturbed.is_ood].mean()))


def test_without_sets_there_is_nothing_about_them(small_graph):
    posterior = posterior_with_sets(small_graph)
    for plain in (posterior.original, RefinedPosterior(posterior.original, {"own": posterior.measure("tu")})):
        result = evaluate(plain, small_graph)
        assert not [key for key in (*result.metrics, *result.curves) if key.startswith("sets/")]
        assert "prediction_set" not in node_table(plain, small_graph)


def test_curves_are_tracked_by_nominal_coverage_and_do_not_replace_the_metrics():
    result = replace(
        example_run("none").result,
        metrics={"sets/size": 1.5},
        curves={"arc/tu": [0.5, 0.75], "sets/nominal": [0.57, 0.58], "sets/size": [1.0, 2.0]},
    )
    points = [point for point in run_metrics(result) if point[0].startswith(("arc/", "sets/", "by_"))]
    assert points == [
        ("sets/size", 1.5, 0),
        ("arc/tu", 0.5, 0),
        ("arc/tu", 0.75, 1),
        ("by_coverage/size", 1.0, 57),
        ("by_coverage/size", 2.0, 58),
    ]


def test_table_of_predictions_names_the_classes_of_each_set(build_graph):
    graph = build_graph([(0, 1)], [[0.0]] * 3, [0, 1, 2])
    scores = torch.tensor([[0.1, 0.9, 0.2], [0.8, 0.9, 0.7], [0.1, 0.1, 0.5]])
    plain = Categorical(torch.log_softmax(-scores, dim=1))
    posterior = RefinedPosterior(plain, set_scores=scores, set_threshold=0.5)
    assert node_table(posterior, graph)["prediction_set"].tolist() == ["0|2", "", "0|1|2"]
    legend = Legend(np.array(["a", "b", "c"], dtype=object), ("oak", "elm", "yew"), ("x",))
    table = node_table(posterior, graph.replace(legend=legend))
    assert table["prediction_set"].tolist() == ["oak|yew", "", "oak|elm|yew"]
    assert list(table)[:6] == ["id", "label", "part", "predicted", "confidence", "prediction_set"]
