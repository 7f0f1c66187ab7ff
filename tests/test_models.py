"""The contract of every model config. A new model: one file, one YAML, and one entry in MODELS."""

from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir

from lopgpn_exp.cli import config_dir
from lopgpn_exp.errors import InputError
from lopgpn_exp.experiment import schema
from lopgpn_exp.experiment.build import plan
from lopgpn_exp.graph import Part, symmetric
from lopgpn_exp.models import APPNP, GPN, LOPGPN, ClosedFormModel
from lopgpn_exp.posterior import Categorical, Dirichlet, DirichletMixture, GaussianSimplex
from lopgpn_exp.training import fit, load_module
from lopgpn_exp.training.module import model_type
from tests.test_ppr import permuted

MODELS = {
    "lop_gpn": DirichletMixture,
    "gpn_sym": Dirichlet,
    "gpn_rw": Dirichlet,
    "appnp": Categorical,
    "gkde": Dirichlet,
    "matern_ggp": GaussianSimplex,
}
# Small enough for a graph of 300 nodes; everything else as configured.
SMALL = {"matern_ggp": ["model.num_eigenpairs=100"]}
each_model = pytest.mark.parametrize("name", MODELS)
GRADIENT = ("lop_gpn", "gpn_sym", "gpn_rw", "appnp")
each_trained_model = pytest.mark.parametrize("name", GRADIENT)


def composed(*overrides: str):
    schema.register()
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        return compose("config", overrides=list(overrides))


def fitted(name: str, graph, *, max_epochs: int = 8, seed: int = 0, checkpoint_path: Path | None = None):
    planned = plan(composed(f"model={name}", *SMALL.get(name, [])))
    dims = {"num_features": graph.num_features, "num_classes": graph.num_classes}
    return fit(
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


def same_state(one, two, graph) -> bool:
    """The same parameters and, bit for bit, the same predictions."""
    pairs = zip(one.model.parameters(), two.model.parameters(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs) and torch.equal(
        one.model.predict(graph).mean, two.model.predict(graph).mean
    )


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
    """A trained model is applied to the renamed graph; one that knows only its own graph is fitted to it anew.

    Matern-GGP's mean-field family lives in Cholesky coordinates, which depend on the order of the training nodes: there
    only the other nodes are renamed.
    """
    module = fitted(name, small_graph)
    order = torch.randperm(300, generator=torch.Generator().manual_seed(0))
    if name == "matern_ggp":
        others = torch.nonzero(small_graph.part != Part.TRAIN).flatten()
        order = torch.arange(300).scatter(0, others, others[order[: len(others)].argsort()])
    other = permuted(small_graph, order)
    plain = module.model.predict(small_graph)
    again = fitted(name, other) if isinstance(module.model, ClosedFormModel) else module
    renamed = again.model.predict(other)
    loose = 0.02 if name == "matern_ggp" else 1e-4  # its optimiser stops by the bound, which rounding moves
    torch.testing.assert_close(renamed.mean[order], plain.mean, rtol=loose, atol=loose)
    for measure in plain.measures:
        torch.testing.assert_close(
            renamed.measure(measure)[order], plain.measure(measure), rtol=10 * loose, atol=10 * loose
        )


@each_trained_model
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
    assert same_state(clean, dirty, small_graph)
    torch.testing.assert_close(clean.model.predict(small_graph).mean, dirty.model.predict(poisoned).mean)


@each_model
def test_same_seed_same_bits_other_seed_other_bits(name, small_graph):
    torch.manual_seed(123)
    first = fitted(name, small_graph, seed=1)
    before = torch.random.get_rng_state()
    second = fitted(name, small_graph, seed=1)
    assert same_state(first, second, small_graph)
    assert torch.equal(torch.random.get_rng_state(), before)
    if not isinstance(first.model, ClosedFormModel):
        assert not same_state(first, fitted(name, small_graph, seed=2), small_graph)


@each_model
def test_a_checkpoint_opens_as_the_same_model(name, small_graph, tmp_path):
    module = fitted(name, small_graph, checkpoint_path=tmp_path / "model.ckpt")
    again = load_module(tmp_path / "model.ckpt")
    assert type(again) is type(module)
    assert type(again.model) is type(module.model)
    assert same_state(module, again, small_graph)


@each_model
def test_training_learns(name, small_graph):
    test = small_graph.nodes(Part.TEST)

    def accuracy(module):
        return (module.model.predict(small_graph).mean.argmax(1) == small_graph.labels)[test].float().mean()

    assert accuracy(fitted(name, small_graph, max_epochs=80)) > (0.8 if name in GRADIENT else 0.6)  # features or none


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


@each_trained_model
def test_the_literal_power_of_the_paper_is_an_option(name, small_graph):
    """It reaches the model, and the model does something else with it."""
    means = []
    for scheme in ("recursion", "power"):
        planned = plan(composed(f"model={name}", f"model.dispersion={scheme}"))
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model = model_type(planned.model_class)(num_features=12, num_classes=3, **planned.model_options)
        means.append(model.predict(small_graph).mean)
    assert (means[0] - means[1]).abs().max() > 1e-3


@pytest.mark.parametrize("scheme", ["recursion", "power"])
def test_gpn_adds_one_to_the_dispersed_evidence(small_graph, scheme):
    """By the dense polynomial of the symmetric operator, from its definition."""
    model = GPN(num_features=12, num_classes=3, dispersion=scheme)
    evidence = 10 * torch.rand(300, 3, generator=torch.Generator().manual_seed(0))
    model.feature_evidence = lambda _: evidence
    a, eye = torch.from_numpy(symmetric(small_graph).toarray()), torch.eye(300, dtype=torch.float64)
    matrix = torch.linalg.matrix_power(0.1 * eye + 0.9 * a, 10)
    if scheme == "recursion":
        matrix = 0.1 * sum(torch.linalg.matrix_power(0.9 * a, step) for step in range(10))
        matrix += torch.linalg.matrix_power(0.9 * a, 10)
    torch.testing.assert_close(model.predict(small_graph).alpha, (1 + matrix @ evidence.double()).float())


@pytest.mark.parametrize("what", ["logits", "probabilities"])
def test_extreme_features_give_appnp_a_large_cross_entropy_not_an_infinite_one(build_graph, what):
    """A softmax that is exactly 0 in float32; the unlikely class costs at least what the smallest float does."""
    graph = build_graph([(0, 1)], [[1e6], [1e6]], [0, 1])
    model = APPNP(num_features=1, num_classes=2, hidden_dim=1, disperse_what=what).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(1.0)
        model.encoder.latent.weight.copy_(torch.tensor([[1.0], [-1.0]]))
    losses = model.predict(graph).expected_cross_entropy(torch.tensor([0, 1]))
    assert losses[0] == 0
    assert 87 < losses[1] < torch.inf  # -log(1.2e-38) = 87.3


@pytest.mark.parametrize("what", ["logits", "probabilities"])
def test_what_appnp_disperses(build_graph, what):
    """Two nodes whose A-hat is 1/2 everywhere: Pi mixes them 0.55 to 0.45."""
    graph = build_graph([(0, 1)], [[1.0], [0.0]], [0, 1])
    model = APPNP(num_features=1, num_classes=2, disperse_what=what)
    logits = torch.tensor([[3.0, 0.0], [-1.0, 1.0]])
    model.encoder.forward = lambda _: logits
    mix = torch.tensor([[0.55, 0.45], [0.45, 0.55]])
    expected = (mix @ logits).softmax(1) if what == "logits" else mix @ logits.softmax(1)
    torch.testing.assert_close(model.predict(graph).mean, expected)


@pytest.mark.parametrize("model_class", [GPN, LOPGPN])
def test_the_loss_is_cross_entropy_minus_weighted_entropy(model_class, two_singles):
    """On isolated nodes both posteriors are the Dirichlets themselves; torch knows their entropy, we draw the rest."""
    model = model_class(num_features=1, num_classes=2, entropy_weight=0.5)
    evidence = torch.tensor([[4.0, 2.0], [1.0, 9.0]])
    model.feature_evidence = lambda _: evidence
    labels = torch.tensor([0, 0])
    loss = model.node_loss(model.predict(two_singles), labels)
    dirichlet = torch.distributions.Dirichlet(1 + evidence.double())
    with torch.random.fork_rng():
        torch.manual_seed(0)
        cross_entropy = -dirichlet.sample((400_000,))[:, :, 0].log().mean(dim=0)
    torch.testing.assert_close(loss.double(), cross_entropy - 0.5 * dirichlet.entropy(), rtol=0, atol=0.01)


@pytest.fixture
def two_singles(build_graph):
    return build_graph([], [[1.0], [1.0]], [0, 1])


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
