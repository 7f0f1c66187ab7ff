"""Rejection curves, detection and probability scores against their definitions; the evaluation of a posterior."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as reference

from lopgpn_exp.data.scenarios import gaussian, leave_out_classes
from lopgpn_exp.errors import InputError
from lopgpn_exp.evaluation.evaluate import evaluate
from lopgpn_exp.evaluation.metrics import (
    accuracy_rejection_curve,
    area_under_curve,
    brier_score,
    is_lower_better,
    split_metric,
)
from lopgpn_exp.evaluation.metrics.detection import aupr, auroc, fpr95, relative_change, roc_curve
from lopgpn_exp.evaluation.node_table import PARTS
from lopgpn_exp.graph import Part
from lopgpn_exp.posterior import Categorical, Dirichlet


def test_rejection_curve_by_hand_with_ties():
    """Four nodes, uncertainties 1, 2, 2, 3: correct, correct, wrong, wrong.

    Kept 4: 2/4. Kept 3: 2/3. Kept 2: the first and one of the tied pair, correct half of the time: 1.5/2. Kept 1: 1.
    """
    curve = accuracy_rejection_curve(np.array([2.0, 3.0, 1.0, 2.0]), np.array([True, False, True, False]))
    assert curve.shape == (100,)
    np.testing.assert_allclose(curve[[0, 24, 25, 49, 50, 74, 75, 99]], [1 / 2, 1 / 2, 2 / 3, 2 / 3, 0.75, 0.75, 1, 1])


def test_equal_uncertainties_give_a_flat_curve_with_its_height_as_area():
    curve = accuracy_rejection_curve(np.zeros(7), np.array([1, 0, 1, 1, 0, 0, 0], dtype=bool))
    np.testing.assert_allclose(curve, 3 / 7)
    assert area_under_curve(curve) == pytest.approx(3 / 7)


def test_area_by_hand():
    """A straight line from 0.5 to 1 has mean height 0.75."""
    assert area_under_curve(np.linspace(0.5, 1, 100)) == pytest.approx(0.75)


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=40), st.randoms())
@settings(max_examples=60, deadline=None)
def test_ties_count_as_the_average_over_orders(pairs, random):
    """Against a plain mean over shuffled orders, each sorted by a stable sort."""
    uncertainty = np.array([float(u) for u, _ in pairs])
    correct = np.array([c for _, c in pairs])
    curve = accuracy_rejection_curve(uncertainty, correct)
    rng = np.random.default_rng(random.randint(0, 2**31))
    kept = np.ceil((100 - np.arange(100)) * len(pairs) / 100).astype(int)
    orders = [rng.permutation(len(pairs)) for _ in range(400)]
    curves = [np.cumsum(correct[o][np.argsort(uncertainty[o], kind="stable")])[kept - 1] / kept for o in orders]
    standard_error = np.std(curves, axis=0) / 20
    assert (np.abs(np.mean(curves, axis=0) - curve) <= 5 * standard_error + 1e-9).all()


def test_rejection_does_not_depend_on_the_order_of_nodes():
    rng = np.random.default_rng(0)
    uncertainty, correct = rng.integers(0, 10, 200).astype(float), rng.random(200) < 0.7
    order = rng.permutation(200)
    np.testing.assert_allclose(
        accuracy_rejection_curve(uncertainty, correct), accuracy_rejection_curve(uncertainty[order], correct[order])
    )


def test_detection_against_its_definition():
    """AUC-ROC is the probability that an OOD node is more uncertain than an ID node, ties counting half."""
    rng = np.random.default_rng(0)
    uncertainty, is_ood = rng.integers(0, 8, 120).astype(float), rng.random(120) < 0.3
    ood, inside = uncertainty[is_ood][:, None], uncertainty[~is_ood][None]
    assert auroc(uncertainty, is_ood) == pytest.approx(((ood > inside) + 0.5 * (ood == inside)).mean())
    thresholds = np.unique(uncertainty)[::-1]
    recall = np.array([(ood >= t).mean() for t in thresholds])
    precision = np.array([(ood >= t).sum() / (uncertainty >= t).sum() for t in thresholds])
    assert aupr(uncertainty, is_ood) == pytest.approx(np.sum(np.diff(recall, prepend=0) * precision))
    assert fpr95(uncertainty, is_ood) == pytest.approx((inside >= thresholds[recall >= 0.95][0]).mean())


@pytest.mark.parametrize("num_values", [1, 2, 5, 10**9])
@pytest.mark.parametrize("size", [2, 3, 1000])
def test_detection_equals_scikit_learn_to_the_bit(size, num_values):
    rng = np.random.default_rng([size, num_values])
    for scale in (1e-9, 1.0, 1e9):
        uncertainty, is_ood = rng.integers(0, num_values, size) * scale, rng.random(size) < 0.3
        is_ood[:2] = [True, False]
        false, true, _ = reference.roc_curve(is_ood, uncertainty, drop_intermediate=False)
        assert auroc(uncertainty, is_ood) == reference.roc_auc_score(is_ood, uncertainty)
        assert aupr(uncertainty, is_ood) == reference.average_precision_score(is_ood, uncertainty)
        assert fpr95(uncertainty, is_ood) == false[np.argmax(true >= 0.95)]
        for rates, expected in zip(
            roc_curve(uncertainty, is_ood), reference.roc_curve(is_ood, uncertainty)[:2], strict=True
        ):
            np.testing.assert_array_equal(rates, expected)


def test_table_of_nodes_names_every_part_of_a_split():
    assert list(PARTS) == [part.name.lower() for part in Part]


def test_perfect_detection_has_the_best_values():
    uncertainty, is_ood = np.array([0.1, 0.2, 0.9]), np.array([False, False, True])
    assert (auroc(uncertainty, is_ood), aupr(uncertainty, is_ood), fpr95(uncertainty, is_ood)) == (1, 1, 0)


def test_change_is_relative_to_the_size_of_the_id_mean():
    is_ood = np.array([False, False, True])
    assert relative_change(np.array([1.0, 3.0, 5.0]), is_ood) == pytest.approx(1.5)
    assert relative_change(np.array([-1.0, -3.0, -1.0]), is_ood) == pytest.approx(-1.5)
    assert relative_change(np.array([0.0, 0.0, 1.0]), is_ood) is None


def test_probability_scores_against_scikit_learn():
    rng = np.random.default_rng(0)
    mean, labels = rng.dirichlet([1, 1, 1], 50), rng.integers(0, 3, 50)
    one_vs_rest = sum(reference.brier_score_loss(labels == k, mean[:, k]) for k in range(3))
    assert brier_score(mean, labels) == pytest.approx(one_vs_rest)
    posterior = Categorical(torch.log(torch.from_numpy(mean)))
    nll = posterior.cross_entropy(torch.from_numpy(labels)).mean().item()
    assert nll == pytest.approx(reference.log_loss(labels, mean, labels=[0, 1, 2]))


@pytest.mark.parametrize(
    ("metric", "path", "measure", "lower"),
    [
        ("test/accuracy", "test/accuracy", "", False),
        ("test/ece", "test/ece", "", True),
        ("val/nll", "val/nll", "", True),
        ("test/auarc/tu", "test/auarc", "tu", False),
        ("ood/fpr95/mine", "ood/fpr95", "mine", True),
        ("change/eu_so", "change", "eu_so", False),
    ],
)
def test_metric_paths_name_the_measure(metric, path, measure, lower):
    assert split_metric(metric) == (path, measure)
    assert is_lower_better(metric) == lower


class ExtraMeasure(Dirichlet):
    extra_measures = ("vacuity",)

    def vacuity(self):
        return self.alpha.shape[1] / self.alpha_0.double()


class ReservedMeasure(Dirichlet):
    extra_measures = ("confidence",)

    def confidence(self):
        return self.alpha_0.double()


def random_posterior(graph, kind=Dirichlet, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return kind(1 + 5 * torch.rand(graph.num_nodes, graph.num_classes, generator=generator))


def test_a_clean_graph_has_no_ood_metrics(small_graph):
    result = evaluate(random_posterior(small_graph), small_graph)
    assert set(result.metrics) == {"test/accuracy", "test/brier", "test/ece", "test/nll", "val/accuracy", "val/nll"} | {
        f"{path}/{m}"
        for path in ("test/auarc", "error/auroc", "error/aupr")
        for m in ("tu", "au", "eu", "eu_pc", "eu_so", "lconf")
    }
    test = small_graph.nodes(Part.TEST)
    predicted = random_posterior(small_graph).mean.argmax(1)
    assert result.metrics["test/accuracy"] == pytest.approx((predicted == small_graph.labels)[test].float().mean())
    validation = small_graph.nodes(Part.VAL)
    assert result.metrics["val/accuracy"] == pytest.approx((predicted == small_graph.labels)[validation].float().mean())
    assert result.curves["arc/tu"][0] == pytest.approx(result.metrics["test/accuracy"])


def test_a_first_order_posterior_has_first_order_metrics_only(small_graph):
    result = evaluate(Categorical(torch.log(random_posterior(small_graph).mean)), small_graph)
    assert set(result.curves) == {"arc/tu", "arc/lconf"}
    assert not [key for key in result.metrics if key.endswith(("/au", "/eu", "/eu_pc", "/eu_so"))]
    assert list(result.predictions.columns)[-2:] == ["tu", "lconf"]


def test_feature_scenarios_divide_the_test_nodes(small_graph):
    graph = gaussian(small_graph, seed=0)
    result = evaluate(random_posterior(graph), graph)
    table = result.predictions.query("part == 'test'")
    correct = table["predicted"] == table["label"]
    assert result.metrics["id/accuracy"] == pytest.approx(correct[~table["is_ood"]].mean())
    assert result.metrics["ood/accuracy"] == pytest.approx(correct[table["is_ood"]].mean())
    assert result.metrics["test/accuracy"] == pytest.approx(correct.mean())
    assert result.metrics["ood/auroc/eu"] == pytest.approx(auroc(table["eu"].to_numpy(), table["is_ood"].to_numpy()))


def test_extra_measures_of_a_posterior_are_evaluated(small_graph):
    graph = gaussian(small_graph, seed=0)
    result = evaluate(random_posterior(graph, ExtraMeasure), graph)
    plain = evaluate(random_posterior(graph), graph)
    paths = ("test/auarc", "error/auroc", "error/aupr", "ood/auroc", "ood/aupr", "ood/fpr95", "change")
    new = {f"{path}/vacuity" for path in paths}
    assert set(result.metrics) - set(plain.metrics) == new
    assert plain.metrics.items() <= result.metrics.items()
    assert set(result.curves) - set(plain.curves) == {"arc/vacuity"}
    # Vacuity is K / alpha_0 and EU_PC is -alpha_0: they rank nodes in the same order.
    assert result.metrics["ood/auroc/vacuity"] == result.metrics["ood/auroc/eu_pc"]


def test_a_measure_with_the_name_of_a_column_is_refused(small_graph):
    with pytest.raises(InputError, match="a measure is named 'confidence'"):
        evaluate(random_posterior(small_graph, ReservedMeasure), small_graph)


def test_left_out_classes_are_never_predicted_and_do_not_count_in_test(small_graph):
    graph = leave_out_classes(small_graph, left_out_classes=1)
    result = evaluate(random_posterior(graph), graph)
    assert result.metrics["ood/accuracy"] == 0
    assert result.metrics["test/accuracy"] == result.metrics["id/accuracy"]


def test_a_split_without_test_nodes_is_refused(small_graph):
    graph = small_graph.replace(part=small_graph.part.masked_fill(small_graph.part == Part.TEST, Part.NONE))
    with pytest.raises(InputError, match="no labelled test nodes") as info:
        evaluate(random_posterior(graph), graph)
    assert (info.value.parameter, info.value.suggestion) == ("split", "random")


def test_ood_nodes_are_not_detected_without_others_to_compare_with(small_graph):
    graph = small_graph.replace(is_ood=torch.ones_like(small_graph.is_ood))
    metrics = evaluate(random_posterior(graph), graph).metrics
    assert [key for key in metrics if key.startswith(("id/", "ood/"))] == ["ood/accuracy"]
    assert metrics["ood/accuracy"] == metrics["test/accuracy"]
    graph = small_graph.replace(is_ood=small_graph.part == Part.TRAIN)
    metrics = evaluate(random_posterior(graph), graph).metrics
    assert not [key for key in metrics if key.startswith(("id/", "ood/"))]


def test_errors_are_detected_as_scikit_learn_measures_it(small_graph):
    result = evaluate(random_posterior(small_graph), small_graph)
    table = result.predictions.query("part == 'test'")
    is_error = table["predicted"] != table["label"]
    assert result.metrics["error/auroc/tu"] == pytest.approx(reference.roc_auc_score(is_error, table["tu"]))
    assert result.metrics["error/aupr/tu"] == pytest.approx(reference.average_precision_score(is_error, table["tu"]))


def test_a_measure_that_is_not_finite_is_refused(small_graph):
    alpha = random_posterior(small_graph).alpha
    alpha[7, 1] = float("nan")
    with pytest.raises(InputError, match="node 7"):
        evaluate(Dirichlet(alpha), small_graph)
