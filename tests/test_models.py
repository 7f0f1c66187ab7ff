"""The contract of every model config. A new model: one file, one YAML, and one entry in MODELS."""

from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir

from lopgpn_exp.cli import config_dir
from lopgpn_exp.errors import InputError
from lopgpn_exp.experiment import schema
from lopgpn_exp.experiment.build import plan
from lopgpn_exp.graph import Part
from lopgpn_exp.models import GPN, LOPGPN
from lopgpn_exp.posterior import Categorical, Dirichlet, DirichletMixture
from lopgpn_exp.training import NodeClassification, fit_by_gradient
from tests.test_ppr import permuted

MODELS = {"lop_gpn": DirichletMixture, "gpn_sym": Dirichlet, "gpn_rw": Dirichlet, "appnp": Categorical}
each_model = pytest.mark.parametrize("name", MODELS)


def composed(*overrides: str):
    schema.register()
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        return compose("config", overrides=list(overrides))


def fitted(name: str, graph, *, max_epochs: int = 8, seed: int = 0, checkpoint_path: Path | None = None):
    planned = plan(composed(f"model={name}"))
    dims = {"num_features": graph.num_features, "num_classes": graph.num_classes}
    return fit_by_gradient(
        graph,
        model_class=planned.model_class,
        model_options=planned.model_options | dims,
        optimizer=planned.optimizer,
        seed=seed,
        max_epochs=max_epochs,
        accelerator="cpu",
        progress=False,
        checkpoint_path=checkpoint_path,
    ).module


def same_state(one, two) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), two.state_dict().values(), strict=True))


def test_every_model_config_has_an_entry():
    assert set(MODELS) == {path.stem for path in (config_dir() / "model").glob("*.yaml")}


@each_model
def test_a_model_returns_its_posterior_with_sane_measures(name, small_graph):
    posterior = fitted(name, small_graph).model.predict(small_graph)
    assert type(posterior) is MODELS[name]
    assert posterior.mean.shape == (300, 3)
    torch.testing.assert_close(posterior.mean.sum(1).double(), torch.ones(300, dtype=torch.float64), atol=1e-5, rtol=0)
    values = {measure: posterior.measure(measure) for measure in posterior.measures}
    assert all(value.dtype == torch.float64 and bool(torch.isfinite(value).all()) for value in values.values())
    if "eu" in values:
        assert (values["eu"] >= 0).all()
        assert (values["au"] <= values["tu"] + 1e-9).all()


@each_model
def test_renaming_nodes_renames_the_predictions(name, small_graph):
    module = fitted(name, small_graph)
    order = torch.randperm(300, generator=torch.Generator().manual_seed(0))
    plain = module.model.predict(small_graph)
    renamed = module.model.predict(permuted(small_graph, order))
    torch.testing.assert_close(renamed.mean[order], plain.mean, rtol=1e-4, atol=1e-6)
    for measure in plain.measures:
        torch.testing.assert_close(renamed.measure(measure)[order], plain.measure(measure), rtol=1e-3, atol=1e-4)


@each_model
def test_the_posterior_of_some_nodes_is_that_part_of_all(name, small_graph):
    model = fitted(name, small_graph).model.eval()
    nodes = torch.tensor([250, 5, 17, 0])
    with torch.no_grad():
        some = model(model.prepare(small_graph, nodes=nodes))
    torch.testing.assert_close(some.mean.float(), model.predict(small_graph).mean[nodes].float(), rtol=1e-5, atol=1e-6)


@each_model
def test_labels_outside_training_and_validation_are_never_read(name, small_graph):
    hidden = (small_graph.part != Part.TRAIN) & (small_graph.part != Part.VAL)
    poisoned = small_graph.replace(labels=torch.where(hidden, (small_graph.labels + 1) % 3, small_graph.labels))
    clean, dirty = fitted(name, small_graph), fitted(name, poisoned)
    assert same_state(clean, dirty)
    torch.testing.assert_close(clean.model.predict(small_graph).mean, dirty.model.predict(poisoned).mean)


@each_model
def test_same_seed_same_bits_other_seed_other_bits(name, small_graph):
    torch.manual_seed(123)
    first = fitted(name, small_graph, seed=1)
    before = torch.random.get_rng_state()
    second = fitted(name, small_graph, seed=1)
    assert same_state(first, second)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert not same_state(first, fitted(name, small_graph, seed=2))


@each_model
def test_a_checkpoint_opens_as_the_same_model(name, small_graph, tmp_path):
    module = fitted(name, small_graph, checkpoint_path=tmp_path / "model.ckpt")
    again = NodeClassification.load_from_checkpoint(tmp_path / "model.ckpt", weights_only=True)
    assert type(again.model) is type(module.model)
    assert same_state(module, again)
    torch.testing.assert_close(again.model.predict(small_graph).mean, module.model.predict(small_graph).mean)


@each_model
def test_training_lowers_the_loss_and_learns(name, small_graph):
    test = small_graph.nodes(Part.TEST)

    def accuracy(module):
        return (module.model.predict(small_graph).mean.argmax(1) == small_graph.labels)[test].float().mean()

    assert accuracy(fitted(name, small_graph, max_epochs=80)) > 0.8


@pytest.mark.parametrize("delta", [0.0, 0.01])
def test_lop_gpn_trains_on_the_rows_in_use_as_if_on_all(small_graph, delta):
    """Loss and gradients from the restricted rows equal those of the full posterior at the same nodes."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = LOPGPN(num_features=12, num_classes=3, prune_threshold=delta).eval()
    nodes = small_graph.nodes(Part.TRAIN)
    labels = small_graph.labels[nodes]
    gradients = []
    for posterior in (
        model(model.prepare(small_graph, nodes=nodes)),
        model(model.prepare(small_graph))[nodes],
    ):
        loss = model.node_loss(posterior, labels).sum()
        gradients.append(torch.autograd.grad(loss, list(model.parameters())))
    for ours, full in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, full, rtol=1e-3, atol=1e-4)


def test_sparse_and_dense_features_give_the_same_model(small_graph, monkeypatch):
    from lopgpn_exp.models import base

    sparse_features = small_graph.replace(features=small_graph.features * (small_graph.features > 0.5))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = GPN(num_features=12, num_classes=3)
    results = []
    for bound in (0.0, 1.1):
        monkeypatch.setattr(base, "SPARSE_FEATURES_BELOW", bound)
        results.append(model.predict(sparse_features).alpha)
    torch.testing.assert_close(results[0], results[1])


@each_model
def test_the_literal_power_of_the_paper_is_an_option(name, small_graph):
    planned = plan(composed(f"model={name}", "model.dispersion=power"))
    assert planned.model_options["dispersion"] == "power"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dropout": 1.5}, "dropout is 1.5"),
        ({"hidden_dim": 0}, "hidden_dim is 0"),
        ({"latent_dim": 0}, "latent_dim is 0"),
        ({"flow_layers": 0}, "flow_layers is 0"),
        ({"entropy_weight": -1.0}, "entropy_weight is -1"),
    ],
)
def test_senseless_hyper_parameters_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        LOPGPN(num_features=2, num_classes=2, **options)
