"""Every config file composes, passes the schema, and documents where its values come from."""

import re
from typing import get_type_hints

import pytest

from lopgpn_exp.config import default_config_dir
from lopgpn_exp.config.plan import plan_run
from lopgpn_exp.config.schema import OptimizerConfig
from lopgpn_exp.report.names import DATASET_NAMES, SCENARIO_NAMES
from lopgpn_exp.training import NodeClassification
from tests.support import ROOT, compose, config_names

GROUPS = ("model", "dataset", "split", "ood", "protocol", "trainer", "tracking")


def test_a_checkout_uses_the_configs_beside_the_package():
    assert default_config_dir() == ROOT / "conf"


@pytest.mark.parametrize("choice", [f"{group}={name}" for group in GROUPS for name in config_names(group)])
def test_every_config_can_be_planned(choice):
    group, _, name = choice.partition("=")
    config = compose(choice, *(["dataset=cora_ml"] if name.startswith("os_") else []))  # it names these sets of classes
    plan_run(config)
    names = {"protocol": name} | {group: config[group]["name"] for group in ("model", "dataset", "split", "ood")}
    assert names.get(group, name) == name  # the file and the value `name` in it are the same word


def test_models_datasets_and_scenarios_of_the_paper_exist():
    assert {"lop_gpn", "gpn_sym", "gpn_rw", "appnp"} <= set(config_names("model"))
    assert set(DATASET_NAMES) <= set(config_names("dataset"))
    assert {*SCENARIO_NAMES, "feature_dropout", "feature_noise"} <= set(config_names("ood"))


def keys_without_source(text: str) -> list[str]:
    """Return the keys whose value has no comment and is not in a range that a comment covers.

    A comment above several values names the last of them (`From here to teleport, and the optimizer: ...`) or all of
    them (`All values ...`); one beside a value may include the following ones (`like the next two`).
    """
    missing: list[str] = []
    last_covered, covers_optimizer, num_next = "", False, 0
    for line in text.splitlines():
        if heading := re.match(r"# (?:From here to (\w+)(, and the optimizer)?|(All) values)\b", line):
            last_covered = heading[1] or "the end of the file"
            covers_optimizer = bool(heading[2] or heading[3])
        value = re.match(r"( *)(\w+): [^#\s][^#]*(#.*)?$", line)
        if value is None or value[2] in ("name", "_target_"):
            continue
        indent, key, comment = value.groups()
        is_covered = covers_optimizer if indent else bool(last_covered)
        if not (comment or is_covered or num_next):
            missing.append(key)
        num_next = 2 if comment and "like the next two" in comment else max(num_next - 1, 0)
        if key == last_covered:
            last_covered = ""
    return missing


@pytest.mark.parametrize("name", config_names("model"))
def test_every_value_of_a_model_config_names_its_source(name):
    assert keys_without_source((ROOT / "conf" / "model" / f"{name}.yaml").read_text()) == []


def test_value_of_a_model_config_without_source_is_found():
    text = "# From here to b: paper\na: 1\nb: 2\nc: 3\nd: 4 # ours, like the next two\ne: 5\nf: 6\ng: 7\nx:\n  h: 8\n"
    assert keys_without_source(text) == ["c", "g", "h"]
    assert keys_without_source(text.replace("to b:", "to c, and the optimizer:")) == ["g"]


def test_optimizer_options_are_those_of_the_training_module():
    parameters = get_type_hints(NodeClassification.__init__)
    not_options = ("model_class", "model_options", "trained_on", "return")
    expected = {key: annotation | None for key, annotation in parameters.items() if key not in not_options}
    assert get_type_hints(OptimizerConfig) == expected


def test_ppr_matrix_is_pruned_except_on_the_datasets_where_the_paper_does_not():
    thresholds = {name: compose(f"dataset={name}")["model"]["prune_threshold"] for name in config_names("dataset")}
    assert {name for name, threshold in thresholds.items() if threshold == 0} == {"cora_ml", "citeseer"}
    assert set(thresholds.values()) == {0.0, 0.01}
    assert "prune_threshold" not in compose("dataset=cora_ml", "model=gpn_sym")["model"]


def test_ogbn_arxiv_sets_its_split_and_validation_which_can_be_overridden():
    config = compose("dataset=ogbn_arxiv")
    trainer = config["trainer"]
    assert (config["split"]["name"], trainer["validate_every"], trainer["patience"]) == ("official", 10, 5)
    assert compose("dataset=ogbn_arxiv", "split=random")["split"]["name"] == "random"
    assert compose("dataset=pubmed")["split"]["name"] == "random"


def test_number_of_left_out_classes_depends_on_the_dataset():
    published = {"cora_ml": 3, "citeseer": 2, "pubmed": 1, "amazon_photos": 3, "amazon_computers": 5, "ogbn_arxiv": 15}
    for name, count in published.items():
        assert compose(f"dataset={name}", "ood=leave_out_classes")["ood"]["left_out_classes"] == count


def test_scenario_of_a_split_is_the_same_for_every_model_and_initialisation():
    plans = [plan_run(compose(f"model={name}", "ood=gaussian", "split.index=4")) for name in config_names("model")]
    assert len({plan.scenario_options["seed"] for plan in plans}) == 1
    assert plan_run(compose("ood=gaussian", "split.index=5")).scenario_options != plans[0].scenario_options
    assert plan_run(compose("ood=gaussian", "split.index=4", "init=3")).scenario_options == plans[0].scenario_options
