"""Every config file composes, passes the schema, and says where its values come from."""

import re
from typing import get_type_hints

import pytest

from lopgpn_exp.cli import config_dir
from lopgpn_exp.experiment.build import plan
from lopgpn_exp.experiment.schema import OptimizerConfig
from lopgpn_exp.training import NodeClassification
from tests.test_models import composed


def choices(group: str) -> list[str]:
    return sorted(path.stem for path in (config_dir() / group).glob("*.yaml"))


ALL = [
    f"{group}={choice}"
    for group in ("model", "dataset", "split", "ood", "trainer", "tracking")
    for choice in choices(group)
]


@pytest.mark.parametrize("choice", ALL)
def test_every_choice_makes_a_plan(choice):
    group, _, name = choice.partition("=")
    planned = plan(composed(choice))
    named = {"model": planned.model, "dataset": planned.dataset, "ood": planned.scenario}
    assert named.get(group, name) == name  # file, config value and tag are the same word


def test_the_names_of_the_issue_are_all_there():
    assert {"lop_gpn", "gpn_sym", "gpn_rw", "appnp"} <= set(choices("model"))
    assert set(choices("dataset")) == {
        "cora_ml",
        "citeseer",
        "pubmed",
        "amazon_photos",
        "amazon_computers",
        "ogbn_arxiv",
        "digits",
        "synthetic",
        "custom",
    }
    assert set(choices("ood")) == {
        "none",
        "leave_out_classes",
        "bernoulli",
        "gaussian",
        "feature_dropout",
        "feature_noise",
    }


@pytest.mark.parametrize("name", choices("model"))
def test_every_value_of_a_model_names_its_source(name):
    for line in (config_dir() / "model" / f"{name}.yaml").read_text().splitlines():
        if re.match(r"\s*\w+: \S", line) and not re.match(r"(name|_target_):", line):
            assert "#" in line, f"{name}: {line!r} says nothing of its source"


def test_an_optimizers_values_are_those_that_the_training_takes():
    taken = get_type_hints(NodeClassification.__init__)
    ours = ("model_class", "model_options", "trained_on", "return")
    assert get_type_hints(OptimizerConfig) == {key: kind for key, kind in taken.items() if key not in ours}


def test_pi_is_exact_where_the_paper_has_it_exact():
    deltas = {name: composed(f"dataset={name}").model.prune_threshold for name in choices("dataset")}
    assert {name for name, delta in deltas.items() if delta == 0} == {"cora_ml", "citeseer"}
    assert set(deltas.values()) == {0.0, 0.01}
    assert "prune_threshold" not in composed("dataset=cora_ml", "model=gpn_sym").model


def test_ogbn_arxiv_brings_its_split_and_validation_and_can_be_overruled():
    config = composed("dataset=ogbn_arxiv")
    assert (config.split.name, config.trainer.validate_every, config.trainer.patience) == ("official", 10, 5)
    assert composed("dataset=ogbn_arxiv", "split=random").split.name == "random"
    assert composed("dataset=pubmed").split.name == "random"


def test_left_out_classes_are_the_datasets_own():
    published = {"cora_ml": 3, "citeseer": 2, "pubmed": 1, "amazon_photos": 3, "amazon_computers": 5, "ogbn_arxiv": 15}
    for name, count in published.items():
        assert composed(f"dataset={name}", "ood=leave_out_classes").ood.left_out_classes == count


def test_the_splits_and_scenarios_of_a_run_do_not_depend_on_the_model():
    plans = [plan(composed(f"model={name}", "ood=gaussian", "split.index=4")) for name in choices("model")]
    assert len({planned.scenario_options["seed"] for planned in plans}) == 1
    assert plan(composed("ood=gaussian", "split.index=5")).scenario_options != plans[0].scenario_options
    assert plan(composed("ood=gaussian", "split.index=4", "init=3")).scenario_options == plans[0].scenario_options
