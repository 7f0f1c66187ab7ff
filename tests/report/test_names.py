"""Display names and colours, also of what a user adds."""

from lopgpn_exp.evaluation.metrics import PER_MEASURE
from lopgpn_exp.measures import find_measure, measure_names
from lopgpn_exp.report import names


def test_own_models_and_measures_have_a_name_and_a_lasting_colour():
    assert names.model_name("mine") == "mine"
    assert names.measure_name("mine") == "mine"
    assert names.model_color("lop_gpn") == names.MODEL_COLORS["lop_gpn"]
    assert names.measure_color("tu") == find_measure("tu").color
    assert names.model_color("mine") == names.measure_color("mine") == "#BBBBBB"
    together = names.model_colors(["lop_gpn", *(f"lop_gpn teleport 0.{i}" for i in range(6))])
    assert together["lop_gpn"] == names.MODEL_COLORS["lop_gpn"]
    assert len(set(together.values())) == 7
    assert len(names.model_colors(map(str, range(20)))) == 20  # more models than colours are not an error
    assert not set(names.OTHER_COLORS) & {*names.MODEL_COLORS.values(), *map(names.measure_color, measure_names())}


def test_metrics_have_names():
    assert names.metric_name("test/ece") == "ECE"
    assert names.metric_name("ood/auroc/eu_so") == "AUC-ROC EU_SO"
    assert names.metric_name("change/mine") == "change mine"
    assert names.metric_name("something/else") == "something/else"
    assert [names.measure_column(path) for path in PER_MEASURE][:2] == ["AUARC", "OOD AUC-ROC"]


def test_measures_are_found_in_the_papers_order_then_in_their_own():
    keys = ["arc/mine", "arc/eu", "other/tu", "arc/a_second", "arc/tu"]
    assert names.find_measures(keys, "arc") == ["tu", "eu", "mine", "a_second"]
