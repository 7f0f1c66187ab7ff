"""A plan knows which graph is trained on and which is evaluated, and accepts a model wherever it is defined."""

from dataclasses import replace

import pytest
import torch

from lopgpn_exp.config.plan import config_hints, plan_run
from lopgpn_exp.config.schema import Stage
from lopgpn_exp.errors import InputError
from lopgpn_exp.models import APPNP
from lopgpn_exp.runs.execute import run
from lopgpn_exp.testing import CheckSettings, ModelUnderTest
from tests.support import TINY, compose


@pytest.mark.parametrize(
    ("scenario", "stage"),
    [("none", Stage.none), ("gaussian", Stage.evaluation), ("leave_out_classes", Stage.training)],
)
def test_scenario_changes_the_graphs_of_its_stage_once(scenario, stage):
    calls = []
    plan = plan_run(compose(*TINY, f"ood={scenario}"))
    plan = replace(plan, change_graph=lambda graph, change=plan.change_graph: calls.append(1) or change(graph))
    graphs = plan.load_graphs()
    assert plan.stage is stage
    assert not graphs.clean.is_ood.any()
    for _ in range(2):
        assert (graphs.training is graphs.clean) == (stage is not Stage.training)
        assert (graphs.evaluation is graphs.training) == (stage is not Stage.evaluation)
    assert bool(graphs.evaluation.is_ood.any()) == (stage is not Stage.none)
    assert len(calls) == (stage is not Stage.none)


def test_training_scenario_hides_classes_from_training_and_evaluation_alike():
    graphs = plan_run(compose(*TINY, "ood=leave_out_classes")).load_graphs()
    assert (graphs.clean.num_classes, graphs.training.num_classes, graphs.evaluation.num_classes) == (4, 2, 2)


def test_evaluation_scenario_leaves_the_training_graph_clean():
    graphs = plan_run(compose(*TINY, "ood=gaussian")).load_graphs()
    changed = (graphs.evaluation.features != graphs.training.features).any(dim=1)
    assert torch.equal(changed, graphs.evaluation.is_ood)


class Outer:
    class Inner(APPNP):
        pass


def test_class_nested_in_a_class_is_planned_trained_and_checked(tmp_path):
    target = f"{__name__}.Outer.Inner"
    plan = plan_run(compose(*TINY, "model=appnp", f"model._target_={target}", f"output_dir={tmp_path}"))
    assert plan.model_class == target
    assert run(plan).result.epochs > 0
    subject = ModelUnderTest.from_class(Outer.Inner, {}, CheckSettings(epochs=1))
    assert subject.type is Outer.Inner
    assert type(subject.first_fit.model) is Outer.Inner


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (InputError("x", expected="y", parameter="teleport", suggestion=0.1), "model.teleport=0.1"),
        (InputError("x", expected="y", parameter="teleport"), "model.teleport=VALUE"),
        (InputError("x", expected="y", parameter="teleport", suggestion=0), "model.teleport=0"),
        (InputError("x", expected="y", parameter="output_dir", suggestion="FOLDER"), "output_dir=FOLDER"),
        (InputError("x", expected="y", parameter="teleport", hint="in plain words"), "in plain words"),
        (InputError("x", expected="y"), ""),
    ],
)
def test_config_adds_the_key_of_the_parameter_to_an_error(error, hint):
    with pytest.raises(InputError) as caught, config_hints("model"):
        raise error
    assert (caught.value.hint, caught.value.what, caught.value.expected) == (hint, "x", "y")
    assert ("try:" in str(caught.value)) == bool(hint)
