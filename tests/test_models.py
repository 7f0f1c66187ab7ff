"""The contract of every model config (`lopgpn_exp.testing`). A new model: one file, one YAML, one entry in MODELS."""

from functools import cache

import pytest
import torch

from lopgpn_exp import cli
from lopgpn_exp.cli import config_dir
from lopgpn_exp.errors import InputError
from lopgpn_exp.experiment.build import plan
from lopgpn_exp.graph import Part, symmetric
from lopgpn_exp.models import APPNP, GPN, LOPGPN
from lopgpn_exp.posterior import Categorical, Dirichlet, DirichletMixture, GaussianSimplex
from lopgpn_exp.testing import PROMISES, Report, Terms
from lopgpn_exp.testing.contract import trial_of_config
from lopgpn_exp.testing.examine import examined
from lopgpn_exp.testing.trial import Trial
from lopgpn_exp.training import ClosedFormClassification, NodeClassification, module_type
from lopgpn_exp.training.module import model_type

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
GRADIENT = ("lop_gpn", "gpn_sym", "gpn_rw", "appnp")
FEATURES_OR_NONE = {True: 0.8, False: 0.6}  # accuracy that a model with features must reach, and one without
TERMS = {name: Terms(accuracy=FEATURES_OR_NONE[name in GRADIENT]) for name in MODELS} | {
    "matern_ggp": Terms(
        rename_training_nodes=False,  # its mean-field family lives in Cholesky coordinates, which depend on their order
        tolerance=0.02,  # its optimiser stops by the bound, which rounding moves
    )
}
each_model = pytest.mark.parametrize("name", MODELS)
each_trained_model = pytest.mark.parametrize("name", GRADIENT)


def composed(*overrides: str):
    return cli.composed(overrides)


@cache
def trial(name: str) -> Trial:
    return trial_of_config(name, tuple(SMALL.get(name, [])), terms=TERMS[name])


@cache
def report(name: str) -> Report:
    return examined(trial(name))


def test_every_model_config_has_an_entry():
    assert set(MODELS) == {path.stem for path in (config_dir() / "model").glob("*.yaml")}


@pytest.mark.parametrize("promise", [promise.name for promise in PROMISES])
@each_model
def test_a_model_keeps_its_promise(name, promise):
    asked = [outcome.name for outcome in report(name).outcomes]
    only_of_the_other_kind = {"features"} if name in GRADIENT else {"other_seed", "some_nodes", "other_graphs", "loss"}
    assert (promise in asked) == (promise not in only_of_the_other_kind)
    if promise in asked:
        report(name)[promise].raise_if_broken()
        assert report(name)[promise].status == "kept"


@each_model
def test_a_model_returns_its_posterior_and_is_trained_as_its_kind(name):
    assert type(trial(name).posterior) is MODELS[name]
    assert module_type(trial(name).model_class) is (
        NodeClassification if name in GRADIENT else ClosedFormClassification
    )


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
