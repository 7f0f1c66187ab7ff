"""Matplotlib figures: files that a run leaves, and files that are the same at every build."""

import pytest
from matplotlib.figure import Figure

from lopgpn_exp.report.figures import figure_to_svg, save_figure, save_run_figures
from tests.support.report_data import example_run


@pytest.mark.parametrize(("scenario", "files"), [("none", ["arc.png"]), ("bernoulli", ["arc.png", "ood.png"])])
def test_run_with_a_users_own_measure_has_its_figures(tmp_path, scenario, files):
    save_run_figures(tmp_path, example_run(scenario, "vacuity").evaluation, title="a run")
    assert sorted(path.name for path in tmp_path.iterdir()) == files


def draw() -> Figure:
    figure = Figure(layout="constrained")
    figure.subplots().plot([0, 1], [1, 3], label="a line")
    return figure


def test_the_same_figure_gives_the_same_bytes(tmp_path):
    contents = []
    for folder in (tmp_path / "first", tmp_path / "second"):
        folder.mkdir()
        paths = save_figure(draw(), folder, "plot")
        assert [path.name for path in paths] == ["plot.pdf", "plot.svg", "plot.png"]
        contents.append([path.read_bytes() for path in paths])
    assert contents[0] == contents[1]
    assert figure_to_svg(draw()) == figure_to_svg(draw())
    assert figure_to_svg(draw()).startswith("<svg")
