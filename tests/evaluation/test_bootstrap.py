"""The paired bootstrap over test nodes against the metrics themselves, scikit-learn and known coverage."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from lopgpn_exp.evaluation.bootstrap import bootstrap_errors, build_node_metrics, compute_metric, draw_counts
from lopgpn_exp.evaluation.metrics import accuracy_rejection_curve, area_under_curve, expected_calibration_error
from tests.support.random_runs import NUM_CLASSES, compute_metrics, random_nodes


def select_test_rows(table, scenario):
    """The test nodes, and whether the model can predict their class."""
    nodes = table[table["part"] == "test"].reset_index(drop=True)
    is_unknown = (nodes["label"] == NUM_CLASSES - 1) & (scenario == "leave_out_classes")
    return nodes, ~is_unknown.to_numpy()


@pytest.mark.parametrize("scenario", ["none", "bernoulli", "leave_out_classes"])
def test_drawing_every_node_once_gives_the_metrics_themselves(scenario):
    """Equal measures, unknown classes and all: the weighted metrics are those that evaluate runs."""
    table = random_nodes(3, scenario=scenario)
    expected = compute_metrics(table, scenario)
    nodes, has_known_class = select_test_rows(table, scenario)
    functions = build_node_metrics(nodes, has_known_class, list(expected))
    assert set(functions) == set(expected) - {"test/nll"}
    values = {metric: compute_metric(function, len(nodes)) for metric, function in functions.items()}
    assert values == pytest.approx({metric: expected[metric] for metric in functions}, abs=1e-12)


def test_extra_measures_are_metrics_and_names_are_not():
    nodes, has_known_class = select_test_rows(random_nodes(3), "bernoulli")
    names = ["test/auarc/tu", "test/auarc/mine", "test/auarc/id", "test/auarc/label_name", "ood/auroc/mine"]
    named = nodes.assign(id="x", label_name="y", predicted_name="z", mine=nodes["tu"])
    functions = build_node_metrics(named, has_known_class, names)
    assert set(functions) == {"test/auarc/tu", "test/auarc/mine", "ood/auroc/mine"}
    areas = [compute_metric(functions[f"test/auarc/{m}"], len(nodes)) for m in ("tu", "mine")]
    assert areas[0] == areas[1]


@pytest.mark.parametrize("scenario", ["bernoulli", "leave_out_classes"])
def test_metrics_of_samples_are_those_of_the_nodes_drawn(scenario):
    """Against scikit-learn and the evaluation's own functions, on nodes repeated as often as they are drawn."""
    nodes, has_known_class = select_test_rows(random_nodes(5, scenario=scenario), scenario)
    names = ["ood/auroc/tu", "test/auarc/eu", "test/ece", "id/accuracy"]
    functions = build_node_metrics(nodes, has_known_class, names)
    blocks = list(draw_counts(len(nodes), num_samples=20, seed=7))
    values = {name: np.concatenate([functions[name](block) for block in blocks]) for name in names}
    generator = np.random.default_rng(7)
    for i in range(20):
        drawn = generator.integers(len(nodes), size=len(nodes))
        sample, known_sample = nodes.iloc[drawn], nodes.iloc[drawn][has_known_class[drawn]]
        is_ood = sample["is_ood"].to_numpy()
        assert values["ood/auroc/tu"][i] == pytest.approx(roc_auc_score(is_ood, sample["tu"]))
        correct = (known_sample["predicted"] == known_sample["label"]).to_numpy()
        curve = accuracy_rejection_curve(known_sample["eu"].to_numpy(), correct)
        assert values["test/auarc/eu"][i] == pytest.approx(area_under_curve(curve))
        ece = expected_calibration_error(known_sample["confidence"].to_numpy(), correct)
        assert values["test/ece"][i] == pytest.approx(ece)
        correct = (sample["predicted"] == sample["label"]).to_numpy()
        assert values["id/accuracy"][i] == pytest.approx(correct[~is_ood].mean())


def test_the_block_size_does_not_change_the_samples(monkeypatch):
    expected = np.concatenate(list(draw_counts(50, num_samples=30, seed=1)))
    monkeypatch.setattr("lopgpn_exp.evaluation.bootstrap.BLOCK_SIZE", 200)
    blocks = list(draw_counts(50, num_samples=30, seed=1))
    assert len(blocks) == 8
    np.testing.assert_array_equal(np.concatenate(blocks), expected)
    assert (expected.sum(axis=1) == 50).all()


def test_intervals_contain_the_true_difference_as_often_as_they_should():
    """Two models of equal AUC-ROC, 200 times: about 95 % of the intervals contain 0 (binomial: 183 to 197 at 99 %)."""
    generator, covered = np.random.default_rng(0), 0
    for trial in range(200):
        is_ood = generator.random(300) < 0.3
        frame = pd.DataFrame({"is_ood": is_ood, "label": 0, "predicted": 0, "confidence": 0.5})
        tables = [frame.assign(tu=generator.normal(size=300) + is_ood) for _ in range(2)]
        first, second = (build_node_metrics(table, np.full(300, True), ["ood/auroc/tu"]) for table in tables)
        error = bootstrap_errors(first, second, 300, num_samples=200, seed=trial)["ood/auroc/tu"]
        values = [roc_auc_score(is_ood, table["tu"]) for table in tables]
        covered += abs(values[1] - values[0]) < 1.96 * error
    assert 181 <= covered <= 198
