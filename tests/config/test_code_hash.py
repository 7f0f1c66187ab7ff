"""The code of a user's model or scenario is part of a run's identity; comments and layout are not."""

import sys
from pathlib import Path

import pytest

from lopgpn_exp.config.code_hash import code_hash
from lopgpn_exp.config.compose import compose_config
from lopgpn_exp.config.plan import RunPlan, plan_run
from lopgpn_exp.config.signature import import_callable
from lopgpn_exp.runs.execute import locate_run, run
from tests.support import TINY, compose, config_names
from tests.support.user_code import MODEL, SCENARIO, UserProject, write_files


def model_hash(target: str = "own_module.Mine") -> str | None:
    return code_hash(import_callable(target, "model"), target)


@pytest.mark.parametrize(
    "changes",
    [
        {"own_module": MODEL.replace("super().forward(prepared)", "super().forward(prepared)[:]")},
        {"helper": "scale = 2\n"},
        {"own_module": MODEL.replace("class Mine(APPNP):", "class Mine(APPNP):\n    loss_reduction = 'sum'\n")},
    ],
    ids=["a method", "a helper", "an attribute"],
)
def test_changed_code_has_another_hash(user_project, changes):
    before = model_hash()
    user_project.write(**changes)
    assert model_hash() != before


@pytest.mark.parametrize(
    "changes",
    [
        {"own_module": f'"""A docstring."""\n{MODEL}  # a comment\n'},
        {"own_module": MODEL.replace("    def forward", '    """A docstring."""\n\n    def forward')},
        {"own_module": MODEL.replace("forward(prepared)\n", "forward(\n            prepared\n        )\n")},
        {"unrelated": "x = 2\n"},
    ],
    ids=["a comment", "a docstring", "layout", "a module that is not imported"],
)
def test_change_without_effect_keeps_the_hash(user_project, changes):
    before = model_hash()
    user_project.write(**changes)
    assert model_hash() == before


def test_imports_in_functions_and_packages_are_covered(user_project):
    lazy = MODEL.replace("        return", "        from package.inner import value  # noqa\n        return")
    hashes = set()
    for inner, outer in (("value = 1", ""), ("value = 2", ""), ("value = 2", "import helper")):
        write_files(user_project.folder, {"package/__init__.py": outer, "package/inner.py": inner})
        user_project.write(own_module=lazy)
        hashes.add(model_hash())
    assert len(hashes) == 3
    assert "package" not in sys.modules  # it is read, not imported


def test_hash_of_an_imported_module_does_not_change(user_project):
    """The file may be edited while a sweep runs in this process."""
    before = model_hash()
    Path(sys.modules["own_module"].__file__).write_text(MODEL + "x = 1\n")
    assert model_hash() == before


def plan(project: UserProject, *overrides: str) -> RunPlan:
    words = [*TINY, "model=mine", f"output_dir={project.folder / 'outputs'}", *overrides]
    return plan_run(compose_config(words, config_dir=project.config_dir))


def identity(project: UserProject, *overrides: str) -> tuple[str, str]:
    located = locate_run(plan(project, *overrides))
    return located.training_id, located.run_id


def test_code_and_code_version_of_a_model_are_part_of_the_identity(user_project):
    first = identity(user_project)
    user_project.write()
    assert identity(user_project) == first
    user_project.write(helper="scale = 2\n")
    second = identity(user_project)
    assert second[0] != first[0]
    assert second[1] != first[1]
    versioned = identity(user_project, "+model.code_version=1")
    assert versioned not in (first, second)
    user_project.write(helper="scale = 3\n")
    assert identity(user_project, "+model.code_version=1") == versioned
    assert identity(user_project, "+model.code_version=2") != versioned


def test_code_of_an_evaluation_scenario_changes_the_run_but_not_its_training(user_project):
    clean, first = identity(user_project), identity(user_project, "ood=flipped")
    user_project.write(own_scenario=SCENARIO.replace("-graph", "2 * graph"))
    second = identity(user_project, "ood=flipped")
    assert clean[0] == first[0] == second[0]
    assert len({clean[1], first[1], second[1]}) == 3


def test_runs_of_different_code_are_labelled_in_tables(user_project, command):
    for scale in (1, 2):
        user_project.write(helper=f"scale = {scale}\n")
        outcome = run(plan(user_project))
        assert not outcome.is_cached
        assert f"code_hash: {model_hash()}" in (outcome.folder / "config.yaml").read_text()
    assert run(plan(user_project)).is_cached
    assert command("results")[1].count("mine code_hash") == 2


@pytest.mark.parametrize("model", config_names("model"))
def test_models_and_scenarios_of_the_package_have_no_code_hash(model):
    """The numerics version identifies their code."""
    for scenario in ("none", "gaussian"):
        config = plan_run(compose(f"model={model}", f"ood={scenario}")).config
        assert "code_hash" not in config["model"] | config["ood"]
