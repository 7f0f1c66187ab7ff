import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss, log_loss

from lopgpn_exp.data.scenarios import gaussian, leave_out_classes
from lopgpn_exp.errors import InputError
from lopgpn_exp.evaluation import evaluate
from lopgpn_exp.evaluation.classification import brier_score, expected_calibration_error
from lopgpn_exp.evaluation.detection import aupr, auroc, fpr95, relative_change
from lopgpn_exp.evaluation.rejection import accuracy_rejection_curve, area_under_curve
from lopgpn_exp.graph import Part
from lopgpn_exp.posterior import Categorical, Dirichlet


def test_rejection_curve_by_hand_with_ties():
    """Four nodes, uncertainties 1, 2, 2, 3, right, right, wrong, wrong.

    Kept 4: 2/4. Kept 3: 2/3. Kept 2: the first and one of the tied pair, right half of the time: 1.5/2. Kept 1: 1.
    """
    curve = accuracy_rejection_curve(np.array([2.0, 3.0, 1.0, 2.0]), np.array([True, False, True, False]))
    assert curve.shape == (100,)
    np.testing.assert_allclose(curve[[0, 24, 25, 49, 50, 74, 75, 99]], [1 / 2, 1 / 2, 2 / 3, 2 / 3, 0.75, 0.75, 1, 1])


def test_all_tied_gives_a_flat_curve_and_its_area():
    curve = accuracy_rejection_curve(np.zeros(7), np.array([1, 0, 1, 1, 0, 0, 0], dtype=bool))
    np.testing.assert_allclose(curve, 3 / 7)
    assert area_under_curve(curve) == pytest.approx(3 / 7)


def test_area_by_hand():
    """A straight line from 0.5 to 1 has mean height 0.75."""
    assert area_under_curve(np.linspace(0.5, 1, 100)) == pytest.approx(0.75)


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=40), st.randoms())
@settings(max_examples=60, deadline=None)
def test_ties_count_as_the_average_over_orders(pairs, random):
    """Against a plain mean over shuffled orders, sorted by a stable sort each."""
    uncertainty = np.array([float(u) for u, _ in pairs])
    correct = np.array([c for _, c in pairs])
    curve = accuracy_rejection_curve(uncertainty, correct)
    rng = np.random.default_rng(random.randint(0, 2**31))
    kept = np.ceil((100 - np.arange(100)) * len(pairs) / 100).astype(int)
    orders = [rng.permutation(len(pairs)) for _ in range(400)]
    runs = [np.cumsum(correct[o][np.argsort(uncertainty[o], kind="stable")])[kept - 1] / kept for o in orders]
    spread = np.std(runs, axis=0) / 20
    assert (np.abs(np.mean(runs, axis=0) - curve) <= 5 * spread + 1e-9).all()


def test_rejection_does_not_depend_on_the_order_of_nodes():
    rng = np.random.default_rng(0)
    uncertainty, correct = rng.integers(0, 10, 200).astype(float), rng.random(200) < 0.7
    order = rng.permutation(200)
    np.testing.assert_allclose(
        accuracy_rejection_curve(uncertainty, correct), accuracy_rejection_curve(uncertainty[order], correct[order])
    )


def test_detection_against_its_definition():
    """AUC-ROC is the chance that an OOD node is more uncertain than an ID node, ties counting half."""
    rng = np.random.default_rng(0)
    uncertainty, is_ood = rng.integers(0, 8, 120).astype(float), rng.random(120) < 0.3
    ood, inside = uncertainty[is_ood][:, None], uncertainty[~is_ood][None]
    assert auroc(uncertainty, is_ood) == pytest.approx(((ood > inside) + 0.5 * (ood == inside)).mean())
    thresholds = np.unique(uncertainty)[::-1]
    recall = np.array([(ood >= t).mean() for t in thresholds])
    precision = np.array([(ood >= t).sum() / (uncertainty >= t).sum() for t in thresholds])
    assert aupr(uncertainty, is_ood) == pytest.approx(np.sum(np.diff(recall, prepend=0) * precision))
    assert fpr95(uncertainty, is_ood) == pytest.approx((inside >= thresholds[recall >= 0.95][0]).mean())


def test_perfect_detection_points_the_right_way():
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
    one_vs_rest = sum(brier_score_loss(labels == k, mean[:, k]) for k in range(3))
    assert brier_score(mean, labels) == pytest.approx(one_vs_rest)
    posterior = Categorical(torch.log(torch.from_numpy(mean)))
    nll = posterior.cross_entropy(torch.from_numpy(labels)).mean().item()
    assert nll == pytest.approx(log_loss(labels, mean, labels=[0, 1, 2]))


def test_calibration_error_by_hand():
    """Two bins: 0.9 claimed and 1/2 right (gap 0.4 on two nodes), 0.6 claimed and right (gap 0.4 on one)."""
    error = expected_calibration_error(np.array([0.9, 0.9, 0.6]), np.array([True, False, True]), num_bins=5)
    assert error == pytest.approx((2 * 0.4 + 0.4) / 3)
    assert expected_calibration_error(np.array([1.0]), np.array([True])) == 0


def posterior_of(graph, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return Dirichlet(1 + 5 * torch.rand(graph.num_nodes, graph.num_classes, generator=generator))


def test_a_clean_graph_has_no_ood_numbers(small_graph):
    result = evaluate(posterior_of(small_graph), small_graph)
    assert set(result.metrics) == {"test/accuracy", "test/brier", "test/ece", "test/nll", "val/accuracy", "val/nll"} | {
        f"test/auarc/{m}" for m in ("tu", "au", "eu", "eu_pc", "eu_so", "lconf")
    }
    test = small_graph.nodes(Part.TEST)
    predicted = posterior_of(small_graph).mean.argmax(1)
    assert result.metrics["test/accuracy"] == pytest.approx((predicted == small_graph.labels)[test].float().mean())
    validation = small_graph.nodes(Part.VAL)
    assert result.metrics["val/accuracy"] == pytest.approx((predicted == small_graph.labels)[validation].float().mean())
    assert result.curves["arc/tu"][0] == pytest.approx(result.metrics["test/accuracy"])


def test_a_first_order_posterior_has_first_order_numbers_only(small_graph):
    result = evaluate(Categorical(torch.log(posterior_of(small_graph).mean)), small_graph)
    assert set(result.curves) == {"arc/tu", "arc/lconf"}
    assert not [key for key in result.metrics if key.endswith(("/au", "/eu", "/eu_pc", "/eu_so"))]
    assert list(result.predictions.columns)[-2:] == ["tu", "lconf"]


def test_feature_scenarios_split_the_test_nodes(small_graph):
    graph = gaussian(small_graph, seed=0)
    result = evaluate(posterior_of(graph), graph)
    table = result.predictions.query("part == 'test'")
    right = table["predicted"] == table["label"]
    assert result.metrics["id/accuracy"] == pytest.approx(right[~table["is_ood"]].mean())
    assert result.metrics["ood/accuracy"] == pytest.approx(right[table["is_ood"]].mean())
    assert result.metrics["test/accuracy"] == pytest.approx(right.mean())
    assert result.metrics["ood/auroc/eu"] == pytest.approx(auroc(table["eu"].to_numpy(), table["is_ood"].to_numpy()))


def test_left_out_classes_are_never_right_and_do_not_count_in_test(small_graph):
    graph = leave_out_classes(small_graph, left_out_classes=1)
    result = evaluate(posterior_of(graph), graph)
    assert result.metrics["ood/accuracy"] == 0
    assert result.metrics["test/accuracy"] == result.metrics["id/accuracy"]


def test_no_test_nodes_is_an_error(small_graph):
    graph = small_graph.replace(part=small_graph.part.masked_fill(small_graph.part == Part.TEST, Part.NONE))
    with pytest.raises(InputError, match="no labelled test nodes"):
        evaluate(posterior_of(graph), graph)


def test_a_measure_that_is_not_finite_never_reaches_a_table(small_graph):
    alpha = posterior_of(small_graph).alpha
    alpha[7, 1] = float("nan")
    with pytest.raises(InputError, match="node 7"):
        evaluate(Dirichlet(alpha), small_graph)
