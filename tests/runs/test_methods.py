"""Methods made from several trainings: post-hoc steps, ensembles and teachers share the trainings of other runs."""

import pandas as pd
import pytest
import torch

from lopgpn_exp import training
from lopgpn_exp.config.foreign_code import find_foreign_targets
from lopgpn_exp.config.plan import plan_run
from lopgpn_exp.errors import InputError
from lopgpn_exp.evaluation.trust import fit_validation_limits
from lopgpn_exp.graph import Part
from lopgpn_exp.runs.execute import check_composite, fit_model, locate_run, run
from lopgpn_exp.runs.finished_lookup import lookup_key
from lopgpn_exp.runs.prediction import predict_run
from lopgpn_exp.runs.saved_run import SavedRun
from tests.support import SMALL, TINY, compose, config_names, run_tiny

STEPS = [name for name in config_names("posthoc") if name != "none"]


@pytest.fixture
def fitted_classes(monkeypatch):
    """The model classes that are fitted from now on."""
    classes = []
    original = training.fit

    def record(*args, **options):
        classes.append(options["model_class"].rpartition(".")[2])
        return original(*args, **options)

    monkeypatch.setattr(training, "fit", record)
    return classes


@pytest.mark.parametrize("model", ["gnnsafe", "gebm", "gcn_dropout", "epn"])
def test_a_post_hoc_method_uses_the_training_of_its_model(tmp_path, fitted_classes, model):
    base = run_tiny(tmp_path, "model=gcn")
    assert fitted_classes == ["Classifier"]
    method = run_tiny(tmp_path, f"model={model}")
    assert fitted_classes == ["Classifier", "PostHocModel"]
    assert method.result.model == model
    assert method.result.epochs == base.result.epochs
    assert method.result.seconds["train"] >= base.result.seconds["train"]
    run_tiny(tmp_path, f"model={model}", "ood=gaussian")  # evaluates what is fitted already
    assert fitted_classes == ["Classifier", "PostHocModel"]


def test_members_of_an_ensemble_are_trainings_of_their_model(tmp_path, fitted_classes):
    """Initialisation 1 of an ensemble of two consists of the initialisations 2 and 3 of its member."""
    runs = [run_tiny(tmp_path, "model=gcn", f"init={init}") for init in (2, 3)]
    ensemble = run_tiny(tmp_path, "model=gcn_ensemble", "model.num_members=2", "init=1")
    assert fitted_classes == ["Classifier", "Classifier", "Ensemble"]
    means = [SavedRun.open(outcome.folder).posterior.mean for outcome in runs]
    posterior = SavedRun.open(ensemble.folder).posterior
    torch.testing.assert_close(posterior.mean, torch.stack(means).mean(dim=0))
    assert posterior.eu().max() > 0
    members_cpu = sum(outcome.result.cpu_seconds["train"] for outcome in runs)
    assert ensemble.result.cpu_seconds["train"] >= members_cpu - 0.001  # an ensemble costs what its members cost


def test_a_teacher_is_the_training_of_its_model(tmp_path, fitted_classes):
    run_tiny(tmp_path, "model=gcn")
    run_tiny(tmp_path, "model=sgcn")
    assert fitted_classes == ["Classifier", "SGCN"]


def test_steps_can_be_added_to_composite_models(tmp_path, fitted_classes):
    run_tiny(tmp_path, "model=gcn_ensemble", "model.num_members=2")
    run_tiny(tmp_path, "model=gcn_ensemble", "model.num_members=2", "posthoc=temperature")
    assert fitted_classes == ["Classifier", "Classifier", "Ensemble", "PostHocModel"]


@pytest.mark.parametrize("step", STEPS)
def test_a_step_changes_the_identity_of_a_run_but_not_of_its_training(step):
    plain, changed = (locate_run(plan_run(compose(*TINY, f"posthoc={name}"))) for name in ("none", step))
    assert plain.run_id != changed.run_id
    (base,) = changed.plan.parts
    assert (base.model_class, base.model_options, base.seed) == (
        plain.plan.model_class,
        plain.plan.model_options,
        plain.plan.seed,
    )


def test_without_steps_a_config_has_no_parts():
    assert plan_run(compose(*TINY)).parts == ()


@pytest.mark.parametrize("model", ["gcn", "lop_gpn", "gkde"])
@pytest.mark.parametrize("step", STEPS)
def test_a_saved_run_predicts_with_its_steps(tmp_path, model, step):
    outcome = run_tiny(tmp_path, f"model={model}", f"posthoc={step}")
    saved = SavedRun.open(outcome.folder)
    limits = fit_validation_limits(saved.predictions, declared=saved.declared_measures)
    table = predict_run(saved, limits).table
    measures = [name for name in saved.predictions if name in table and name not in ("label", "part", "predicted")]
    pd.testing.assert_frame_equal(table[measures], saved.predictions[measures])
    if step != "temperature":
        sets = table["prediction_set"].map(lambda text: len(text.split("|")) if text else 0)
        assert (sets == table["set_size"]).all()
        assert 0.5 < outcome.result.metrics["sets/coverage"] <= 1


# Rule 1 of a fair benchmark: labels of test and OOD nodes take part in nothing.
@pytest.mark.parametrize(
    "overrides",
    [
        *([f"model={model}", *SMALL.get(model, [])] for model in config_names("model")),
        *([f"model={model}", f"posthoc={step}"] for model in ("gcn", "gpn_sym") for step in STEPS),
    ],
    ids="-".join,
)
@pytest.mark.parametrize("scenario", ["none", "leave_out_classes"])
def test_labels_of_test_and_ood_nodes_take_part_in_nothing(overrides, scenario):
    plan = plan_run(compose(*TINY, *overrides, f"ood={scenario}"))
    graph = plan.load_graphs().training
    is_hidden = (graph.part != Part.TRAIN) & (graph.part != Part.VAL)
    wrong = torch.where(graph.labels == 0, 1, 0)
    changed = graph.replace(labels=torch.where(is_hidden, wrong, graph.labels))
    assert not torch.equal(changed.labels, graph.labels)
    first, second = (fit_model(plan, data).module.model.predict(graph) for data in (graph, changed))
    assert torch.equal(first.mean, second.mean)
    for name in first.measures:
        assert torch.equal(first.measure(name), second.measure(name)), name
    if "set_size" in first.measures:
        assert torch.equal(first.prediction_sets, second.prediction_sets)
        assert first.set_threshold == second.set_threshold


@pytest.mark.parametrize(
    ("overrides", "message", "hint"),
    [
        (["model=gpn_sym", "model.encoder=gnc"], "model.encoder is 'gnc'", "model.encoder=gcn"),
        (["model=gkde", "+model.encoder=gcn"], "model.encoder is not an option of lopgpn_exp.models.GKDE", ""),
        (["model=gat", "model.heads=5"], "heads is 5", "model.heads=1"),
        (["model=gcn_ensemble", "model.num_members=1"], "num_members is 1", "model.num_members=10"),
        (["model=gnnsafe", "model.posthoc.energy_propagation.gamma=2"], "gamma is 2", "energy_propagation.gamma=0.5"),
        (["posthoc=aps", "posthoc.conformal.coverage=1.5"], "coverage is 1.5", "posthoc.conformal.coverage="),
        (
            ["model=gpn_sym", "+posthoc.e._target_=lopgpn_exp.posthoc.EnergyPropagation"],
            "e needs the logits of a model, and GPN has none",
            "model=gcn",
        ),
        (["+posthoc.e._target_=lopgpn_exp.models.GPN"], "which is not a post-hoc step", ""),
        (
            ["model=gcn", "+model.optimizer._target_=torch.optim.Adm"],
            "_target_ is 'torch.optim.Adm'",
            "torch.optim.Adam",
        ),
        (["model=gcn", "+model.optimizer._target_=os.system"], "_target_ is 'os.system'", "torch.optim."),
        (
            ["model=gcn", "+model.optimizer._target_=torch.optim.SGD", "+model.optimizer.mass=1"],
            "model.optimizer.mass is not an option of torch.optim.SGD",
            "",
        ),
        (["model=gcn", "model.measures.total=3"], "model.measures has total: 3", ""),
        (["model=gcn", "model.measures=3"], "model.measures is 3", "model.measures.total=tu"),
        (["model=gnnsafe", "model.posthoc=3"], "model.posthoc is 3", ""),
        (["model=gcn", "+model.posthoc=[1]"], "model.posthoc is [1]", ""),
        (["+posthoc.type._target_=lopgpn_exp.posthoc.TemperatureScaling"], "posthoc has a step named 'type'", ""),
        (["model=sgcn", "model.teacher=null"], "model.teacher is not set", ""),
        (["model=sgcn", "model.teacher.hidden_dim=0"], "hidden_dim is 0", "model.teacher.hidden_dim=64"),
        (
            ["model=gcn", "+model.member.name=x", "+model.member._target_=lopgpn_exp.models.GKDE"],
            "model.member is set",
            "",
        ),
        *(
            (["model=gcn", f"+model.optimizer._target_=torch.optim.{name}"], f"'torch.optim.{name}'", "torch.optim.")
            for name in ("LBFGS", "Rprop", "SparseAdam")
        ),
    ],
)
def test_wrong_methods_are_refused_before_training(overrides, message, hint):
    with pytest.raises(InputError) as raised:
        plan_run(compose(*TINY, *overrides))
    assert message in raised.value.what
    assert hint in raised.value.hint


def test_too_few_validation_nodes_are_reported_before_training_with_the_coverage_that_is_possible(
    tmp_path, fitted_classes
):
    """45 validation nodes of 300 guarantee a coverage of at most 45/46 = 0.978."""
    with pytest.raises(InputError) as raised:
        run_tiny(tmp_path, "model=gcn", "posthoc=aps", "posthoc.conformal.coverage=0.99")
    assert not fitted_classes
    assert "0.97" in str(raised.value)
    assert "posthoc.conformal.coverage=0.97" in raised.value.hint


def test_a_declared_measure_that_does_not_exist_is_reported(tmp_path):
    with pytest.raises(InputError, match=r"model.measures.epistemic is 'eu', which the posterior does not have"):
        run_tiny(tmp_path, "model=gcn", "model.measures.epistemic=eu")


def test_other_optimisers_of_torch_can_be_used(tmp_path):
    choices = [[], *([f"+model.optimizer._target_=torch.optim.{name}"] for name in ("Adam", "AdamW"))]
    results = [run_tiny(tmp_path, "model=gcn", *options).result for options in choices]
    assert len({result.run_id for result in results}) == 3
    assert results[0].metrics == results[1].metrics
    assert results[0].metrics != results[2].metrics
    momentum = run_tiny(
        tmp_path, "model=gcn", "+model.optimizer._target_=torch.optim.SGD", "+model.optimizer.momentum=0.9"
    )
    assert momentum.result.epochs > 0


def test_code_of_others_is_found_wherever_a_config_names_it():
    config = compose(*TINY, "model=gcn_ensemble", "posthoc=aps")
    assert find_foreign_targets(config) == {}
    config["model"]["member"]["_target_"] = "os.system"
    config["posthoc"]["conformal"]["_target_"] = "os.popen"
    assert find_foreign_targets(config) == {"model.member": "os.system", "posthoc.conformal": "os.popen"}


def test_a_step_named_like_an_optimizer_is_code_of_others_too():
    config = compose(*TINY, "model=gcn")
    config["posthoc"] = {"optimizer": {"_target_": "os.popen"}}
    config["model"]["optimizer"] = {"_target_": "torch.optim.AdamW"}
    assert find_foreign_targets(config) == {"posthoc.optimizer": "os.popen"}


def test_the_code_of_a_users_step_counts_within_a_member():
    ids = []
    for version in (1, 2):
        config = compose(*TINY, "model=gcn_ensemble", "model.num_members=2")
        step = {"_target_": "lopgpn_exp.posthoc.TemperatureScaling", "code_version": version}
        config["model"]["member"]["posthoc"] = {"temperature": step}
        ids.append(locate_run(plan_run(config)).training_id)
    assert ids[0] != ids[1]


def test_the_order_of_steps_is_part_of_the_identity_of_a_run():
    config = compose(*TINY, "model=gcn", "posthoc=aps")
    steps = {**config["posthoc"], "temperature": {"_target_": "lopgpn_exp.posthoc.TemperatureScaling"}}
    configs = [config | {"posthoc": dict(items)} for items in (steps.items(), reversed(steps.items()))]
    first, second = (locate_run(plan_run(config)) for config in configs)
    assert first.training_id != second.training_id
    assert lookup_key(configs[0]) != lookup_key(configs[1])


def test_an_option_at_the_default_of_a_base_class_is_part_of_the_identity():
    """The encoder of CUQ-GNN is APPNP unless it is set, that of other posterior networks an MLP."""
    default, mlp = (
        locate_run(plan_run(compose(*TINY, "model=cuq_appnp", option))).training_id
        for option in ("~model.encoder", "model.encoder=mlp")
    )
    assert default != mlp


def test_energies_cannot_be_spread_after_a_step_that_replaces_the_logits(tmp_path):
    with pytest.raises(InputError, match="an earlier post-hoc step has replaced the logits"):
        run_tiny(tmp_path, "model=gcn_dropout", "+posthoc.e._target_=lopgpn_exp.posthoc.EnergyPropagation")


@pytest.mark.parametrize("step", ["temperature", "aps"])
def test_a_split_without_validation_nodes_is_reported_as_a_property_of_the_split(step):
    plan = plan_run(compose(*TINY, "model=gcn", f"posthoc={step}"))
    graph = plan.load_graphs().training
    graph = graph.replace(part=torch.where(graph.part == Part.VAL, Part.TEST, graph.part))
    with pytest.raises(InputError) as raised:
        check_composite(plan, graph)
    assert raised.value.hint == "split=random"


def test_runs_of_evaluation_scenarios_share_a_composite_training(tmp_path):
    first, second = (run_tiny(tmp_path, "model=gnnsafe", f"ood={name}").result for name in ("none", "gaussian"))
    assert first.training_id == second.training_id
    assert run(plan_run(compose(*TINY, f"output_dir={tmp_path}", "model=gnnsafe"))).is_cached
