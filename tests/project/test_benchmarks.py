"""The arithmetic of the benchmark; CI runs the benchmark itself."""

import pytest

from benchmarks.epochs import plan_training, summarise
from benchmarks.report import draw_epochs, draw_scaling, format_epochs, format_scaling
from benchmarks.scaling import QUANTITIES, fit_exponents


@pytest.fixture
def epochs():
    seconds = {"baseline": [8.0, 10.0, 30.0], "project": [0.5, 0.5, 0.5], "floor": [0.1, 0.25, 0.25]}
    return list(summarise("lop_gpn", "digits", seconds, threads=1))


@pytest.fixture
def scaling():
    return [
        {"what": what, "num_nodes": size, "value": factor * size**1.25, "threads": 1}
        for factor, what in enumerate(QUANTITIES, start=1)
        for size in (1000, 3000, 50_000)
    ]


def test_ratios_are_between_medians_and_relative_to_the_project(epochs):
    medians = {record["what"]: (record["seconds"], record["ratio"]) for record in epochs}
    assert medians == {"baseline": (10.0, 20.0), "project": (0.5, 1.0), "floor": (0.25, 0.5)}
    spread = {record["what"]: record["spread"] for record in epochs}
    assert spread["project"] == 0
    assert spread["baseline"] == pytest.approx((30 - 8) / 2 / 10)  # quartiles of three values: the outer two


def test_exponent_of_a_power_law_is_recovered(scaling):
    assert fit_exponents(scaling) == pytest.approx(dict.fromkeys(QUANTITIES, 1.25))


def test_tables_and_figures_show_the_ratios(epochs, scaling, tmp_path):
    assert "20.0x" in format_epochs(epochs)
    assert "2.0x" in format_epochs(epochs)
    assert format_scaling(scaling).count("1.25") == len(QUANTITIES)
    draw_epochs(epochs, tmp_path / "epochs.png")
    draw_scaling(scaling, tmp_path / "scaling.png")
    assert all((tmp_path / name).stat().st_size > 10_000 for name in ("epochs.png", "scaling.png"))


@pytest.mark.parametrize("model", ["lop_gpn", "gpn_sym", "appnp"])
def test_measured_training_has_the_given_number_of_epochs_and_a_validation_in_each(model):
    plan = plan_training(f"model={model}", "dataset=ogbn_arxiv", num_epochs=7)
    assert (plan.trainer.max_epochs, plan.trainer.validate_every) == (7, 1)
    assert plan.trainer.patience > 7
    assert plan.optimizer.options()["warmup_epochs"] == 0
