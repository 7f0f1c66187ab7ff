"""The noise of a difference: initialisations, splits, or nothing."""

import math

import pandas as pd
import pytest

from lopgpn_exp.paper.noise import compute_noise


def build_results(
    values: list[list[float]], *, model: str = "lop_gpn", scenario: str = "none", variant: str = ""
) -> pd.DataFrame:
    """Return accuracies by split and initialisation."""
    block = {"dataset": "cora_ml", "model": model, "scenario": scenario, "variant": variant}
    return pd.DataFrame(
        block | {"split": split, "init": init, "test/accuracy": value}
        for split, inits in enumerate(values)
        for init, value in enumerate(inits)
    )


def test_on_the_published_splits_only_initialisations_count():
    """Within splits the variances are 0.0002 and 0.0008; splits differ by much more. Four runs against ten networks."""
    results = build_results([[0.50, 0.52], [0.80, 0.84]])
    variance = (0.0002 + 0.0008) / 2
    expected = 100 * math.sqrt(variance * (1 / 4 + 1 / 10))
    assert compute_noise(results, same_splits=True).to_list() == pytest.approx([expected])


def test_on_other_splits_the_standard_error_over_splits_counts():
    noise = compute_noise(build_results([[0.50, 0.52], [0.80, 0.84]]), same_splits=False)
    assert noise.to_list() == pytest.approx([100 * (0.82 - 0.51) / 2])


def test_with_one_initialisation_the_standard_error_over_splits_counts():
    assert compute_noise(build_results([[0.5], [0.7]]), same_splits=True).to_list() == pytest.approx([10.0])
    partly = build_results([[0.5, 0.5], [0.7]])  # one repeated split says nothing about the other
    assert compute_noise(partly, same_splits=True).to_list() == pytest.approx([10.0])


@pytest.mark.parametrize(
    ("model", "scenario", "variant", "has_noise"),
    [
        ("gkde", "none", "", False),
        ("matern_ggp", "none", "", False),
        ("gpn_sym", "gaussian", "", True),
        ("gpn_sym", "gaussian", "recipe=untrained network", False),  # the networks of the public code are known
        ("gpn_sym", "leave_out_classes", "recipe=float32", True),
    ],
)
def test_there_is_no_noise_if_nothing_is_trained(model, scenario, variant, has_noise):
    results = build_results([[0.5, 0.6], [0.7, 0.9]], model=model, scenario=scenario, variant=variant)
    (noise,) = compute_noise(results, same_splits=True)
    assert math.isnan(noise) != has_noise
