"""Early stopping, warm-up, optimiser groups, losses, signals, and the import of model classes."""

import math
import signal
import subprocess
import sys
import time
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Part
from lopgpn_exp.models import APPNP, GKDE, GPN
from lopgpn_exp.training import NodeClassification, fit, load_module
from lopgpn_exp.training.epoch_loop import EpochLoop
from lopgpn_exp.training.fit import _prepare_batch, _train, _warm_up
from lopgpn_exp.training.history import MAX_POINTS, thin_points


def options(graph):
    return {"num_features": graph.num_features, "num_classes": graph.num_classes}


def gpn_module(graph, **optimizer):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return NodeClassification(model_class="lopgpn_exp.models.GPN", model_options=options(graph), **optimizer)


class ScriptedValidation(NodeClassification):
    """Trains as usual, but takes its validation values from a list, and stores the weights of each epoch."""

    val_values = (3.0, 2.0, 2.5, 2.0, 9.0, 0.0)

    def validate(self, batch):
        assert not self.model.training
        assert not torch.is_grad_enabled()
        self.weights = [*getattr(self, "weights", []), self.model.encoder.latent.weight.detach().clone()]
        return self.val_values[len(self.weights) - 1]


def train_scripted(graph, seconds_per_run=EpochLoop.SECONDS_PER_RUN, **options_of_loop):
    """Return the module and the loop of a training with scripted validation values."""
    torch.manual_seed(0)
    module = ScriptedValidation(model_class="lopgpn_exp.models.GPN", model_options=options(graph))
    module.model.observe(graph.labels[graph.nodes(Part.TRAIN)])
    batches = [_prepare_batch(module.model, graph, part, None) for part in (Part.TRAIN, Part.VAL)]
    loop = EpochLoop(*batches, **options_of_loop)
    loop.SECONDS_PER_RUN = seconds_per_run
    _train(module, loop, "cpu")
    loop.restore_best(module)
    return module, loop


def test_training_stops_after_patience_and_restores_the_best_state(small_graph):
    """3, 2, 2.5, 2, 9 with patience 3: the second is best, an equal value is no improvement, and there is no sixth."""
    module, loop = train_scripted(small_graph, max_epochs=100, patience=3, first_epoch=5)
    assert len(module.weights) == loop.num_epochs == 5
    assert (loop.best, loop.best_epoch) == (2.0, 2)
    assert torch.equal(module.model.encoder.latent.weight, module.weights[1])
    assert not torch.equal(module.weights[1], module.weights[4])
    points = loop.history.points()
    assert points["training/val_nll"] == [[6, 3.0], [7, 2.0], [8, 2.5], [9, 2.0], [10, 9.0]]  # after 5 warm-up epochs
    assert [epoch for epoch, _ in points["training/loss"]] == [6, 7, 8, 9, 10]
    assert points["training/loss"][-1][1] == module.train_loss


def test_validations_every_second_epoch_count_for_the_patience(small_graph):
    _, loop = train_scripted(small_graph, max_epochs=100, patience=3, validate_every=2)
    assert loop.num_epochs == 10
    assert loop.best_epoch == 4
    assert loop.history.points()["training/val_nll"][0] == [2, 3.0]


def test_the_number_of_epochs_per_lightning_step_changes_no_bit(small_graph):
    (one, loop), (many, other) = (
        train_scripted(small_graph, seconds, max_epochs=4, patience=9) for seconds in (0.0, 60.0)
    )
    assert loop.history.points() == other.history.points()
    for name, value in one.state_dict().items():
        assert torch.equal(value, many.state_dict()[name]), name


def test_training_equals_a_plain_loop_over_data_loaders_to_the_bit(small_graph):
    """The draws of a DataLoader included, which the dropout of the published runs depends on."""
    epochs, options_of_model = 4, options(small_graph)
    result = fit(
        small_graph,
        model_class="lopgpn_exp.models.APPNP",
        model_options=options_of_model,
        optimizer={"learning_rate": 0.01},
        seed=3,
        max_epochs=epochs,
        accelerator="cpu",
        progress=False,
    )
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = APPNP(**options_of_model)
        train, val = (
            DataLoader([_prepare_batch(model, small_graph, part, None)], batch_size=None)
            for part in (Part.TRAIN, Part.VAL)
        )
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01, fused=True)
        val_losses = []
        for _ in range(epochs):
            for batch in train:
                optimizer.zero_grad()
                model.node_loss(model(batch.prepared), batch.labels).mean().backward()
                optimizer.step()
            for batch in val:
                with model.evaluation_mode():
                    val_losses.append(model(batch.prepared).cross_entropy(batch.labels).mean().item())
    assert [value for _, value in result.history["training/val_nll"]] == val_losses
    assert min(val_losses) == val_losses[-1]  # so that the best state is the last
    for name, value in model.state_dict().items():
        assert torch.equal(value, result.module.model.state_dict()[name]), name


@given(length=st.integers(1, 900), lowest=st.integers(0, 899))
def test_thinned_history_contains_its_first_last_and_lowest_point(length, lowest):
    lowest %= length
    points = [[epoch, 0.0 if epoch == lowest else 1.0] for epoch in range(length)]
    thinned = thin_points(points, MAX_POINTS)
    assert len(thinned) <= MAX_POINTS
    assert all(point in thinned for point in (points[0], points[-1], points[lowest]))
    assert thinned == sorted(thinned)
    assert max(b[0] - a[0] for a, b in pairwise(thinned + thinned[-1:])) <= math.ceil(length / (MAX_POINTS - 2))


def test_warm_up_changes_only_the_flow(small_graph):
    module = gpn_module(small_graph, warmup_epochs=3)
    module.model.observe(small_graph.labels[small_graph.nodes(Part.TRAIN)])
    before = {name: value.clone() for name, value in module.model.named_parameters()}
    _warm_up(module, _prepare_batch(module.model, small_graph, Part.TRAIN, None), "cpu")
    for name, value in module.model.named_parameters():
        assert torch.equal(value, before[name]) != name.startswith("flow."), name
        assert value.requires_grad
    assert not module.is_warming_up


def test_flow_has_no_weight_decay_and_every_parameter_is_in_one_group(small_graph):
    module = gpn_module(small_graph, weight_decay=0.5)
    groups = module.configure_optimizers().param_groups
    decay = {id(parameter): group["weight_decay"] for group in groups for parameter in group["params"]}
    names = {name: decay[id(parameter)] for name, parameter in module.model.named_parameters()}
    assert len(decay) == sum(len(group["params"]) for group in groups)
    assert {name: 0.0 if name.startswith("flow.") else 0.5 for name in names} == names


def test_loss_is_summed_for_gpn_and_averaged_for_appnp(small_graph):
    for name, model_class, factor in [("GPN", GPN, 1), ("APPNP", APPNP, 60)]:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            module = NodeClassification(model_class=f"lopgpn_exp.models.{name}", model_options=options(small_graph))
        assert isinstance(module.model, model_class)
        batch = _prepare_batch(module.eval().model, small_graph, Part.TRAIN, None)
        per_node = module.model.node_loss(module.model(batch.prepared), batch.labels)
        assert len(per_node) == 60
        assert module.compute_loss(batch).item() == pytest.approx(per_node.sum().item() / factor, rel=1e-5)


def test_validation_value_is_the_mean_cross_entropy_of_validation_nodes(small_graph):
    module = gpn_module(small_graph).eval()
    batch = _prepare_batch(module.model, small_graph, Part.VAL, None)
    value = module.validate(batch)
    nodes = small_graph.nodes(Part.VAL)
    mean = module.model.predict(small_graph).mean[nodes, small_graph.labels[nodes]]
    assert value == module.val_cross_entropy == pytest.approx(-mean.log().mean().item(), rel=1e-5)


def test_diverged_training_names_node_class_and_layer(small_graph):
    module = gpn_module(small_graph).eval()
    module.model.encoder.latent.bias.data[3] = math.nan
    batch = _prepare_batch(module.model, small_graph, Part.TRAIN, None)
    with pytest.raises(InputError, match=r"loss of node \d+ \(class \d\) is nan.*encoder.latent.bias"):
        module.compute_loss(batch)


def test_first_layer_with_a_nan_output_is_named(small_graph):
    module = gpn_module(small_graph).eval()
    module.model.encoder.latent.register_forward_hook(lambda *_: torch.full((300, 16), math.nan))
    batch = _prepare_batch(module.model, small_graph, Part.TRAIN, None)
    with pytest.raises(InputError, match=r"first layer with such an output is encoder.latent"):
        module.compute_loss(batch)


@pytest.mark.parametrize(("part", "purpose"), [(Part.TRAIN, "training"), (Part.VAL, "validation")])
def test_split_without_training_or_validation_nodes_is_rejected(small_graph, part, purpose):
    graph = small_graph.replace(part=small_graph.part.masked_fill(small_graph.part == part, Part.NONE))
    with pytest.raises(InputError, match=f"no {purpose} nodes"):
        fit(
            graph,
            model_class="lopgpn_exp.models.GPN",
            model_options=options(graph),
            optimizer={},
            seed=0,
            accelerator="cpu",
        )


def test_training_lowers_the_loss(small_graph):
    def loss_after(epochs):
        optimizer = {"learning_rate": 0.01, "warmup_epochs": 1}
        result = fit(
            small_graph,
            model_class="lopgpn_exp.models.GPN",
            model_options=options(small_graph) | {"dropout": 0.0},
            optimizer=optimizer,
            seed=0,
            max_epochs=epochs,
            accelerator="cpu",
            progress=False,
        )
        return result.module.train_loss

    assert loss_after(40) < 0.7 * loss_after(1)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signal_ends_a_run_with_its_exit_code_and_a_message(tmp_path, number, code):
    overrides = ["dataset=synthetic", "dataset.num_nodes=300", "dataset.num_edges=700", "trainer.patience=100000"]
    process = subprocess.Popen(
        [sys.executable, "-m", "lopgpn_exp", *overrides, "tracking=none", f"output_dir={tmp_path}"],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    while process.poll() is None and not list((tmp_path / "trainings").glob(".*")):
        time.sleep(0.1)
    time.sleep(3)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert "kept" in err
    assert "Traceback" not in err
    assert not (tmp_path / "runs").exists()


def test_epochs_include_the_warm_up_and_respect_the_limit(small_graph):
    result = fit(
        small_graph,
        model_class="lopgpn_exp.models.GPN",
        model_options=options(small_graph),
        optimizer={"warmup_epochs": 2},
        seed=0,
        max_epochs=4,
        accelerator="cpu",
        progress=False,
    )
    assert result.epochs == 6
    assert set(result.seconds) == {"prepare", "train"}


class Outer:
    class Gradient(APPNP):
        pass

    class ClosedForm(GKDE):
        pass


@pytest.mark.parametrize("kind", [Outer.Gradient, Outer.ClosedForm])
def test_class_nested_in_a_class_is_trained_and_loaded(small_graph, tmp_path, kind):
    result = fit(
        small_graph,
        model_class=f"{__name__}.{kind.__qualname__}",
        model_options=options(small_graph),
        optimizer={"learning_rate": 0.01},
        seed=0,
        max_epochs=2,
        accelerator="cpu",
        progress=False,
        checkpoint_path=tmp_path / "model.ckpt",
    )
    assert type(result.module.model) is kind
    model = load_module(tmp_path / "model.ckpt", model_class=f"{__name__}.{kind.__qualname__}").model
    assert type(model) is kind
    assert torch.equal(model.predict(small_graph).mean, result.module.model.predict(small_graph).mean)
