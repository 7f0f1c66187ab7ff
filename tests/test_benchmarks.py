"""The benchmark's arithmetic; the benchmark itself is run by CI."""

import pytest

from benchmarks.epochs import _records
from benchmarks.report import draw_epochs, draw_scaling, epoch_table, scaling_table
from benchmarks.scaling import QUANTITIES, exponents


@pytest.fixture
def epochs():
    seconds = {"baseline": [8.0, 10.0, 30.0], "project": [0.5, 0.5, 0.5], "floor": [0.1, 0.25, 0.25]}
    return list(_records("lop_gpn", "digits", seconds, threads=1))


@pytest.fixture
def scaling():
    return [
        {"what": what, "num_nodes": size, "value": factor * size**1.25, "threads": 1}
        for factor, what in enumerate(QUANTITIES, start=1)
        for size in (1000, 3000, 50_000)
    ]


def test_ratios_are_of_medians_and_to_the_projects_own_time(epochs):
    found = {record["what"]: (record["seconds"], record["ratio"]) for record in epochs}
    assert found == {"baseline": (10.0, 20.0), "project": (0.5, 1.0), "floor": (0.25, 0.5)}
    spread = {record["what"]: record["spread"] for record in epochs}
    assert spread["project"] == 0
    assert spread["baseline"] == pytest.approx((30 - 8) / 2 / 10)  # quartiles of three values: the outer two


def test_a_power_law_has_its_exponent(scaling):
    assert exponents(scaling) == pytest.approx(dict.fromkeys(QUANTITIES, 1.25))


def test_tables_and_figures_show_the_ratios(epochs, scaling, tmp_path):
    assert "20.0x" in epoch_table(epochs)
    assert "2.0x" in epoch_table(epochs)
    assert scaling_table(scaling).count("1.25") == len(QUANTITIES)
    draw_epochs(epochs, tmp_path / "epochs.png")
    draw_scaling(scaling, tmp_path / "scaling.png")
    assert all((tmp_path / name).stat().st_size > 10_000 for name in ("epochs.png", "scaling.png"))
