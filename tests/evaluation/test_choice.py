"""The choice of a method: intervals against closed forms, and what each step of the rule decides."""

import numpy as np
import pandas as pd
import pytest

from lopgpn_exp.evaluation.choice import ACCURACY, CALIBRATION, REJECTION, choose_method, score_method
from lopgpn_exp.evaluation.statistics import adjust_holm
from lopgpn_exp.records import RunResult
from tests.support.random_runs import RandomRun

NUM_NODES = 400  # per half


def make_run(half: int, correct: np.ndarray, confidence: np.ndarray, uncertainty: np.ndarray) -> RandomRun:
    n = len(correct)
    table = pd.DataFrame(
        {"node": np.arange(n), "part": "test", "label": 0, "predicted": np.where(correct, 0, 1)}
        | {"confidence": confidence, "is_ood": False, "tu": uncertainty}
    )
    unlabelled = table.head(5).assign(label=-1)  # nodes that count nowhere
    training = table.head(5).assign(part="train", predicted=1)
    return RandomRun(
        RunResult(
            run_id=f"run-{half}",
            model="any",
            dataset="any",
            split=half,
            init=0,
            scenario="none",
            metrics={"test/nll": 0.5 + half, "test/brier": 0.2},
            curves={},
            epochs=1,
            seconds={"load": 9.0, "prepare": 1.0, "train": 2.0 + half, "evaluate": 0.5},
            peak_rss_mb=100.0 + half,
            versions={},
            training_id="t",
        ),
        pd.concat([table, unlabelled, training], ignore_index=True),
    )


def make_method(name: str, accuracy: float = 0.8, *, seed: int = 0, uses_edges=True, halves=(0, 1), **options):
    """A method whose errors are drawn by seed; `knows` ranks its errors last, `gap` is its overconfidence."""
    runs = {}
    for half in halves:
        rng = np.random.default_rng([seed, half])
        correct = rng.random(NUM_NODES) < accuracy
        confidence = np.full(NUM_NODES, min(accuracy + options.get("gap", 0.0), 1.0))
        noise = rng.random(NUM_NODES)
        runs[half] = make_run(half, correct, confidence, noise + 2 * ~correct if options.get("knows") else noise)
    return score_method(name, runs, declared_total="tu", uses_edges=uses_edges)


def test_intervals_of_accuracy_and_of_differences_are_the_analytic_ones():
    first, second = make_method("a", 0.8, seed=1), make_method("b", 0.7, seed=2)
    tables = [
        [np.random.default_rng([seed, half]).random(NUM_NODES) < accuracy for half in (0, 1)]
        for seed, accuracy in ((1, 0.8), (2, 0.7))
    ]
    rates = np.array([correct.mean() for correct in tables[0]])
    error = np.sqrt((rates * (1 - rates) / NUM_NODES).sum()) / 2
    estimate = first.estimate(ACCURACY)
    assert estimate.value == pytest.approx(rates.mean())
    assert (estimate.high - estimate.low) / 2 == pytest.approx(1.96 * error, rel=0.07)
    # The variance of a paired difference: the nodes on which exactly one method is right (McNemar).
    gaps = [a.astype(float) - b for a, b in zip(*tables, strict=True)]
    error = np.sqrt(sum(gap.var() / NUM_NODES for gap in gaps)) / 2
    difference = first.compare(second, ACCURACY)
    assert difference.value == pytest.approx(np.mean(gaps))
    assert (difference.high - difference.low) / 2 == pytest.approx(1.96 * error, rel=0.07)
    assert first.nodes == 2 * NUM_NODES  # without unlabelled and training nodes
    assert (first.seconds, first.peak_mb) == (4.0, 101.0)  # means without loading, and the largest
    assert first.means == {"test/nll": 1.0, "test/brier": 0.2}


def test_the_interval_of_a_share_stays_within_0_and_1():
    """One error in 400 nodes: the normal interval of the accuracy would end at 100.1 %."""
    correct = np.arange(NUM_NODES) > 0
    run = make_run(0, correct, confidence=np.full(NUM_NODES, 0.9975), uncertainty=np.zeros(NUM_NODES))
    method = score_method("a", {0: run}, declared_total="tu", uses_edges=True)
    accuracy, ece = method.estimate(ACCURACY), method.estimate(CALIBRATION)
    assert accuracy.value == pytest.approx(0.9975)
    assert accuracy.high == 1.0
    assert ece.low == 0.0
    perfect = score_method(
        "b", {0: make_run(0, correct | True, correct * 1.0, correct * 1.0)}, declared_total="tu", uses_edges=True
    )
    assert perfect.compare(method, ACCURACY).high > 0.0025  # a difference keeps its whole interval


def test_methods_are_compared_on_the_halves_that_both_have():
    both, one = make_method("a", seed=1), make_method("b", seed=2, halves=(1,))
    expected = both.halves[1][ACCURACY].value - one.halves[1][ACCURACY].value
    assert both.compare(one, ACCURACY).value == pytest.approx(expected)


def test_the_simplest_of_equal_methods_is_chosen():
    methods = [make_method(name, seed=seed) for seed, name in enumerate("abc")]
    assert choose_method(methods).winner == "a"
    choice = choose_method(methods[::-1])
    assert choice.winner == "c"
    assert choice.remaining == ["c", "b", "a"]
    assert choice.graph_effect is None


@pytest.mark.parametrize(
    ("simple", "better", "criterion"),
    [
        ({"accuracy": 0.6, "knows": True}, {"accuracy": 0.9, "gap": 0.1}, ACCURACY),  # accuracy goes first
        ({"gap": 0.0}, {"knows": True, "gap": 0.2}, REJECTION),  # and rejection before calibration
        ({"gap": 0.15}, {"gap": 0.0}, CALIBRATION),
    ],
)
def test_a_method_drops_out_at_the_first_criterion_at_which_it_is_worse(simple, better, criterion):
    choice = choose_method([make_method("simple", **simple), make_method("better", **better)])
    assert choice.winner == "better"
    assert [step.criterion for step in choice.steps if "simple" in step.worse] == [criterion]


@pytest.mark.parametrize(("accuracy", "verdict"), [(0.9, "helps"), (0.55, "hurts"), (0.7, "unclear")])
def test_the_effect_of_the_graph(accuracy, verdict):
    methods = [make_method("mlp", 0.7, uses_edges=False), make_method("gcn", accuracy, seed=1)]
    effect = choose_method(methods).graph_effect
    assert (effect.with_edges, effect.without_edges, effect.verdict) == ("gcn", "mlp", verdict)


def test_holm_adjusts_for_the_number_of_comparisons():
    assert adjust_holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert adjust_holm([0.7, 0.6]) == [1.0, 1.0]
    assert adjust_holm([]) == []
